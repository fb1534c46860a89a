// Lstm and its gradient: a product with the state before, then the gates of all units, a step at a
// time.
#include "device/cuda/recurrent.h"
#include "device/math/recurrent.h"

namespace ebb::device::cuda {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

// Unit i of a step: sequence i / hidden. A row of gates holds i, o, f, c at the places of `at`.
struct Gates {
  int64_t hidden, wide, at[4];
  EBB_INLINE int64_t Of(int64_t i, int gate) const {
    return i / hidden * wide + at[gate] + i % hidden;
  }
  static Gates From(const Recurrence& s) {
    return {s.hidden, s.wide, {s.at[0], s.at[1], s.at[2], s.at[3]}};
  }
};

struct Forward {
  Gates place;
  const float* before;  // cells; null: zeros
  float *gates, *cell, *y;
  EBB_INLINE void operator()(int64_t i) const {
    float *in = gates + place.Of(i, 0), *out = gates + place.Of(i, 1);
    float *forget = gates + place.Of(i, 2), *candidate = gates + place.Of(i, 3);
    const auto unit = LstmUnit::Of(*in, *out, *forget, *candidate,
                                   before == nullptr ? 0.0f : before[i]);
    *in = unit.i;
    *out = unit.o;
    *forget = unit.f;
    *candidate = unit.c;
    cell[i] = unit.cell;
    y[i] = unit.y;
  }
};

struct Backward {
  Gates place;
  const float *gates, *cell, *before, *dy, *dcell;  // the last three may be null: zeros
  const float* dh;                                  // of the step after
  float* dc;                                        // of the step after, then of the one before
  float* dpre;                                      // may be `gates`
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t in = place.Of(i, 0), out = place.Of(i, 1), forget = place.Of(i, 2);
    const int64_t candidate = place.Of(i, 3);
    const auto slopes = LstmSlopes::Of(
        gates[in], gates[out], gates[forget], gates[candidate], cell[i],
        before == nullptr ? 0.0f : before[i], dh[i] + (dy == nullptr ? 0.0f : dy[i]),
        dc[i] + (dcell == nullptr ? 0.0f : dcell[i]));
    dc[i] = slopes.before;
    dpre[in] = slopes.i;
    dpre[out] = slopes.o;
    dpre[forget] = slopes.f;
    dpre[candidate] = slopes.c;
  }
};

// (pre, r, [h0], [c0]) -> y, cells, gates.
struct LstmKernel {
  Recurrence s;
  ProductPtr product;
  absl::Status operator()(const Launch& at, const KernelArgs& args) const {
    float *y = OutPtr<float>(args), *cells = OutPtr<float>(args, 1);
    float* gates = OutPtr<float>(args, 2);
    const int64_t all = s.steps * s.WideSize();
    EBB_RETURN_IF_ERROR(ForEach(at, all, CopyOver{InPtr<float>(args), gates}));
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = s.Step(k);
      float* const now = gates + t * s.WideSize();
      if (const float* h = s.Before(y, InPtr<float>(args, 2), k); h != nullptr) {
        EBB_RETURN_IF_ERROR(product->Enqueue(at, {.a = h,
                                                  .b = InPtr<float>(args, 1),
                                                  .c = now,
                                                  .beta = 1,
                                                  .workspace = args.workspace}));
      }
      const float* before = s.Before(cells, InPtr<float>(args, 3), k);
      EBB_RETURN_IF_ERROR(ForEach(at, s.StateSize(),
                                  Forward{Gates::From(s), before, now,
                                          cells + t * s.StateSize(), y + t * s.StateSize()}));
    }
    return absl::OkStatus();
  }
};

// (gates, y, cells, r, [dy], [dcells], [h0], [c0]) -> dpre, dr, dh0, dc0. The last two carry the
// gradients from step to step.
struct LstmGradKernel {
  Recurrence s;
  ProductPtr back;
  WeightGrad weight;
  absl::Status operator()(const Launch& at, const KernelArgs& args) const {
    float *dpre = OutPtr<float>(args), *dr = OutPtr<float>(args, 1);
    float *dh = OutPtr<float>(args, 2), *dc = OutPtr<float>(args, 3);
    EBB_RETURN_IF_ERROR(ForEach(at, s.StateSize(), ZeroOut{dh}));
    EBB_RETURN_IF_ERROR(ForEach(at, s.StateSize(), ZeroOut{dc}));
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t t = s.Step(k);
      const auto row = [&](size_t input) {
        const auto* states = InPtr<float>(args, input);
        return states == nullptr ? nullptr : states + t * s.StateSize();
      };
      float* const now = dpre + t * s.WideSize();
      EBB_RETURN_IF_ERROR(ForEach(
          at, s.StateSize(),
          Backward{Gates::From(s), InPtr<float>(args) + t * s.WideSize(), row(2),
                   s.Before(InPtr<float>(args, 2), InPtr<float>(args, 7), k), row(4), row(5), dh,
                   dc, now}));
      EBB_RETURN_IF_ERROR(back->Enqueue(at, {.a = now,
                                             .b = InPtr<float>(args, 3),
                                             .c = dh,
                                             .workspace = args.workspace}));
    }
    if (weight.Nothing()) return ForEach(at, s.wide * s.hidden, ZeroOut{dr});
    return weight.Enqueue(at, s, dpre, s.wide, InPtr<float>(args, 1), InPtr<float>(args, 6), dr,
                          args.workspace);
  }
};

absl::StatusOr<CudaKernel> MakeLstm(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Recurrence s(RecurrenceForm::Of(graph, node, "iofc"));
  if (s.Empty()) return ZeroOutputs(graph, node);
  EBB_ASSIGN_OR_RETURN(const ProductPtr product, s.MakeForward(library, s.wide, s.wide));
  return MakeCudaKernel(LstmKernel{s, product}, product->workspace());
}

absl::StatusOr<CudaKernel> MakeLstmGrad(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Recurrence s(RecurrenceForm::Of(graph, node, "iofc"));
  if (s.Empty()) return ZeroOutputs(graph, node);
  EBB_ASSIGN_OR_RETURN(const ProductPtr back, s.MakeBack(library, s.wide, s.wide));
  EBB_ASSIGN_OR_RETURN(const WeightGrad weight,
                       WeightGrad::Make(library, s, s.wide, s.wide, HasInput(node, 6)));
  return MakeCudaKernel(LstmGradKernel{s, back, weight},
                        std::max(back->workspace(), weight.workspace()));
}

constexpr LibraryKernelRow kRows[] = {{"Lstm", MakeLstm}, {"LstmGrad", MakeLstmGrad}};

}  // namespace

absl::Span<const LibraryKernelRow> LstmKernels() { return kRows; }

}  // namespace ebb::device::cuda
