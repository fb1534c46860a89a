// VGG-16 without batch normalisation.
#include "absl/strings/str_cat.h"
#include "model/zoo/builder.h"
#include "model/zoo/families.h"

namespace ebb::model::zoo {

absl::StatusOr<graph::Graph> Vgg16(int64_t batch) {
  Builder b(batch);
  ValueId x = b.Image(224);
  int module = 0;  // its number in torchvision's Sequential
  for (const auto& [channels, convolutions] :
       {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < convolutions; ++i) {
      ConvOptions conv = Same(3);
      conv.bias = true;
      x = b.Conv(absl::StrCat("features.", module), x, channels, conv);
      x = b.Relu(absl::StrCat("features.", module + 1), x);
      module += 2;
    }
    x = b.MaxPool(absl::StrCat("features.", module++), x, 2, 2, 0);
  }
  x = b.Reshape("flatten", x, {batch, 512 * 7 * 7});
  for (const int layer : {0, 3}) {
    x = b.Linear(absl::StrCat("classifier.", layer), x, 4096);
    x = b.Relu(absl::StrCat("classifier.", layer + 1), x);
    x = b.Dropout(absl::StrCat("classifier.", layer + 2), x, 0.5);
  }
  return b.Finish(b.Linear("classifier.6", x, 1000), "logits");
}

}  // namespace ebb::model::zoo
