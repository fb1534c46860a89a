#include <cublasLt.h>
#include <dlfcn.h>

#include "bench/gpu/gemm.h"
#include "bench/gpu/measure.h"

namespace ebb::bench::gpu {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;

// The library's functions that are used, by their names.
struct Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescCreate) desc;
  decltype(&cublasLtMatrixLayoutCreate) layout;
  decltype(&cublasLtMatmulPreferenceCreate) preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool Open(Library* to, std::string* why) {
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    *why = "cuBLASLt is not there";
    return false;
  }
  const bool all = Find(library, "cublasLtCreate", &to->create) &&
                   Find(library, "cublasLtMatmulDescCreate", &to->desc) &&
                   Find(library, "cublasLtMatrixLayoutCreate", &to->layout) &&
                   Find(library, "cublasLtMatmulPreferenceCreate", &to->preference) &&
                   Find(library, "cublasLtMatmulPreferenceSetAttribute", &to->set_preference) &&
                   Find(library, "cublasLtMatmulAlgoGetHeuristic", &to->heuristic) &&
                   Find(library, "cublasLtMatmul", &to->matmul);
  if (!all) *why = "cuBLASLt lacks a function";
  return all;
}

void Check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string code = "cublasStatus_t " + std::to_string(static_cast<int>(status));
  Die(__FILE__, __LINE__, call, code.c_str());
}

// Its handles live as long as the program.
class LtGemm final : public Gemm {
 public:
  LtGemm(const Library& library, int n)
      : library_(library),
        n_(n),
        a_(Elements() * 2),
        b_(Elements() * 2),
        c_(Elements() * 2),
        workspace_(kWorkspace) {
    const auto side = static_cast<uint64_t>(n);
    Check(library_.create(&handle_), "cublasLtCreate");
    Check(library_.desc(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    Check(library_.layout(&layout_, CUDA_R_16BF, side, side, n), "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    Check(library_.preference(&preference), "cublasLtMatmulPreferenceCreate");
    Check(library_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                  sizeof(kWorkspace)),
          "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    Check(library_.heuristic(handle_, desc_, layout_, layout_, layout_, layout_, preference, 1,
                             &plan_, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) Die(__FILE__, __LINE__, "cublasLtMatmulAlgoGetHeuristic", "no plan");
    const Stream stream;
    LaunchNoise(stream, a_.as<unsigned short>(), Elements());
    LaunchNoise(stream, b_.as<unsigned short>(), Elements());
    stream.Synchronize();
  }

  void Launch(cudaStream_t stream) override {
    const float one = 1, zero = 0;
    Check(library_.matmul(handle_, desc_, &one, a_.as<void>(), layout_, b_.as<void>(), layout_,
                          &zero, c_.as<void>(), layout_, c_.as<void>(), layout_, &plan_.algo,
                          workspace_.as<void>(), kWorkspace, stream),
          "cublasLtMatmul");
  }
  double flops() const override { return 2.0 * n_ * n_ * n_; }

 private:
  size_t Elements() const { return static_cast<size_t>(n_) * static_cast<size_t>(n_); }

  const Library library_;
  const int n_;
  const DeviceBytes a_, b_, c_, workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t plan_ = {};
};

}  // namespace

std::unique_ptr<Gemm> OpenGemm(int n, std::string* why) {
  Library library;
  if (!Open(&library, why)) return nullptr;
  return std::make_unique<LtGemm>(library, n);
}

}  // namespace ebb::bench::gpu
