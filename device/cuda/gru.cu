// Gru and its gradient. With linear_before_reset the reset gate multiplies the product of the state
// and the candidate's rows of r; without it, the state before the product. What it multiplies, or
// has multiplied, is called mixed. The candidate's rows of r are the last in every order of gates.
#include "device/cuda/recurrent.h"
#include "device/math/recurrent.h"
#include "device/math/sums.h"

namespace ebb::device::cuda {
namespace {

using namespace math;  // NOLINT(google-build-using-namespace): the functors

struct Form : Recurrence {
  using Recurrence::Recurrence;
  bool linear = true;  // linear_before_reset
  int64_t gate_rows() const { return 2 * hidden; }
  int64_t candidate() const { return at[2]; }
};

// Places in a row of gates.
struct Gates {
  int64_t hidden, wide, z, r, candidate;
  EBB_INLINE int64_t Row(int64_t i) const { return i / hidden * wide + i % hidden; }
  static Gates From(const Form& s) { return {s.hidden, s.wide, s.at[0], s.at[1], s.at[2]}; }
};

// The gates z and r, and what the second product adds to: mixed or the candidate.
struct Open {
  Gates place;
  bool linear;
  const float *bias, *before;  // may be null: zeros
  float *gates, *mixed;
  EBB_INLINE float Bias(int64_t at) const { return bias == nullptr ? 0.0f : bias[at]; }
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = place.Row(i), unit = i % place.hidden;
    const float r = Sigmoid(gates[row + place.r] + Bias(place.r + unit));
    gates[row + place.z] = Sigmoid(gates[row + place.z] + Bias(place.z + unit));
    gates[row + place.r] = r;
    const float candidate = Bias(place.candidate + unit);
    if (linear) {
      mixed[i] = candidate;
    } else {
      mixed[i] = r * (before == nullptr ? 0.0f : before[i]);
      gates[row + place.candidate] += candidate;
    }
  }
};

struct Close {
  Gates place;
  bool linear;
  const float* before;  // null: zeros
  const float* mixed;
  float *gates, *y;
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = place.Row(i);
    float candidate = gates[row + place.candidate];
    if (linear) candidate += gates[row + place.r] * mixed[i];
    const auto unit =
        GruUnit::Of(gates[row + place.z], candidate, before == nullptr ? 0.0f : before[i]);
    gates[row + place.candidate] = unit.c;
    y[i] = unit.y;
  }
};

// (pre, r, [rb], [h0]) -> y, mixed, gates.
struct GruKernel {
  Form s;
  ProductPtr of_gates, of_candidate;
  absl::Status operator()(const Launch& at, const KernelArgs& args) const {
    float *y = OutPtr<float>(args), *gates = OutPtr<float>(args, 2);
    const int64_t all = s.steps * s.WideSize();
    EBB_RETURN_IF_ERROR(ForEach(at, all, CopyOver{InPtr<float>(args), gates}));
    for (int64_t k = 0; k < s.steps; ++k) EBB_RETURN_IF_ERROR(Step(at, args, k, y, gates));
    return absl::OkStatus();
  }

  absl::Status Step(const Launch& at, const KernelArgs& args, int64_t k, float* y,
                    float* gates) const {
    const int64_t t = s.Step(k);
    const float *r = InPtr<float>(args, 1), *h = s.Before(y, InPtr<float>(args, 3), k);
    const float* rows = r + s.gate_rows() * s.hidden;
    float* const now = gates + t * s.WideSize();
    float* const mixed = OutPtr<float>(args, 1) + t * s.StateSize();
    const Gates place = Gates::From(s);
    const auto add = [&](const Product& product, const float* a, const float* b, float* c) {
      return product.Enqueue(
          at, {.a = a, .b = b, .c = c, .beta = 1, .workspace = args.workspace});
    };
    if (h != nullptr) EBB_RETURN_IF_ERROR(add(*of_gates, h, r, now));
    EBB_RETURN_IF_ERROR(ForEach(at, s.StateSize(),
                                Open{place, s.linear, InPtr<float>(args, 2), h, now, mixed}));
    if (!s.linear) {
      EBB_RETURN_IF_ERROR(add(*of_candidate, mixed, rows, now + s.candidate()));
    } else if (h != nullptr) {
      EBB_RETURN_IF_ERROR(add(*of_candidate, h, rows, mixed));
    }
    return ForEach(at, s.StateSize(),
                   Close{place, s.linear, h, mixed, now, y + t * s.StateSize()});
  }
};

// ---- Backward.

// dz, the candidate's, and with linear_before_reset the reset gate's and mixed's.
struct Slopes {
  Gates place;
  bool linear;
  const float *gates, *mixed, *before, *dy;  // before may be null: zeros
  float *dpre, *dmixed, *dh;
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = place.Row(i);
    const auto slopes = GruSlopes::Of(gates[row + place.z], gates[row + place.candidate],
                                      before == nullptr ? 0.0f : before[i], dh[i] + dy[i]);
    const float r = gates[row + place.r];
    dpre[row + place.candidate] = slopes.c;
    dpre[row + place.z] = slopes.z;
    dh[i] = slopes.before;
    if (!linear) return;
    dmixed[i] = slopes.c * r;
    dpre[row + place.r] = ResetSlope(r, mixed[i], slopes.c);
  }
};

// Without linear_before_reset: through mixed = r h.
struct ResetBefore {
  Gates place;
  const float *gates, *dmixed, *before;  // before may be null: zeros
  float *dpre, *dh;
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = place.Row(i);
    const float r = gates[row + place.r];
    dpre[row + place.r] = ResetSlope(r, before == nullptr ? 0.0f : before[i], dmixed[i]);
    dh[i] += dmixed[i] * r;
  }
};

// The gradient of rb: of a gate's bias, what came to the gate; of the candidate's, what came to
// mixed, or to it.
struct BiasSum {
  using Sum = FloatSum;
  int64_t wide, gate_rows, hidden;
  bool linear;
  const float *dpre, *dmixed;
  float* drb;
  EBB_INLINE Sum Zero() const { return {0, 0}; }
  EBB_INLINE void Add(Sum& sum, int64_t key, int64_t i) const {
    sum.Add(linear && key >= gate_rows ? dmixed[i * hidden + key - gate_rows]
                                       : dpre[i * wide + key]);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t key, const Sum& sum) const { drb[key] = sum.Total(); }
};

// (gates, y, mixed, r, dy, [h0]) -> dpre, dr, drb, dh0. The last carries the gradient from step to
// step. Workspace: the gradients of mixed, of all steps or of one, then the products' or the sums'.
struct GruGradKernel {
  Form s;
  ProductPtr of_candidate, of_gates;
  WeightGrad gates_weight, candidate_weight;  // the latter only with linear_before_reset
  ProductPtr mixed_weight;                    // without

  int64_t MixedSize() const { return s.StateSize() * (s.linear ? s.steps : 1); }
  Bytes LibraryAt() const {
    return AlignUp(Bytes(MixedSize() * static_cast<int64_t>(sizeof(float))), Bytes(256));
  }
  Bytes workspace() const {
    Bytes most = SumsWorkspace<BiasSum>(SumsBy::kColumns, s.wide, s.steps * s.batch);
    most = std::max({most, of_candidate->workspace(), of_gates->workspace(),
                     gates_weight.workspace(), candidate_weight.workspace()});
    if (mixed_weight != nullptr) most = std::max(most, mixed_weight->workspace());
    return LibraryAt() + most;
  }

  absl::Status operator()(const Launch& at, const KernelArgs& args) const {
    auto* const dmixed = static_cast<float*>(args.workspace);
    void* const scratch = static_cast<char*>(args.workspace) + LibraryAt().count();
    EBB_RETURN_IF_ERROR(ForEach(at, s.StateSize(), ZeroOut{OutPtr<float>(args, 3)}));
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t offset = s.linear ? s.Step(k) * s.StateSize() : 0;
      EBB_RETURN_IF_ERROR(Step(at, args, k, dmixed + offset, scratch));
    }
    return Weights(at, args, dmixed, scratch);
  }

  absl::Status Step(const Launch& at, const KernelArgs& args, int64_t k, float* dmixed,
                    void* scratch) const {
    const int64_t t = s.Step(k);
    const Gates place = Gates::From(s);
    const float *gates = InPtr<float>(args) + t * s.WideSize(), *r = InPtr<float>(args, 3);
    const float* rows = r + s.gate_rows() * s.hidden;
    const float* before = s.Before(InPtr<float>(args, 1), InPtr<float>(args, 5), k);
    float *dpre = OutPtr<float>(args) + t * s.WideSize(), *dh = OutPtr<float>(args, 3);
    EBB_RETURN_IF_ERROR(
        ForEach(at, s.StateSize(),
                Slopes{place, s.linear, gates, InPtr<float>(args, 2) + t * s.StateSize(), before,
                       InPtr<float>(args, 4) + t * s.StateSize(), dpre, dmixed, dh}));
    if (s.linear) {
      EBB_RETURN_IF_ERROR(of_candidate->Enqueue(
          at, {.a = dmixed, .b = rows, .c = dh, .beta = 1, .workspace = scratch}));
    } else {
      EBB_RETURN_IF_ERROR(of_candidate->Enqueue(
          at, {.a = dpre + s.candidate(), .b = rows, .c = dmixed, .workspace = scratch}));
      EBB_RETURN_IF_ERROR(
          ForEach(at, s.StateSize(), ResetBefore{place, gates, dmixed, before, dpre, dh}));
    }
    return of_gates->Enqueue(at,
                             {.a = dpre, .b = r, .c = dh, .beta = 1, .workspace = scratch});
  }

  // dr and drb out of the gradients of all steps.
  absl::Status Weights(const Launch& at, const KernelArgs& args, const float* dmixed,
                       void* scratch) const {
    const float *y = InPtr<float>(args, 1), *h0 = InPtr<float>(args, 5);
    const float* dpre = OutPtr<float>(args);
    float *dr = OutPtr<float>(args, 1), *dcandidate = dr + s.gate_rows() * s.hidden;
    if (gates_weight.Nothing()) {
      EBB_RETURN_IF_ERROR(ForEach(at, s.wide * s.hidden, ZeroOut{dr}));
    } else {
      EBB_RETURN_IF_ERROR(gates_weight.Enqueue(at, s, dpre, s.wide, y, h0, dr, scratch));
    }
    if (!s.linear) {
      EBB_RETURN_IF_ERROR(mixed_weight->Enqueue(at, {.a = dpre + s.candidate(),
                                                     .b = InPtr<float>(args, 2),
                                                     .c = dcandidate,
                                                     .workspace = scratch}));
    } else if (!candidate_weight.Nothing()) {
      EBB_RETURN_IF_ERROR(
          candidate_weight.Enqueue(at, s, dmixed, s.hidden, y, h0, dcandidate, scratch));
    }
    return Sums(at, SumsBy::kColumns, s.wide, s.steps * s.batch,
                BiasSum{s.wide, s.gate_rows(), s.hidden, s.linear, dpre, dmixed,
                        OutPtr<float>(args, 2)},
                scratch);
  }
};

Form FormOf(const Graph& graph, const Node& node) {
  Form s(RecurrenceForm::Of(graph, node, "zrh"));
  s.linear = node.attrs.Int("linear_before_reset", 1) != 0;
  return s;
}

absl::StatusOr<CudaKernel> MakeGru(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Form s = FormOf(graph, node);
  if (s.Empty()) return ZeroOutputs(graph, node);
  EBB_ASSIGN_OR_RETURN(const ProductPtr gates, s.MakeForward(library, s.gate_rows(), s.wide));
  EBB_ASSIGN_OR_RETURN(const ProductPtr candidate,
                       s.MakeForward(library, s.hidden, s.linear ? s.hidden : s.wide));
  return MakeCudaKernel(GruKernel{s, gates, candidate},
                        std::max(gates->workspace(), candidate->workspace()));
}

absl::StatusOr<CudaKernel> MakeGruGrad(Library& library, const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Form s = FormOf(graph, node);
  if (s.Empty()) return ZeroOutputs(graph, node);
  const bool initial = HasInput(node, 5);
  GruGradKernel kernel{s, nullptr, nullptr, {}, {}, nullptr};
  EBB_ASSIGN_OR_RETURN(kernel.of_candidate,
                       s.MakeBack(library, s.hidden, s.linear ? s.hidden : s.wide));
  EBB_ASSIGN_OR_RETURN(kernel.of_gates, s.MakeBack(library, s.gate_rows(), s.wide));
  EBB_ASSIGN_OR_RETURN(kernel.gates_weight,
                       WeightGrad::Make(library, s, s.gate_rows(), s.wide, initial));
  if (s.linear) {
    EBB_ASSIGN_OR_RETURN(kernel.candidate_weight,
                         WeightGrad::Make(library, s, s.hidden, s.hidden, initial));
  } else {
    EBB_ASSIGN_OR_RETURN(kernel.mixed_weight, s.MakeWeight(library, s.hidden, s.wide, s.steps));
  }
  const Bytes workspace = kernel.workspace();
  return MakeCudaKernel(std::move(kernel), workspace);
}

constexpr LibraryKernelRow kRows[] = {{"Gru", MakeGru}, {"GruGrad", MakeGruGrad}};

}  // namespace

absl::Span<const LibraryKernelRow> GruKernels() { return kRows; }

}  // namespace ebb::device::cuda
