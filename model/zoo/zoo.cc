#include "model/zoo/zoo.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "model/zoo/families.h"

namespace ebb::model {
namespace {

struct Row {
  ZooEntry entry;
  int64_t tokens;  // 0: an image model
  absl::StatusOr<graph::Graph> (*build)(int64_t batch, int64_t tokens);
};

constexpr std::array kRows = {
    Row{{"resnet50", "ResNet-50, 224x224 images, 25.6 M parameters"},
        0,
        [](int64_t batch, int64_t) {
          return zoo::ResNet(batch, {3, 4, 6, 3});
        }},
    Row{{"resnet152", "ResNet-152, 224x224 images, 60.2 M parameters"},
        0,
        [](int64_t batch, int64_t) {
          return zoo::ResNet(batch, {3, 8, 36, 3});
        }},
    Row{{"vgg16", "VGG-16, 224x224 images, 138.4 M parameters"},
        0,
        [](int64_t batch, int64_t) { return zoo::Vgg16(batch); }},
    Row{{"inception_v3", "Inception-v3 without auxiliary head, 299x299 images, 23.8 M parameters"},
        0,
        [](int64_t batch, int64_t) { return zoo::InceptionV3(batch); }},
    Row{{"densenet121", "DenseNet-121, 224x224 images, 8.0 M parameters"},
        0,
        [](int64_t batch, int64_t) { return zoo::DenseNet121(batch); }},
    Row{{"mobilenet_v2", "MobileNetV2, 224x224 images, 3.5 M parameters"},
        0,
        [](int64_t batch, int64_t) { return zoo::MobileNetV2(batch); }},
    Row{{"bert_base_128", "BERT-base, masked language model, 128 tokens, 109.2 M parameters"},
        128,
        zoo::BertBase},
    Row{{"bert_base_384", "BERT-base, masked language model, 384 tokens, 109.4 M parameters"},
        384,
        zoo::BertBase},
    Row{{"gpt2", "GPT-2 small, language model, 1024 tokens, 124.4 M parameters"},
        1024,
        zoo::Gpt2Small},
};

constexpr std::array<ZooEntry, kRows.size()> MakeEntries() {
  std::array<ZooEntry, kRows.size()> entries;
  for (size_t i = 0; i < kRows.size(); ++i) entries[i] = kRows[i].entry;
  return entries;
}
constexpr auto kEntries = MakeEntries();

}  // namespace

absl::Span<const ZooEntry> Zoo() { return kEntries; }

absl::StatusOr<ZooModel> BuildZooModel(absl::string_view name, int64_t batch) {
  for (const Row& row : kRows) {
    if (row.entry.name != name) continue;
    if (batch < 1 || batch > kMaxZooBatch) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": the batch must be from 1 to ", kMaxZooBatch, ", not ", batch));
    }
    ZooModel model;
    auto graph = row.build(batch, row.tokens);
    if (!graph.ok()) return Annotate(graph.status(), name);
    model.graph = *std::move(graph);
    model.tokens = row.tokens;
    if (row.tokens > 0) {
      model.loss.kind = graph::LossKind::kGraphOutput;
      model.optimizer.kind = graph::OptimizerKind::kAdam;
    } else {
      model.optimizer.momentum = 0.9;
    }
    return model;
  }
  const auto append = [](std::string* out, const ZooEntry& entry) {
    absl::StrAppend(out, entry.name);
  };
  return absl::NotFoundError(absl::StrCat("there is no model '", name, "' in the zoo; it has ",
                                          absl::StrJoin(kEntries, ", ", append)));
}

}  // namespace ebb::model
