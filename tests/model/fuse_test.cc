// Layers that exporters write as arithmetic become single ops with the same results; what only
// looks like one stays.
#include "model/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/op.h"
#include "graph/text.h"
#include "tests/testing/run_graph.h"

namespace ebb::model {
namespace {

using graph::Graph;
using graph::HostTensor;
using graph::Node;
using graph::Role;
using ::testing::ElementsAre;

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.emplace_back(node.op->name);
  return ops;
}

// Every input and parameter drawn, one step on the reference device in f64.
std::vector<double> Run(const Graph& graph) {
  const auto device = device::OpenDevice("ref", {});
  EXPECT_TRUE(device.ok()) << device.status();
  graph::TensorMap feeds;
  for (const graph::Value& value : graph.values) {
    if (value.role != Role::kInput && value.role != Role::kParam) continue;
    feeds[value.name] = testing::RandomTensor(value.type, value.name.size() + 7, -2, 2);
  }
  const auto results = testing::RunGraph(**device, graph, feeds);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return {};
  return testing::ToDoubles(results->at(graph.value(graph.outputs[0]).name));
}

// The ops that are left; checks that the results are those of `text`.
std::vector<std::string> Fused(const std::string& text) {
  SCOPED_TRACE(text);
  const auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto fused = FuseLayers(*graph);
  EXPECT_TRUE(fused.ok()) << fused.status();
  if (!graph.ok() || !fused.ok()) return {};
  EXPECT_TRUE(graph::Verify(*fused).ok()) << graph::Verify(*fused);
  const std::vector<double> want = Run(*graph), got = Run(*fused);
  EXPECT_EQ(want.size(), got.size());
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-7 * (1 + std::abs(want[i]))) << i;
  }
  return OpsOf(*fused);
}

bool Stays(const std::string& text) {
  const auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto fused = FuseLayers(*graph);
  EXPECT_TRUE(fused.ok()) << fused.status();
  return graph.ok() && fused.ok() && OpsOf(*graph) == OpsOf(*fused);
}

constexpr char kX[] = "x = input f64[2,3,8]; g = param f64[8]; b = param f64[8]\n";

// y = (x - mean) / sqrt(var + eps) * g + b, as opset 13 has it.
std::string LayerNormText(const std::string& tail, const std::string& axes = "[2]") {
  return absl::StrCat(kX, "m = ReduceMean(x) {axes=", axes,
                      ", keepdims=1}; d = Sub(x, m); s = Mul(d, d)\n"
                      "v = ReduceMean(s) {axes=",
                      axes, ", keepdims=1}; e = Scale(v) {shift=0.00001}; r = Sqrt(e)\n", tail);
}
constexpr char kAffine[] = "n = Div(d, r); h = Mul(n, g); y = Add(h, b); output y\n";

TEST(FuseLayers, MakesLayerNormOfItsParts) {
  EXPECT_THAT(Fused(LayerNormText(kAffine)), ElementsAre("LayerNorm"));
  EXPECT_THAT(Fused(LayerNormText("n = Div(d, r); h = Mul(g, n); y = Add(b, h); output y\n")),
              ElementsAre("LayerNorm"));
  EXPECT_THAT(Fused(LayerNormText("i = Reciprocal(r); n = Mul(d, i); y = Mul(n, g); output y\n")),
              ElementsAre("LayerNorm"));
  EXPECT_THAT(Fused(LayerNormText("y = Div(d, r); output y\n")), ElementsAre("LayerNorm"));
  // What follows is no part of it.
  EXPECT_THAT(Fused(LayerNormText("n = Div(d, r); h = Mul(n, g); k = Add(h, b); y = Add(k, x)\n"
                                  "output y\n")),
              ElementsAre("LayerNorm", "Add"));
}

TEST(FuseLayers, NormalisesOverSeveralLastAxes) {
  std::string text = LayerNormText(kAffine, "[1,2]");
  absl::StrReplaceAll({{"param f64[8]", "param f64[3,8]"}}, &text);
  EXPECT_THAT(Fused(text), ElementsAre("LayerNorm"));
}

TEST(FuseLayers, LeavesWhatIsNoLayerNorm) {
  // Over channels, not the last axis.
  std::string text = LayerNormText("n = Div(d, r); y = Mul(n, x); output y\n", "[1]");
  EXPECT_TRUE(Stays(text));
  // The mean, or the deviation, is read by others.
  EXPECT_TRUE(Stays(LayerNormText(absl::StrCat(kAffine, "output m\n"))));
  EXPECT_TRUE(Stays(LayerNormText("n = Div(d, r); y = Mul(n, r); output y\n")));
  // The variance of something else.
  EXPECT_TRUE(Stays(absl::StrCat(kX,
                                 "z = input f64[2,3,8]\ns = Mul(z, z)\n"
                                 "v = ReduceMean(s) {axes=[2]}; r = Sqrt(v); y = Div(x, r)\n"
                                 "output y\n")));
  // A mean absolute deviation.
  EXPECT_TRUE(Stays(absl::StrCat(kX,
                                 "a = Abs(x); v = ReduceMean(a) {axes=[2]}; r = Sqrt(v)\n"
                                 "y = Div(x, r)\noutput y\n")));
}

// A bias of the positions, not of the elements that are normalised.
TEST(FuseLayers, TakesOnlyWeightsOfWhatIsNormalised) {
  std::string text = LayerNormText("n = Div(d, r); y = Add(n, p); output y\n");
  EXPECT_THAT(Fused("p = param f64[3,8]\n" + text), ElementsAre("LayerNorm", "Add"));
}

constexpr char kSquare[] =
    "s = Mul(x, x); v = ReduceMean(s) {axes=[2]}; e = Scale(v) {shift=0.000001}; r = Sqrt(e)\n";

TEST(FuseLayers, MakesRmsNormOfItsParts) {
  for (const char* tail :
       {"i = Reciprocal(r); n = Mul(x, i); y = Mul(g, n)\n", "n = Div(x, r); y = Mul(n, g)\n",
        "o = constant f64[] 1; i = Div(o, r); n = Mul(x, i); y = Mul(g, n)\n"}) {
    EXPECT_THAT(Fused(absl::StrCat(kX, kSquare, tail, "output y\n")), ElementsAre("RmsNorm"));
  }
  // A weight that is computed (1 + g) multiplies what is normalised without one.
  EXPECT_THAT(Fused(absl::StrCat(kX, "w = Scale(g) {shift=1}\n", kSquare,
                                 "n = Div(x, r); y = Mul(n, w); output y\n")),
              ElementsAre("Scale", "RmsNorm", "Mul"));
  // A bias is not the op's.
  EXPECT_THAT(Fused(absl::StrCat(kX, kSquare, "n = Div(x, r); h = Mul(n, g); y = Add(h, b)\n",
                                 "output y\n")),
              ElementsAre("RmsNorm", "Add"));
}

TEST(FuseLayers, LeavesWhatIsNoRmsNorm) {
  EXPECT_TRUE(Stays(absl::StrCat(kX, kSquare, "o = constant f64[] 2; i = Div(o, r)\n",
                                 "y = Mul(x, i); output y\n")));
  EXPECT_TRUE(Stays(absl::StrCat(kX, kSquare, "y = Div(r, x); output y\n")));
}

TEST(FuseLayers, MakesGeluOfErf) {
  const std::string head =
      "x = input f64[40]\nu = Scale(x) {scale=0.70710678118}; f = Erf(u); a = Scale(f) {shift=1}\n";
  EXPECT_THAT(Fused(head + "p = Mul(x, a); y = Scale(p) {scale=0.5}; output y\n"),
              ElementsAre("Gelu"));
  EXPECT_THAT(Fused(head + "h = Scale(x) {scale=0.5}; y = Mul(h, a); output y\n"),
              ElementsAre("Gelu"));
  EXPECT_THAT(Fused(head + "h = Scale(a) {scale=0.5}; y = Mul(h, x); output y\n"),
              ElementsAre("Gelu"));
}

constexpr char kTanh[] =
    "f = Tanh(u); a = Scale(f) {shift=1}; h = Scale(x) {scale=0.5}\n"
    "y = Mul(h, a); output y\n";

TEST(FuseLayers, MakesGeluOfTanh) {
  EXPECT_THAT(Fused(absl::StrCat("x = input f64[40]\n"
                                 "q = Mul(x, x); t = Mul(q, x); c = Scale(t) {scale=0.044715}\n"
                                 "s = Add(x, c); u = Scale(s) {scale=0.7978845608028654}\n",
                                 kTanh)),
              ElementsAre("Gelu"));
  EXPECT_THAT(Fused(absl::StrCat("x = input f64[40]\n"
                                 "q = Mul(x, x); c = Scale(q) {scale=0.044715, shift=1}\n"
                                 "k = Scale(x) {scale=0.7978845608028654}; u = Mul(k, c)\n",
                                 kTanh)),
              ElementsAre("Gelu"));
}

TEST(FuseLayers, LeavesWhatIsNoGelu) {
  const auto erf = [](const std::string& scale, const std::string& shift, const char* half) {
    return absl::StrCat("x = input f64[4]; z = input f64[4]\nu = Scale(x) {scale=", scale,
                        "}; f = Erf(u); a = Scale(f) {shift=", shift,
                        "}; p = Mul(x, a); y = Scale(p) {scale=", half, "}; output y\n");
  };
  EXPECT_THAT(Fused(erf("0.7071067", "1", "0.5")), ElementsAre("Gelu"));
  EXPECT_TRUE(Stays(erf("0.7", "1", "0.5")));
  EXPECT_TRUE(Stays(erf("0.7071067", "2", "0.5")));
  EXPECT_TRUE(Stays(erf("0.7071067", "1", "0.25")));
  std::string other = erf("0.7071067", "1", "0.5");
  absl::StrReplaceAll({{"Mul(x, a)", "Mul(z, a)"}}, &other);
  EXPECT_TRUE(Stays(other));
  EXPECT_TRUE(
      Stays(absl::StrCat("x = input f64[40]\n"
                         "q = Mul(x, x); t = Mul(q, x); c = Scale(t) {scale=0.05}\n"
                         "s = Add(x, c); u = Scale(s) {scale=0.7978845608028654}\n",
                         kTanh)));
}

TEST(FuseLayers, MakesSiluAndNothingElseOfSigmoid) {
  EXPECT_THAT(Fused("x = input f64[40]\ns = Sigmoid(x); y = Mul(x, s); output y\n"),
              ElementsAre("Silu"));
  EXPECT_THAT(Fused("x = input f64[40]\ns = Sigmoid(x); y = Mul(s, x); output y\n"),
              ElementsAre("Silu"));
  // The quick approximation of GELU, a gate, and a sigmoid that others read.
  EXPECT_TRUE(
      Stays("x = input f64[4]\nk = Scale(x) {scale=1.702}; s = Sigmoid(k); y = Mul(x, s)\n"
            "output y\n"));
  EXPECT_TRUE(
      Stays("x = input f64[4]; z = input f64[4]\ns = Sigmoid(x); y = Mul(z, s)\n"
            "output y\n"));
  EXPECT_TRUE(Stays("x = input f64[4]\ns = Sigmoid(x); y = Mul(x, s); w = Add(y, s); output w\n"));
}

TEST(FuseLayers, KeepsTheNamesOfResults) {
  const auto graph = graph::ParseGraph("x = input f64[4]\ns = Sigmoid(x); y = Mul(x, s); output y");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto fused = FuseLayers(*graph);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(fused->value(fused->outputs[0]).name, "y");
}

TEST(Fuse, GroupNormOfReshapedInstances) {
  const std::string head =
      "x = input f64[2,4,3,2]; w = param f64[4]; b = param f64[4]; o = constant f64[2] 1 1; "
      "z = constant f64[2] 0 0; r = Reshape(x) {shape=[2,2,12]}; ";
  const std::string tail =
      "n, m, i = GroupNorm(r, o, z) {groups=2, epsilon=0.01}; q = Reshape(n) {shape=[2,4,3,2]}; "
      "v = Reshape(w) {shape=[4,1,1]}; c = Reshape(b) {shape=[4,1,1]}; p = Mul(q, v); "
      "y = Add(p, c); output y";
  EXPECT_THAT(Fused(head + tail), ElementsAre("GroupNorm"));
  // Instances of another scale stay.
  EXPECT_THAT(Fused(absl::StrReplaceAll(head + tail, {{"f64[2] 1 1", "f64[2] 1 2"}})),
              ::testing::Contains("Reshape"));
}

TEST(Fuse, SoftmaxWithoutNans) {
  const std::string text =
      "x = input f64[2,3]; z = constant f64[] 0; s = Softmax(x) {axis=1}; e = Equal(s, s); "
      "n = Not(e); y = Where(n, z, s); output y";
  EXPECT_THAT(Fused(text), ElementsAre("Softmax"));
  EXPECT_THAT(Fused(absl::StrReplaceAll(text, {{"f64[] 0", "f64[] 1"}})),
              ElementsAre("Softmax", "Equal", "Not", "Where"));
}

}  // namespace
}  // namespace ebb::model
