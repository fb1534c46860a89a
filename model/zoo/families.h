// The families of the zoo, each in a file of its name. Image models end in logits [N,1000] named
// "logits"; transformers compute their loss themselves, a scalar named "loss".
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::model::zoo {

// Bottleneck blocks a stage (He et al. 2015, with the stride in the 3x3 convolution as
// torchvision).
absl::StatusOr<graph::Graph> ResNet(int64_t batch, const std::array<int, 4>& blocks);
absl::StatusOr<graph::Graph> Vgg16(int64_t batch);
// Without the auxiliary head.
absl::StatusOr<graph::Graph> InceptionV3(int64_t batch);
absl::StatusOr<graph::Graph> DenseNet121(int64_t batch);
absl::StatusOr<graph::Graph> MobileNetV2(int64_t batch);
// Base size, with a masked-token head over 15 % of the positions. As many position embeddings as
// tokens.
absl::StatusOr<graph::Graph> BertBase(int64_t batch, int64_t tokens);
// Small size, next-token loss over the whole sequence by the transposed token embedding.
absl::StatusOr<graph::Graph> Gpt2Small(int64_t batch, int64_t tokens);

}  // namespace ebb::model::zoo
