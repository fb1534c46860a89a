// MobileNetV2 of width 1.
#include "absl/strings/str_cat.h"
#include "model/zoo/builder.h"
#include "model/zoo/families.h"

namespace ebb::model::zoo {
namespace {

// Convolution, batch normalisation, ReLU6: torchvision's Conv2dNormActivation.
ValueId ConvUnit(Builder& b, const std::string& name, ValueId x, int64_t out,
                 const ConvOptions& conv) {
  x = b.BatchNorm(name + ".1", b.Conv(name + ".0", x, out, conv));
  return b.Op("HardTanh", name + ".2", {x}, {{"min", 0.0}, {"max", 6.0}});
}

ValueId InvertedResidual(Builder& b, const std::string& name, ValueId x, int64_t out,
                         int64_t stride, int64_t expansion) {
  const int64_t in = b.dim(x, 1), hidden = in * expansion;
  ValueId y = x;
  int module = 0;
  const auto next = [&] { return absl::StrCat(name, ".conv.", module++); };
  if (expansion != 1) y = ConvUnit(b, next(), y, hidden, Same(1));
  y = ConvUnit(b, next(), y, hidden, Same(3, stride, hidden));
  y = b.Conv(next(), y, out, Same(1));
  y = b.BatchNorm(next(), y);
  return stride == 1 && in == out ? b.Op("Add", name + ".add", {y, x}) : y;
}

}  // namespace

absl::StatusOr<graph::Graph> MobileNetV2(int64_t batch) {
  struct Stage {
    int64_t expansion, channels;
    int blocks;
    int64_t stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Builder b(batch);
  ValueId x = ConvUnit(b, "features.0", b.Image(224), 32, Same(3, 2));
  int module = 1;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.blocks; ++i) {
      x = InvertedResidual(b, absl::StrCat("features.", module++), x, stage.channels,
                           i == 0 ? stage.stride : 1, stage.expansion);
    }
  }
  x = ConvUnit(b, "features.18", x, 1280, Same(1));
  x = b.Dropout("classifier.0", b.GlobalAveragePool("pool", x), 0.2);
  return b.Finish(b.Linear("classifier.1", x, 1000), "logits");
}

}  // namespace ebb::model::zoo
