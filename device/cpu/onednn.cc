// oneDNN's descriptors, exceptions and versions end here.
#include "device/cpu/onednn.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace ebb::device::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Args = std::unordered_map<int, memory>;

constexpr auto kF32 = memory::data_type::f32;

// Runs `f` and turns what it throws into a status.
template <class F>
absl::Status Guarded(absl::string_view what, F f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    const std::string text = absl::StrCat(what, ": oneDNN: ", error.what(), " (status ",
                                          static_cast<int>(error.status), ")");
    switch (error.status) {
      case dnnl_unimplemented:
        return absl::UnimplementedError(text);
      case dnnl_out_of_memory:
        return absl::ResourceExhaustedError(text);
      case dnnl_invalid_arguments:
        return absl::InvalidArgumentError(text);
      default:
        return absl::InternalError(text);
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of host memory"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

struct Descriptors {
  memory::desc x, w, y, bias;  // what the primitive sees; the order of w is its choice
  memory::desc plain_w;        // what the caller has
  memory::dims strides, dilations, begin, end;
};

Descriptors Describe(const ConvSpec& spec) {
  static constexpr Tag kPlain[] = {Tag::ncw, Tag::nchw, Tag::ncdhw};
  static constexpr Tag kLast[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  static constexpr Tag kWeights[] = {Tag::oiw, Tag::oihw, Tag::oidhw};
  static constexpr Tag kGrouped[] = {Tag::goiw, Tag::goihw, Tag::goidhw};
  const size_t spatial = spec.x.size() - 3;  // index of the tag
  const Tag tag = spec.channels_last ? kLast[spatial] : kPlain[spatial];
  memory::dims w = spec.w;
  if (spec.groups > 1) {
    w[0] /= spec.groups;
    w.insert(w.begin(), spec.groups);
  }
  Descriptors d;
  d.x = memory::desc(spec.x, kF32, tag);
  d.y = memory::desc(spec.y, kF32, tag);
  d.w = memory::desc(w, kF32, Tag::any);
  d.plain_w = memory::desc(w, kF32, spec.groups > 1 ? kGrouped[spatial] : kWeights[spatial]);
  if (spec.bias) d.bias = memory::desc({spec.w[0]}, kF32, Tag::x);
  d.strides = spec.strides;
  for (const int64_t dilation : spec.dilations) d.dilations.push_back(dilation - 1);
  d.begin = spec.pads_begin;
  d.end = spec.pads_end;
  return d;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

#if DNNL_VERSION_MAJOR >= 3
dnnl::convolution_forward::primitive_desc Forward(const Descriptors& d, const dnnl::engine& e) {
  return {e,   kTraining, kDirect,     d.x,     d.w,   d.bias,
          d.y, d.strides, d.dilations, d.begin, d.end, UserScratchpad()};
}
dnnl::convolution_backward_data::primitive_desc GradInput(const Descriptors& d,
                                                          const dnnl::engine& e) {
  return {e,
          kDirect,
          d.x,
          d.w,
          d.y,
          d.strides,
          d.dilations,
          d.begin,
          d.end,
          Forward(d, e),
          UserScratchpad()};
}
dnnl::convolution_backward_weights::primitive_desc GradWeight(const Descriptors& d,
                                                              const dnnl::engine& e) {
  return {e,
          kDirect,
          d.x,
          d.w,
          d.y,
          d.strides,
          d.dilations,
          d.begin,
          d.end,
          Forward(d, e),
          UserScratchpad()};
}
#else
dnnl::convolution_forward::primitive_desc Forward(const Descriptors& d, const dnnl::engine& e) {
  const dnnl::convolution_forward::desc desc(kTraining, kDirect, d.x, d.w, d.bias, d.y, d.strides,
                                             d.dilations, d.begin, d.end);
  return {desc, UserScratchpad(), e};
}
dnnl::convolution_backward_data::primitive_desc GradInput(const Descriptors& d,
                                                          const dnnl::engine& e) {
  const dnnl::convolution_backward_data::desc desc(kDirect, d.x, d.w, d.y, d.strides, d.dilations,
                                                   d.begin, d.end);
  return {desc, UserScratchpad(), e, Forward(d, e)};
}
dnnl::convolution_backward_weights::primitive_desc GradWeight(const Descriptors& d,
                                                              const dnnl::engine& e) {
  const dnnl::convolution_backward_weights::desc desc(kDirect, d.x, d.w, d.y, d.strides,
                                                      d.dilations, d.begin, d.end);
  return {desc, UserScratchpad(), e, Forward(d, e)};
}
#endif

Bytes Aligned(size_t bytes) { return AlignUp(Bytes(static_cast<int64_t>(bytes)), Bytes(64)); }

class DnnlConvolution final : public Convolution {
 public:
  explicit DnnlConvolution(const ConvSpec& spec)
      : kind_(spec.kind),
        threads_(OmpThreads()),
        what_(absl::StrCat("convolution x [", absl::StrJoin(spec.x, ","), "] w [",
                           absl::StrJoin(spec.w, ","), "]")) {
    const Descriptors d = Describe(spec);
    x_ = d.x;
    y_ = d.y;
    bias_ = d.bias;
    plain_w_ = d.plain_w;
    has_bias_ = spec.bias;
    switch (kind_) {
      case ConvKind::kForward: {
        const auto pd = Forward(d, engine_);
        w_ = pd.weights_desc();
        scratchpad_ = pd.scratchpad_desc();
        primitive_ = dnnl::convolution_forward(pd);
        break;
      }
      case ConvKind::kGradInput: {
        const auto pd = GradInput(d, engine_);
        w_ = pd.weights_desc();
        scratchpad_ = pd.scratchpad_desc();
        primitive_ = dnnl::convolution_backward_data(pd);
        break;
      }
      case ConvKind::kGradWeight: {
        const auto pd = GradWeight(d, engine_);
        w_ = pd.diff_weights_desc();
        scratchpad_ = pd.scratchpad_desc();
        primitive_ = dnnl::convolution_backward_weights(pd);
        break;
      }
    }
    if (w_ != plain_w_) {
      const bool outward = kind_ == ConvKind::kGradWeight;
      const dnnl::reorder::primitive_desc pd(engine_, outward ? w_ : plain_w_, engine_,
                                             outward ? plain_w_ : w_, UserScratchpad());
      reorder_scratchpad_ = pd.scratchpad_desc();
      reorder_ = dnnl::reorder(pd);
      weight_bytes_ = Aligned(w_.get_size());
    }
  }

  Bytes workspace() const override {
    return weight_bytes_ +
           std::max(Aligned(scratchpad_.get_size()), Aligned(reorder_scratchpad_.get_size()));
  }

  absl::Status Run(const float* a, const float* b, const float* bias, float* out,
                   void* workspace) const override {
    const ScopedOmpThreads pinned(threads_);
    return Guarded(what_, [&] {
      dnnl::stream stream(engine_);
      char* scratch = static_cast<char*>(workspace) + weight_bytes_.count();
      const bool reordered = w_ != plain_w_;
      // The weights, or their gradient, in the caller's order and in the primitive's.
      void* plain = kind_ == ConvKind::kGradWeight ? out : const_cast<float*>(b);
      const memory plain_w = At(plain_w_, plain);
      const memory w = reordered ? At(w_, workspace) : plain_w;
      if (reordered && kind_ != ConvKind::kGradWeight) Reorder(stream, plain_w, w, scratch);
      Args args{{DNNL_ARG_SCRATCHPAD, At(scratchpad_, scratch)}};
      switch (kind_) {
        case ConvKind::kForward:
          args.insert({DNNL_ARG_SRC, At(x_, a)});
          args.insert({DNNL_ARG_WEIGHTS, w});
          if (has_bias_) args.insert({DNNL_ARG_BIAS, At(bias_, bias)});
          args.insert({DNNL_ARG_DST, At(y_, out)});
          break;
        case ConvKind::kGradInput:
          args.insert({DNNL_ARG_DIFF_DST, At(y_, a)});
          args.insert({DNNL_ARG_WEIGHTS, w});
          args.insert({DNNL_ARG_DIFF_SRC, At(x_, out)});
          break;
        case ConvKind::kGradWeight:
          args.insert({DNNL_ARG_DIFF_DST, At(y_, a)});
          args.insert({DNNL_ARG_SRC, At(x_, b)});
          args.insert({DNNL_ARG_DIFF_WEIGHTS, w});
          break;
      }
      primitive_.execute(stream, args);
      if (reordered && kind_ == ConvKind::kGradWeight) Reorder(stream, w, plain_w, scratch);
      stream.wait();
    });
  }

 private:
  memory At(const memory::desc& desc, const void* data) const {
    return memory(desc, engine_, const_cast<void*>(data));
  }
  void Reorder(dnnl::stream& stream, const memory& from, const memory& to, void* scratch) const {
    reorder_.execute(stream, {{DNNL_ARG_FROM, from},
                              {DNNL_ARG_TO, to},
                              {DNNL_ARG_SCRATCHPAD, At(reorder_scratchpad_, scratch)}});
  }

  const ConvKind kind_;
  const int threads_;
  const std::string what_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  memory::desc x_, w_, y_, bias_, plain_w_, scratchpad_, reorder_scratchpad_;
  bool has_bias_ = false;
  Bytes weight_bytes_;
  dnnl::primitive primitive_;
  dnnl::primitive reorder_;
};

// oneDNN's kernels count in 32 bits: beyond that they divide by zero or write elsewhere.
absl::Status CheckCounts(const ConvSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto fits = [](const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) {
      if (dim > kMost || count > kMost / std::max<int64_t>(dim, 1)) return false;
      count *= std::max<int64_t>(dim, 1);
    }
    return true;
  };
  const auto small = [](const std::vector<int64_t>& values) {
    return std::all_of(values.begin(), values.end(), [](int64_t v) { return v <= kMost; });
  };
  if (fits(spec.x) && fits(spec.w) && fits(spec.y) && small(spec.strides) &&
      small(spec.dilations) && small(spec.pads_begin) && small(spec.pads_end)) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "convolution x [", absl::StrJoin(spec.x, ","), "] w [", absl::StrJoin(spec.w, ","),
      "] on cpu: a tensor has more than ", kMost, " elements; use a smaller batch_size"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Convolution>> MakeConvolution(const ConvSpec& spec) {
  EBB_RETURN_IF_ERROR(CheckCounts(spec));
  std::shared_ptr<const Convolution> result;
  EBB_RETURN_IF_ERROR(Guarded(absl::StrCat("convolution x [", absl::StrJoin(spec.x, ","), "] w [",
                                           absl::StrJoin(spec.w, ","), "] on cpu"),
                              [&] { result = std::make_shared<DnnlConvolution>(spec); }));
  return result;
}

absl::Status Sgemm(const GemmSpec& spec, float alpha, const float* a, const float* b, float beta,
                   float* c) {
  const ScopedOmpThreads pinned(spec.threads);
  const dnnl_status_t status =
      dnnl_sgemm(spec.trans_a ? 'T' : 'N', spec.trans_b ? 'T' : 'N', spec.m, spec.n, spec.k, alpha,
                 a, spec.lda, b, spec.ldb, beta, c, spec.ldc);
  if (status == dnnl_success) return absl::OkStatus();
  const std::string text = absl::StrCat("matrix product [", spec.m, ",", spec.k, "] x [", spec.k,
                                        ",", spec.n, "]: oneDNN status ", static_cast<int>(status));
  return status == dnnl_out_of_memory ? absl::ResourceExhaustedError(text)
                                      : absl::InternalError(text);
}

int OmpThreads() { return omp_get_max_threads(); }

ScopedOmpThreads::ScopedOmpThreads(int threads) : before_(omp_get_max_threads()) {
  if (before_ != threads) omp_set_num_threads(threads);
}
ScopedOmpThreads::~ScopedOmpThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

}  // namespace ebb::device::cpu
