#include "device/cuda/cuda_library.h"

#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"

namespace ebb::device::cuda {
namespace {

// y [positions, M] = x [positions, C] w', and its gradients.
ProductSpec PlainProductOf(const ConvSpec& spec) {
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

ProductSpec ProductOf(const ConvSpec& spec) {
  ProductSpec product = PlainProductOf(spec);
  product.precision = spec.precision;
  return product;
}

class ProductConvolution final : public Convolution {
 public:
  explicit ProductConvolution(std::shared_ptr<const Product> product)
      : product_(std::move(product)) {}
  Bytes workspace() const override { return product_->workspace(); }
  absl::Status Enqueue(const Launch& at, const void* a, const void* b, void* out,
                       void* workspace) const override {
    return product_->Enqueue(at, {.a = a, .b = b, .c = out, .workspace = workspace});
  }

 private:
  const std::shared_ptr<const Product> product_;
};

class CudaLibrary final : public Library {
 public:
  explicit CudaLibrary(std::shared_ptr<Api> api) : api_(std::move(api)) {}

  absl::StatusOr<std::shared_ptr<const Product>> MakeProduct(const ProductSpec& spec) override {
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<CublasLt> lt, Lt());
    return lt->Make(spec);
  }
  // A product needs no workspace for turned operands, as cuDNN does without tensor cores.
  absl::StatusOr<std::shared_ptr<const Convolution>> MakeConvolution(
      const ConvSpec& spec) override {
    if (spec.IsProduct()) {
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
      EBB_ASSIGN_OR_RETURN(lt_, CublasLt::Open());
    }
    return lt_;
  }
  absl::StatusOr<std::shared_ptr<Cudnn>> Dnn() {
    EBB_RETURN_IF_ERROR(api_->MakeCurrent());
    MutexLock lock(&mu_);
    if (cudnn_ == nullptr) {
      EBB_ASSIGN_OR_RETURN(cudnn_, Cudnn::Open(api_->properties()));
    }
    return cudnn_;
  }

  const std::shared_ptr<Api> api_;
  Mutex mu_;
  std::shared_ptr<CublasLt> lt_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Cudnn> cudnn_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<Library> MakeCudaLibrary(std::shared_ptr<Api> api) {
  return std::make_shared<CudaLibrary>(std::move(api));
}

}  // namespace ebb::device::cuda
