// DenseNet-121.
#include "absl/strings/str_cat.h"
#include "model/zoo/builder.h"
#include "model/zoo/families.h"

namespace ebb::model::zoo {
namespace {

constexpr int64_t kGrowth = 32;

ValueId NormRelu(Builder& b, const std::string& norm, ValueId x) {
  return b.Relu(absl::StrCat(norm, ".relu"), b.BatchNorm(norm, x));
}

// Returns all features so far. They are joined layer by layer: the numbers are those of joining all
// pieces at every layer, as torchvision does, but a piece's gradient is added up as it arrives
// rather than kept in one share a later layer.
ValueId DenseLayer(Builder& b, const std::string& name, ValueId features) {
  ValueId x = NormRelu(b, name + ".norm1", features);
  x = b.Conv(name + ".conv1", x, 4 * kGrowth, Same(1));
  x = NormRelu(b, name + ".norm2", x);
  x = b.Conv(name + ".conv2", x, kGrowth, Same(3));
  return b.Concat(name + ".concat", {features, x});
}

}  // namespace

absl::StatusOr<graph::Graph> DenseNet121(int64_t batch) {
  Builder b(batch);
  ValueId x = b.Conv("features.conv0", b.Image(224), 64, Same(7, 2));
  x = NormRelu(b, "features.norm0", x);
  x = b.MaxPool("features.pool0", x, 3, 2, 1);
  int block = 0;
  for (const int layers : {6, 12, 24, 16}) {
    ++block;
    for (int i = 1; i <= layers; ++i) {
      x = DenseLayer(b, absl::StrCat("features.denseblock", block, ".denselayer", i), x);
    }
    if (block == 4) break;
    const std::string name = absl::StrCat("features.transition", block);
    x = NormRelu(b, name + ".norm", x);
    x = b.Conv(name + ".conv", x, b.dim(x, 1) / 2, Same(1));
    x = b.AveragePool(name + ".pool", x, 2, 2, 0);
  }
  x = NormRelu(b, "features.norm5", x);
  return b.Finish(b.Linear("classifier", b.GlobalAveragePool("pool", x), 1000), "logits");
}

}  // namespace ebb::model::zoo
