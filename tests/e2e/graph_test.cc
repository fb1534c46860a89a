// Models as serialised graphs, through the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ebb/v1/graph.pb.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;

std::string ReadExample(const std::string& name) {
  std::ifstream file(kExamples + "/" + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

v1::Graph FromText() {
  v1::Graph graph;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(ReadExample("models/mlp.txtpb"), &graph));
  return graph;
}

class GraphTest : public DaemonFixture {
 protected:
  GraphTest() : DaemonFixture({"--memory", "64MiB"}) {}
};

TEST_F(GraphTest, TheExampleIsItsText) {
  v1::Graph graph;
  ASSERT_TRUE(graph.ParseFromString(ReadExample("models/mlp.graph")));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(graph, FromText()));
}

TEST_F(GraphTest, TrainsToTheBitsOfTheSameModelFromOnnx) {
  const std::string graph = Submit("digits-graph", {"stop={epochs: 2}"});
  const std::string onnx =
      Submit("digits-mlp-adam", {"stop={epochs: 2}", "model.reinit=all", "seed=1"});
  for (const std::string& job : {graph, onnx}) {
    const Outcome run = Ebb({"watch", job});
    ASSERT_EQ(run.code, 0) << run.error;
  }
  EXPECT_EQ(EbbJson({"get", graph, "--sha256"})["sha256"],
            EbbJson({"get", onnx, "--sha256"})["sha256"]);
  EXPECT_GT(EbbJson({"show", graph})["metrics"]["val/accuracy"], 0.9);
}

TEST_F(GraphTest, MistakesAreRefusedByPlace) {
  const auto refusal = [&](const v1::Graph& graph, int code) {
    dir_.Write("bad.graph", graph.SerializeAsString());
    const Outcome run = Ebb({"submit", kExamples + "/digits-graph.yaml", "--set",
                             "model={graph: " + dir_.path() + "/bad.graph, reinit: all}"});
    EXPECT_EQ(run.code, code) << run.error;
    return run.error;
  };
  v1::Graph graph = FromText();
  graph.set_version(2);
  EXPECT_THAT(refusal(graph, 5), HasSubstr("format version 2"));
  graph = FromText();
  graph.mutable_nodes(2)->set_op("Rleu");
  EXPECT_THAT(refusal(graph, 5), HasSubstr("node 2 'r0': there is no op 'Rleu'"));
  graph = FromText();
  graph.mutable_values(1)->set_shape(1, 65);
  EXPECT_THAT(refusal(graph, 2), HasSubstr("node 1 'h0'"));
  graph = FromText();
  graph.mutable_nodes(5)->set_inputs(0, "r2");
  EXPECT_THAT(refusal(graph, 2), HasSubstr("node 5 'logits': input 'r2' is made by nothing"));
}

}  // namespace
}  // namespace ebb::e2e
