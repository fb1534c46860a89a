#include "tests/device/cuda_double/double_library.h"

#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "device/common/half.h"
#include "device/cpu/matmul.h"
#include "device/cpu/onednn.h"
#include "device/cuda/launch.h"

namespace ebb::testing {
namespace {

namespace cuda = device::cuda;
using device::ConvKind;
using device::ConvSpec;
using device::Precision;

// Operands as the host's library wants them: floats, of what is stored in `precision`. TF32 is
// rounded here, so that the results of a node which asks for it are its own.
float Factor(float value, Precision precision) {
  if (precision != Precision::kTf32 || !std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) & ~0x1fffu);
}
std::vector<float> Read(const void* from, int64_t n, Precision precision) {
  std::vector<float> to(static_cast<size_t>(n));
  const auto read = [&](auto zero) {
    const auto* const stored = static_cast<const decltype(zero)*>(from);
    for (size_t i = 0; i < to.size(); ++i) to[i] = Factor(device::Widen(stored[i]), precision);
  };
  if (precision == Precision::kBf16) {
    read(device::Bf16());
  } else if (precision == Precision::kF16) {
    read(device::F16());
  } else {
    read(float());
  }
  return to;
}
void Write(const float* from, int64_t n, Precision precision, void* to) {
  const auto write = [&](auto zero) {
    auto* const stored = static_cast<decltype(zero)*>(to);
    for (int64_t i = 0; i < n; ++i) device::Narrow(from[i], stored + i);
  };
  if (precision == Precision::kBf16) {
    write(device::Bf16());
  } else if (precision == Precision::kF16) {
    write(device::F16());
  } else {
    write(float());
  }
}
// What is rounded when it is read: everything but strict f32.
bool Converts(Precision precision) { return precision != Precision::kF32; }

// Of rows of `columns` elements, `ld` apart.
int64_t Span(int64_t rows, int64_t columns, int64_t ld) { return (rows - 1) * ld + columns; }

class HostProduct final : public cuda::Product {
 public:
  explicit HostProduct(const cuda::ProductSpec& spec) : spec_(spec) {}
  // Some, so that it is seen to be used.
  Bytes workspace() const override { return Bytes(100); }

  absl::Status Enqueue(const cuda::Launch& at, const cuda::ProductArgs& args) const override {
    for (const void* pointer : {args.a, args.b, static_cast<const void*>(args.c)}) {
      EBB_CHECK(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(spec_.alignment) ==
                0);
    }
    return cuda::EnqueueOnDouble(at.stream, [spec = spec_, args] { Run(spec, args); });
  }

 private:
  static void Run(const cuda::ProductSpec& spec, const cuda::ProductArgs& args) {
    static_cast<char*>(args.workspace)[99] = 1;
    for (int64_t i = 0; i < spec.batch; ++i) {
      const int64_t size = device::SizeOf(spec.precision);
      cuda::ProductArgs one = args;
      one.a = static_cast<const char*>(args.a) + i * spec.stride_a * size;
      one.b = static_cast<const char*>(args.b) + i * spec.stride_b * size;
      one.c = static_cast<char*>(args.c) + i * spec.stride_c * size;
      if (Converts(spec.precision)) {
        RunConverted(spec, one);
      } else {
        RunFloats(spec, one);
      }
    }
  }

  // One product: on floats, and rounded once at its end.
  static void RunConverted(const cuda::ProductSpec& spec, const cuda::ProductArgs& args) {
    const int64_t size_c = Span(spec.m, spec.n, spec.ldc);
    const std::vector<float> a =
        Read(args.a, spec.trans_a ? Span(spec.k, spec.m, spec.lda) : Span(spec.m, spec.k, spec.lda),
             spec.precision);
    const std::vector<float> b =
        Read(args.b, spec.trans_b ? Span(spec.n, spec.k, spec.ldb) : Span(spec.k, spec.n, spec.ldb),
             spec.precision);
    const Precision stored = spec.precision == Precision::kTf32 ? Precision::kF32 : spec.precision;
    std::vector<float> c = Read(args.c, size_c, stored), bias;
    if (spec.bias) bias = Read(args.bias, spec.n, stored);
    cuda::ProductArgs floats = args;
    floats.a = a.data();
    floats.b = b.data();
    floats.bias = bias.data();
    floats.c = c.data();
    RunFloats(spec, floats);
    Write(c.data(), size_c, stored, args.c);
  }

  static void RunFloats(const cuda::ProductSpec& spec, const cuda::ProductArgs& args) {
    const device::cpu::GemmSpec gemm = {.trans_a = spec.trans_a,
                                        .trans_b = spec.trans_b,
                                        .m = spec.m,
                                        .n = spec.n,
                                        .k = spec.k,
                                        .lda = spec.lda,
                                        .ldb = spec.ldb,
                                        .ldc = spec.ldc,
                                        .threads = 1};
    auto* const c = static_cast<float*>(args.c);
    const auto* const bias = static_cast<const float*>(args.bias);
    EBB_CHECK(device::cpu::Multiply(gemm, args.alpha, static_cast<const float*>(args.a),
                                    static_cast<const float*>(args.b), args.beta, c)
                  .ok());
    for (int64_t row = 0; spec.bias && row < spec.m; ++row) {
      for (int64_t j = 0; j < spec.n; ++j) c[row * spec.ldc + j] += bias[j];
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
      if (!Converts(spec.precision)) {
        RunFloats(spec, *conv, static_cast<const float*>(a), static_cast<const float*>(b),
                  static_cast<float*>(out), workspace);
        return;
      }
      const int64_t x = Count(spec.x), w = Count(spec.w), y = Count(spec.y);
      const bool forward = spec.kind == ConvKind::kForward;
      const bool makes_w = spec.kind == ConvKind::kGradWeight;
      const std::vector<float> first = Read(a, forward ? x : y, spec.precision);
      const std::vector<float> second = Read(b, makes_w ? x : w, spec.precision);
      std::vector<float> made(static_cast<size_t>(forward ? y : makes_w ? w : x));
      RunFloats(spec, *conv, first.data(), second.data(), made.data(), workspace);
      Write(made.data(), static_cast<int64_t>(made.size()), spec.precision, out);
    });
  }

 private:
  static int64_t Count(const std::vector<int64_t>& dims) {
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  }

  static void RunFloats(const ConvSpec& spec, const device::cpu::Convolution& conv, const float* x,
                        const float* w, float* y, void* workspace) {
    const bool turns = spec.channels_last;
    absl::Status status;
    if (turns && spec.kind != ConvKind::kGradWeight) {
      const std::vector<float> plain = Turned(w, spec, /*to_plain=*/true);
      status = conv.Run(x, plain.data(), nullptr, y, workspace);
    } else {
      status = conv.Run(x, w, nullptr, y, workspace);
    }
    EBB_CHECK(status.ok());
    if (!turns || spec.kind != ConvKind::kGradWeight) return;
    const std::vector<float> last = Turned(y, spec, /*to_plain=*/false);
    std::copy(last.begin(), last.end(), y);
  }

  const ConvSpec spec_;
  const std::shared_ptr<const device::cpu::Convolution> conv_;
};

class DoubleLibrary final : public cuda::Library {
 public:
  explicit DoubleLibrary(std::function<void(Precision)> asked) : asked_(std::move(asked)) {}

  absl::StatusOr<std::shared_ptr<const cuda::Product>> MakeProduct(
      const cuda::ProductSpec& spec) override {
    if (asked_) asked_(spec.precision);
    return std::shared_ptr<const cuda::Product>(std::make_shared<HostProduct>(spec));
  }
  absl::StatusOr<std::shared_ptr<const cuda::Convolution>> MakeConvolution(
      const ConvSpec& spec) override {
    if (asked_) asked_(spec.precision);
    EBB_CHECK(!spec.bias);
    EBB_CHECK(spec.pads_begin == spec.pads_end);
    const device::cpu::ScopedOmpThreads pinned(1);
    EBB_ASSIGN_OR_RETURN(std::shared_ptr<const device::cpu::Convolution> conv,
                         device::cpu::MakeConvolution(spec));
    return std::shared_ptr<const cuda::Convolution>(
        std::make_shared<HostConvolution>(spec, std::move(conv)));
  }

 private:
  const std::function<void(Precision)> asked_;
};

}  // namespace

std::shared_ptr<cuda::Library> MakeDoubleLibrary(std::function<void(Precision)> asked) {
  return std::make_shared<DoubleLibrary>(std::move(asked));
}

}  // namespace ebb::testing
