#include "device/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/cuda/dynamic_library.h"

namespace ebb::device::cuda {
namespace {

// NVIDIA's advice for Hopper; smaller GPUs ask for less.
constexpr Bytes kMaxWorkspace = MiB(32);

struct Calls {
  decltype(cublasLtCreate)* create = nullptr;
  decltype(cublasLtDestroy)* destroy = nullptr;
  decltype(cublasLtGetStatusName)* status_name = nullptr;
  decltype(cublasLtMatrixLayoutInit_internal)* layout_init = nullptr;
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set = nullptr;
  decltype(cublasLtMatmulDescInit_internal)* desc_init = nullptr;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set = nullptr;
  decltype(cublasLtMatmulPreferenceInit_internal)* preference_init = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = nullptr;
  decltype(cublasLtMatmul)* matmul = nullptr;

  absl::Status StatusOf(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
    const std::string text = absl::StrCat("cuBLASLt: ", call, ": ", status_name(status));
    switch (status) {
      case CUBLAS_STATUS_ALLOC_FAILED:
        return absl::ResourceExhaustedError(text);
      case CUBLAS_STATUS_NOT_SUPPORTED:
        return absl::UnimplementedError(text);
      case CUBLAS_STATUS_NOT_INITIALIZED:
      case CUBLAS_STATUS_ARCH_MISMATCH:
        return absl::UnavailableError(text);
      default:
        return absl::InternalError(text);
    }
  }
};

absl::StatusOr<Calls> FindCalls() {
  const std::string name = absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR);
  EBB_ASSIGN_OR_RETURN(const DynamicLibrary library, DynamicLibrary::Open(name));
  Calls calls;
  EBB_RETURN_IF_ERROR(library.Find("cublasLtCreate", &calls.create));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtDestroy", &calls.destroy));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtGetStatusName", &calls.status_name));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutInit_internal", &calls.layout_init));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatrixLayoutSetAttribute", &calls.layout_set));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatmulDescInit_internal", &calls.desc_init));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatmulDescSetAttribute", &calls.desc_set));
  EBB_RETURN_IF_ERROR(
      library.Find("cublasLtMatmulPreferenceInit_internal", &calls.preference_init));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatmulPreferenceSetAttribute", &calls.preference_set));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatmulAlgoGetHeuristic", &calls.heuristic));
  EBB_RETURN_IF_ERROR(library.Find("cublasLtMatmul", &calls.matmul));
  return calls;
}

// The library and its handle, which products keep alive.
struct Handle {
  explicit Handle(const Calls& found) : calls(found) {}
  ~Handle() {
    if (lt != nullptr) static_cast<void>(calls.destroy(lt));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const Calls calls;
  cublasLtHandle_t lt = nullptr;
};

// Descriptors are plain data; cuBLASLt's are of column-major matrices, so c' = b' a' is computed:
// its A is our b and its B our a.
struct Descriptors {
  cublasLtMatmulDescOpaque_t product = {};
  cublasLtMatrixLayoutOpaque_t a = {}, b = {}, c = {};
};

cudaDataType_t TypeOf(Precision precision) {
  if (precision == Precision::kBf16) return CUDA_R_16BF;
  return precision == Precision::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

class Builder {
 public:
  Builder(const Calls& calls, const ProductSpec& spec) : calls_(calls), spec_(spec) {}

  absl::Status Build(Descriptors* made) const {
    EBB_RETURN_IF_ERROR(BuildProduct(&made->product));
    const ProductSpec& s = spec_;
    EBB_RETURN_IF_ERROR(
        Layout(s.trans_b ? s.k : s.n, s.trans_b ? s.n : s.k, s.ldb, s.stride_b, &made->b));
    EBB_RETURN_IF_ERROR(
        Layout(s.trans_a ? s.m : s.k, s.trans_a ? s.k : s.m, s.lda, s.stride_a, &made->a));
    return Layout(s.n, s.m, s.ldc, s.stride_c, &made->c);
  }

  absl::Status Preference(cublasLtMatmulPreferenceOpaque_t* made) const {
    EBB_RETURN_IF_ERROR(calls_.StatusOf(calls_.preference_init(made, sizeof(*made)),
                                        "cublasLtMatmulPreferenceInit"));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      return calls_.StatusOf(calls_.preference_set(made, attribute, &value, sizeof(value)),
                             "cublasLtMatmulPreferenceSetAttribute");
    };
    const auto alignment = static_cast<uint32_t>(spec_.alignment);
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                            static_cast<uint64_t>(kMaxWorkspace.count())));
    // Parts of a sum are added where they have been kept apart.
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                            static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment));
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment));
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment));
    return set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  }

 private:
  absl::Status BuildProduct(cublasLtMatmulDescOpaque_t* made) const {
    const cublasComputeType_t compute =
        spec_.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    EBB_RETURN_IF_ERROR(calls_.StatusOf(calls_.desc_init(made, sizeof(*made), compute, CUDA_R_32F),
                                        "cublasLtMatmulDescInit"));
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, int32_t value) {
      return calls_.StatusOf(calls_.desc_set(made, attribute, &value, sizeof(value)),
                             "cublasLtMatmulDescSetAttribute");
    };
    EBB_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_TRANSA, spec_.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    EBB_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_TRANSB, spec_.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (!spec_.bias) return absl::OkStatus();
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(spec_.precision)));
    return set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }

  absl::Status Layout(int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                      cublasLtMatrixLayoutOpaque_t* made) const {
    EBB_RETURN_IF_ERROR(calls_.StatusOf(
        calls_.layout_init(made, sizeof(*made), TypeOf(spec_.precision),
                           static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld),
        "cublasLtMatrixLayoutInit"));
    if (spec_.batch == 1) return absl::OkStatus();
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
      return calls_.StatusOf(calls_.layout_set(made, attribute, &value, sizeof(value)),
                             "cublasLtMatrixLayoutSetAttribute");
    };
    EBB_RETURN_IF_ERROR(set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(spec_.batch)));
    return set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }

  const Calls& calls_;
  const ProductSpec& spec_;
};

class LtProduct final : public Product {
 public:
  LtProduct(std::shared_ptr<const Handle> handle, const Descriptors& descriptors, bool bias,
            const cublasLtMatmulHeuristicResult_t& chosen)
      : handle_(std::move(handle)),
        descriptors_(descriptors),
        bias_(bias),
        algorithm_(chosen.algo),
        needed_(chosen.workspaceSize) {}

  Bytes workspace() const override { return Bytes(static_cast<int64_t>(needed_)); }

  absl::Status Enqueue(const Launch& at, const ProductArgs& args) const override {
    const Calls& calls = handle_->calls;
    Descriptors d = descriptors_;  // not const for the library, and the bias is of this call
    if (bias_) {
      EBB_RETURN_IF_ERROR(
          calls.StatusOf(calls.desc_set(&d.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &args.bias,
                                        sizeof(args.bias)),
                         "cublasLtMatmulDescSetAttribute"));
    }
    return calls.StatusOf(
        calls.matmul(handle_->lt, &d.product, &args.alpha, args.b, &d.b, args.a, &d.a, &args.beta,
                     args.c, &d.c, args.c, &d.c, &algorithm_, args.workspace, needed_, at.stream),
        "cublasLtMatmul");
  }

 private:
  const std::shared_ptr<const Handle> handle_;
  const Descriptors descriptors_;
  const bool bias_;
  const cublasLtMatmulAlgo_t algorithm_;
  const size_t needed_;
};

std::string ToString(const ProductSpec& s) {
  return absl::StrCat(NameOf(s.precision), " ", s.trans_a ? "a'" : "a", " [", s.m, ",", s.k,
                      "] times ", s.trans_b ? "b'" : "b", " [", s.k, ",", s.n, "], ", s.batch,
                      " of them");
}

class OpenCublasLt final : public CublasLt {
 public:
  explicit OpenCublasLt(std::shared_ptr<const Handle> handle) : handle_(std::move(handle)) {}

  absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductSpec& spec) override {
    if (spec.batch > std::numeric_limits<int32_t>::max()) {
      return absl::UnimplementedError(
          absl::StrCat("a product of ", spec.batch, " matrices; cuBLASLt counts to 2^31 - 1"));
    }
    const Calls& calls = handle_->calls;
    const Builder builder(calls, spec);
    Descriptors d;
    EBB_RETURN_IF_ERROR(builder.Build(&d));
    cublasLtMatmulPreferenceOpaque_t preference = {};
    EBB_RETURN_IF_ERROR(builder.Preference(&preference));
    cublasLtMatmulHeuristicResult_t chosen = {};
    int found = 0;
    EBB_RETURN_IF_ERROR(
        Annotate(calls.StatusOf(calls.heuristic(handle_->lt, &d.product, &d.b, &d.a, &d.c, &d.c,
                                                &preference, 1, &chosen, &found),
                                "cublasLtMatmulAlgoGetHeuristic"),
                 ToString(spec)));
    if (found < 1) {
      return absl::UnimplementedError(
          absl::StrCat("cuBLASLt has no algorithm for ", ToString(spec)));
    }
    EBB_RETURN_IF_ERROR(
        Annotate(calls.StatusOf(chosen.state, "the algorithm chosen"), ToString(spec)));
    return std::shared_ptr<const Product>(
        std::make_shared<LtProduct>(handle_, d, spec.bias, chosen));
  }

 private:
  const std::shared_ptr<const Handle> handle_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<CublasLt>> CublasLt::Open() {
  EBB_ASSIGN_OR_RETURN(const Calls calls, FindCalls());
  auto handle = std::make_shared<Handle>(calls);
  EBB_RETURN_IF_ERROR(calls.StatusOf(calls.create(&handle->lt), "cublasLtCreate"));
  return std::shared_ptr<CublasLt>(std::make_shared<OpenCublasLt>(std::move(handle)));
}

}  // namespace ebb::device::cuda
