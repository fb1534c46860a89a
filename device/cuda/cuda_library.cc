#include "device/cuda/cuda_library.h"

#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"

namespace ebb::device::cuda {
namespace {

// y [positions, M] = x [positions, C] w', and its gradients.
ProductSpec ProductOf(const ConvSpec& spec) {
  const int64_t channels = spec.x[1], filters = spec.y[1];
  int64_t positions = spec.x[0];
  for (size_t d = 2; d < spec.x.size(); ++d) positions *= spec.x[d];
  switch (spec.kind) {
    case ConvKind::kForward:
      return {.trans_b = true,
              .m = positions,
              .n = filters,
              .k = channels,
              .lda = channels,
              .ldb = channels,
              .ldc = filters};
    case ConvKind::kGradInput:
      return {.m = positions,
              .n = channels,
              .k = filters,
              .lda = filters,
              .ldb = channels,
              .ldc = channels};
    case ConvKind::kGradWeight:
      break;
  }
  return {.trans_a = true,
          .m = filters,
          .n = channels,
          .k = positions,
          .lda = filters,
          .ldb = channels,
          .ldc = channels};
}

class ProductConvolution final : public Convolution {
 public:
  explicit ProductConvolution(std::shared_ptr<const Product> product)
      : product_(std::move(product)) {}
  Bytes workspace() const override { return product_->workspace(); }
  absl::Status Enqueue(const Launch& at, const void* a, const void* b, void* out,
                       void* workspace) const override {
    return product_->Enqueue(at, {.a = static_cast<const float*>(a),
                                  .b = static_cast<const float*>(b),
                                  .c = static_cast<float*>(out),
                                  .workspace = workspace});
  }

 private:
  const std::shared_ptr<const Product> product_;
};

class CudaLibrary final : public Library {
 public:
  CudaLibrary(std::shared_ptr<Api> api, Precision precision)
      : api_(std::move(api)), precision_(precision) {}

  absl::StatusOr<std::shared_ptr<const Product>> MakeProduct(const ProductSpec& spec) override {
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<CublasLt> lt, Lt());
    return lt->Make(spec);
  }
  // Without tensor cores cuDNN turns channels-last operands into plain ones and back; a product
  // needs neither that nor the workspace for it.
  absl::StatusOr<std::shared_ptr<const Convolution>> MakeConvolution(
      const ConvSpec& spec) override {
    if (precision_ == Precision::kF32 && spec.IsProduct()) {
      EBB_ASSIGN_OR_RETURN(std::shared_ptr<const Product> product, MakeProduct(ProductOf(spec)));
      return std::shared_ptr<const Convolution>(
          std::make_shared<ProductConvolution>(std::move(product)));
    }
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<Cudnn> cudnn, Dnn());
    EBB_ASSIGN_OR_RETURN(std::shared_ptr<const PlannedConvolution> made, cudnn->Make(spec));
    return std::shared_ptr<const Convolution>(std::move(made));
  }

 private:
  absl::StatusOr<std::shared_ptr<CublasLt>> Lt() {
    EBB_RETURN_IF_ERROR(api_->MakeCurrent());
    MutexLock lock(&mu_);
    if (lt_ == nullptr) {
      EBB_ASSIGN_OR_RETURN(lt_, CublasLt::Open(precision_));
    }
    return lt_;
  }
  absl::StatusOr<std::shared_ptr<Cudnn>> Dnn() {
    EBB_RETURN_IF_ERROR(api_->MakeCurrent());
    MutexLock lock(&mu_);
    if (cudnn_ == nullptr) {
      EBB_ASSIGN_OR_RETURN(cudnn_, Cudnn::Open(api_->properties(), precision_));
    }
    return cudnn_;
  }

  const std::shared_ptr<Api> api_;
  const Precision precision_;
  Mutex mu_;
  std::shared_ptr<CublasLt> lt_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Cudnn> cudnn_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<Library> MakeCudaLibrary(std::shared_ptr<Api> api, Precision precision) {
  return std::make_shared<CudaLibrary>(std::move(api), precision);
}

}  // namespace ebb::device::cuda
