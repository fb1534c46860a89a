#include "tests/device/cuda_double/double_library.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "device/cpu/matmul.h"
#include "device/cpu/onednn.h"
#include "device/cuda/launch.h"

namespace ebb::testing {
namespace {

namespace cuda = device::cuda;
using device::ConvKind;
using device::ConvSpec;

class HostProduct final : public cuda::Product {
 public:
  explicit HostProduct(const cuda::ProductSpec& spec) : spec_(spec) {}
  // Some, so that it is seen to be used.
  Bytes workspace() const override { return Bytes(100); }

  absl::Status Enqueue(const cuda::Launch& at, const cuda::ProductArgs& args) const override {
    for (const void* pointer : {static_cast<const void*>(args.a), static_cast<const void*>(args.b),
                                static_cast<const void*>(args.c)}) {
      EBB_CHECK(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(spec_.alignment) ==
                0);
    }
    return cuda::EnqueueOnDouble(at.stream, [spec = spec_, args] { Run(spec, args); });
  }

 private:
  static void Run(const cuda::ProductSpec& spec, const cuda::ProductArgs& args) {
    static_cast<char*>(args.workspace)[99] = 1;
    const device::cpu::GemmSpec gemm = {.trans_a = spec.trans_a,
                                        .trans_b = spec.trans_b,
                                        .m = spec.m,
                                        .n = spec.n,
                                        .k = spec.k,
                                        .lda = spec.lda,
                                        .ldb = spec.ldb,
                                        .ldc = spec.ldc,
                                        .threads = 1};
    for (int64_t i = 0; i < spec.batch; ++i) {
      float* const c = args.c + i * spec.stride_c;
      EBB_CHECK(device::cpu::Multiply(gemm, args.alpha, args.a + i * spec.stride_a,
                                      args.b + i * spec.stride_b, args.beta, c)
                    .ok());
      for (int64_t row = 0; spec.bias && row < spec.m; ++row) {
        for (int64_t j = 0; j < spec.n; ++j) c[row * spec.ldc + j] += args.bias[j];
      }
    }
  }

  const cuda::ProductSpec spec_;
};

// Between plain order [M, C, taps] and channels last [M, taps, C].
std::vector<float> Turned(const float* w, const ConvSpec& spec, bool to_plain) {
  const int64_t filters = spec.w[0], channels = spec.w[1];
  int64_t taps = 1;
  for (size_t d = 2; d < spec.w.size(); ++d) taps *= spec.w[d];
  std::vector<float> turned(static_cast<size_t>(filters * channels * taps));
  for (int64_t m = 0; m < filters; ++m) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < taps; ++t) {
        const auto plain = static_cast<size_t>((m * channels + c) * taps + t);
        const auto last = static_cast<size_t>((m * taps + t) * channels + c);
        turned[to_plain ? plain : last] = w[to_plain ? last : plain];
      }
    }
  }
  return turned;
}

class HostConvolution final : public cuda::Convolution {
 public:
  HostConvolution(ConvSpec spec, std::shared_ptr<const device::cpu::Convolution> conv)
      : spec_(std::move(spec)), conv_(std::move(conv)) {}
  Bytes workspace() const override { return conv_->workspace(); }

  absl::Status Enqueue(const cuda::Launch& at, const void* a, const void* b, void* out,
                       void* workspace) const override {
    return cuda::EnqueueOnDouble(at.stream, [spec = spec_, conv = conv_, a, b, out, workspace] {
      const auto* const x = static_cast<const float*>(a);
      const auto* const w = static_cast<const float*>(b);
      auto* const y = static_cast<float*>(out);
      const bool turns = spec.channels_last;
      absl::Status status;
      if (turns && spec.kind != ConvKind::kGradWeight) {
        const std::vector<float> plain = Turned(w, spec, /*to_plain=*/true);
        status = conv->Run(x, plain.data(), nullptr, y, workspace);
      } else {
        status = conv->Run(x, w, nullptr, y, workspace);
      }
      EBB_CHECK(status.ok());
      if (!turns || spec.kind != ConvKind::kGradWeight) return;
      const std::vector<float> last = Turned(y, spec, /*to_plain=*/false);
      std::copy(last.begin(), last.end(), y);
    });
  }

 private:
  const ConvSpec spec_;
  const std::shared_ptr<const device::cpu::Convolution> conv_;
};

class DoubleLibrary final : public cuda::Library {
 public:
  absl::StatusOr<std::shared_ptr<const cuda::Product>> MakeProduct(
      const cuda::ProductSpec& spec) override {
    return std::shared_ptr<const cuda::Product>(std::make_shared<HostProduct>(spec));
  }
  absl::StatusOr<std::shared_ptr<const cuda::Convolution>> MakeConvolution(
      const ConvSpec& spec) override {
    EBB_CHECK(!spec.bias);
    EBB_CHECK(spec.pads_begin == spec.pads_end);
    const device::cpu::ScopedOmpThreads pinned(1);
    EBB_ASSIGN_OR_RETURN(std::shared_ptr<const device::cpu::Convolution> conv,
                         device::cpu::MakeConvolution(spec));
    return std::shared_ptr<const cuda::Convolution>(
        std::make_shared<HostConvolution>(spec, std::move(conv)));
  }
};

}  // namespace

std::shared_ptr<cuda::Library> MakeDoubleLibrary() { return std::make_shared<DoubleLibrary>(); }

}  // namespace ebb::testing
