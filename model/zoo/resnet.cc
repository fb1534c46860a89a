// ResNet-50 and -152.
#include "absl/strings/str_cat.h"
#include "model/zoo/builder.h"
#include "model/zoo/families.h"

namespace ebb::model::zoo {
namespace {

constexpr int64_t kExpansion = 4;

ValueId Bottleneck(Builder& b, const std::string& name, ValueId x, int64_t width, int64_t stride) {
  const int64_t out = kExpansion * width;
  ValueId y = b.Conv(name + ".conv1", x, width, Same(1));
  y = b.Relu(name + ".relu1", b.BatchNorm(name + ".bn1", y));
  y = b.Conv(name + ".conv2", y, width, Same(3, stride));
  y = b.Relu(name + ".relu2", b.BatchNorm(name + ".bn2", y));
  y = b.BatchNorm(name + ".bn3", b.Conv(name + ".conv3", y, out, Same(1)));
  if (stride != 1 || b.dim(x, 1) != out) {
    x = b.Conv(name + ".downsample.0", x, out, Same(1, stride));
    x = b.BatchNorm(name + ".downsample.1", x);
  }
  return b.Relu(name + ".relu3", b.Op("Add", name + ".add", {y, x}));
}

}  // namespace

absl::StatusOr<graph::Graph> ResNet(int64_t batch, const std::array<int, 4>& blocks) {
  Builder b(batch);
  ValueId x = b.Conv("conv1", b.Image(224), 64, Same(7, 2));
  x = b.Relu("relu", b.BatchNorm("bn1", x));
  x = b.MaxPool("maxpool", x, 3, 2, 1);
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < blocks[static_cast<size_t>(stage)]; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      x = Bottleneck(b, absl::StrCat("layer", stage + 1, ".", i), x, int64_t{64} << stage, stride);
    }
  }
  x = b.GlobalAveragePool("avgpool", x);
  return b.Finish(b.Linear("fc", x, 1000), "logits");
}

}  // namespace ebb::model::zoo
