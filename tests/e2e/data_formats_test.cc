// Jobs that train on each way to bring data, through the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "daemon/wire_graph.h"
#include "graph/text.h"
#include "model/safetensors.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using graph::DType;
using graph::HostTensor;
using testing::HasSubstr;

std::string Serialised(const std::string& text) {
  const auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return daemon::GraphToWire(*graph).SerializeAsString();
}

class DataFormatsTest : public DaemonFixture {
 protected:
  DataFormatsTest() : DaemonFixture({"--memory", "64MiB"}) {}
  // A job of the graph and the data section, trained to its end.
  std::string Spec(const std::string& graph, const std::string& rest) const {
    dir_.Write("model.pb", Serialised(graph));
    return dir_.Write("job.yaml",
                      absl::StrCat("model: {graph: model.pb, reinit: all}\nbatch_size: 16\n"
                                   "loss: cross_entropy\noptimizer: {adam: {lr: 0.05}}\n"
                                   "metrics: accuracy\nseed: 1\n",
                                   rest));
  }
  Json Trained(const std::string& spec) const {
    const Outcome run = Ebb({"submit", spec, "--watch"});
    EXPECT_EQ(run.code, 0) << run.error << daemon_->error();
    return EbbJson({"show", "job"});
  }
};

// Bags of 1 to 5 of 20 numbers; the label is whether a number below 4 is in the bag.
graph::TensorMap Bags(int rows) {
  std::mt19937 random(5);
  std::vector<int64_t> indices, offsets = {0}, labels;
  for (int row = 0; row < rows; ++row) {
    int64_t label = 0;
    for (unsigned i = 1 + random() % 5; i > 0; --i) {
      indices.push_back(random() % 4 == 0 ? random() % 4 : 4 + random() % 16);
      if (indices.back() < 4) label = 1;
    }
    offsets.push_back(static_cast<int64_t>(indices.size()));
    labels.push_back(label);
  }
  graph::TensorMap map;
  const auto put = [&](const char* name, const std::vector<int64_t>& values) {
    map[name] = HostTensor::Of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
  };
  put("tags.indices", indices);
  put("tags.offsets", offsets);
  put("label", labels);
  return map;
}

constexpr char kBagModel[] = R"(tags = input i64[16,5]
mask = input f32[16,5]
table = param f32[20,8]
w = param f32[2,8]
b = param f32[2]
e = Gather(table, tags) {axis=0}
m = Reshape(mask) {shape=[16,5,1]}
kept = Mul(e, m)
bag = ReduceSum(kept) {axes=[1], keepdims=0}
logits = Gemm(bag, w, b) {trans_b=1}
output logits
)";

TEST_F(DataFormatsTest, SparseFeaturesOfSafetensorsTrain) {
  dir_.Write("bags.safetensors", model::WriteSafetensors(Bags(1600)));
  dir_.Write("held.safetensors", model::WriteSafetensors(Bags(400)));
  const std::string spec = Spec(kBagModel, R"(data:
  train: {file: bags.safetensors, sparse: [{match: tags, pad_to: 5}]}
  val: {file: held.safetensors, sparse: [{match: "t*", pad_to: 5}]}
bind: {mask: tags.mask}
stop: {epochs: 6}
)");
  EXPECT_GT(Trained(spec)["metrics"]["val/accuracy"], 0.98);

  const std::vector<std::pair<std::string, std::string>> cases = {
      {"data.train={file: bags.safetensors}",
       "bags.safetensors: fields \"tags.indices\" and \"tags.offsets\" are a "
       "sparse feature"},
      {"data.train.sparse=[{match: tags, pad_to: 4}]", "the longest row has 5"},
      {"data.train.sparse=[{match: tags, pad_to: 4, truncate: true}]",
       "rows of shape [4] but the model input takes [5]"},
      {"data.train.sparse=[{match: tags, pad_to: 5, pad_value: 20}]", "20 is outside of the table"},
      {"data.train.sparse=[{match: tags}]", "data.train: sparse[0].pad_to is 0"},
  };
  for (const auto& [assignment, message] : cases) {
    const Outcome outcome = Ebb({"submit", spec, "--set", assignment});
    EXPECT_EQ(outcome.code, 2) << assignment << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(message)) << assignment;
  }
}

}  // namespace
}  // namespace ebb::e2e
