// Profiles of real devices: kernels that were measured, and what is taken from the device itself.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "device/sim/kernel_times.h"
#include "device/sim/roofline.h"
#include "device/sim/sim_device.h"
#include "gmock/gmock.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/device/sim_profiles.h"

namespace ebb::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kGraph[] = R"(
  x = input f32[32,64]; w = param f32[10,64]
  y = Gemm(x, w, -) {trans_b=1}; a = Relu(y); z = Gemm(a, w, -)
  f = Reshape(a) {shape=[320]})";

graph::Graph Parsed(absl::string_view text) {
  auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

SimProfile LikeCpu() {
  SimProfile profile = testing::PlainProfile();
  profile.like = "cpu";
  profile.kernels["Relu(f32[32,10]) -> f32[32,10]"] = {12.5, 0.25};
  return profile;
}

absl::StatusOr<std::unique_ptr<Device>> Open(const std::string& name) {
  return OpenDevice(name, {});
}

TEST(KernelKey, SaysOpOperandsAndAttributesWithoutNames) {
  const graph::Graph graph = Parsed(kGraph);
  EXPECT_EQ(KernelKey(graph, graph.nodes[0]),
            "Gemm(f32[32,64], f32[10,64], -) {trans_b=1} -> f32[32,10]");
  EXPECT_EQ(KernelKey(graph, graph.nodes[1]), "Relu(f32[32,10]) -> f32[32,10]");
  const graph::Graph renamed = Parsed(
      absl::StrReplaceAll(kGraph, {{" w", " weight"}, {" a =", " relu ="}, {"(a", "(relu"}}));
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    EXPECT_EQ(KernelKey(graph, graph.nodes[n]), KernelKey(renamed, renamed.nodes[n]));
  }
}

TEST(KernelKey, KnowsThePhysicalOrder) {
  graph::Graph graph = Parsed("x = input f32[2,3,4,4]; y = Relu(x)");
  const std::string plain = KernelKey(graph, graph.nodes[0]);
  graph.value(graph.nodes[0].outputs[0]).layout = graph::Layout::kChannelsLast;
  EXPECT_NE(KernelKey(graph, graph.nodes[0]), plain);
  EXPECT_THAT(KernelKey(graph, graph.nodes[0]), HasSubstr("f32[2,3,4,4] channels last"));
}

TEST(KernelTimes, AMeasuredKernelTakesItsTimeAndAnotherTheRoofline) {
  const graph::Graph graph = Parsed(kGraph);
  const SimProfile plain = testing::PlainProfile(), measured = LikeCpu();
  const KernelCost relu = CostAlone(measured, graph, graph.nodes[1]);
  EXPECT_DOUBLE_EQ(relu.micros, 12.5);
  EXPECT_DOUBLE_EQ(relu.slots, 0.25);  // one of four steps at once
  EXPECT_DOUBLE_EQ(relu.bandwidth, 0.25);
  EXPECT_DOUBLE_EQ(CostAlone(measured, graph, graph.nodes[0]).micros,
                   CostAlone(plain, graph, graph.nodes[0]).micros);
  EXPECT_EQ(CostAlone(measured, graph, graph.nodes[3]).micros, 0);  // a view
}

TEST(KernelTimes, AProfileSurvivesItsText) {
  SimProfile profile = LikeCpu();
  profile.name = "a: name # with 'marks'";
  profile.kernels["Gemm(f32[1,2], f32[3,2], -) {trans_b=1, word=\"tanh\"} -> f32[1,3]"] = {1e-3, 0};
  const auto read = ParseSimProfile(ToText(profile), "again.yaml");
  ASSERT_TRUE(read.ok()) << read.status() << "\n" << ToText(profile);
  EXPECT_EQ(read->name, profile.name);
  EXPECT_EQ(read->like, "cpu");
  EXPECT_EQ(read->kernels, profile.kernels);
  EXPECT_EQ(ConstantsOf(*read), ConstantsOf(profile));
}

TEST(KernelTimes, MistakesAreExplained) {
  const auto said = [](const std::string& more) {
    const auto read = ParseSimProfile(ToText(testing::PlainProfile()) + more, "p.yaml");
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << more;
    return std::string(read.status().message());
  };
  EXPECT_THAT(said("like: [cpu]\n"), AllOf(HasSubstr("p.yaml:"), HasSubstr("like: it must name")));
  EXPECT_THAT(said("like: sim:v100-16gb\n"), HasSubstr("not simulated"));
  EXPECT_THAT(said("kernels: 3\n"), HasSubstr("kernels: it must be a mapping"));
  for (const char* pair : {"5", "[5]", "[5, 0.1, 2]", "[0, 0.1]", "[-1, 0]", "[x, 0]", "[1, 1.5]",
                           "[.inf, 0]", "[nan, 0]", "[1, nan]", "[[1], 0]"}) {
    EXPECT_THAT(said(absl::StrCat("kernels:\n  Relu: ", pair, "\n")),
                AllOf(HasSubstr("line "), HasSubstr("[microseconds above 0, bandwidth share")));
  }
  EXPECT_THAT(said("kernels:\n  Relu: [1, 0]\n  Relu: [2, 0]\n"), HasSubstr("given twice"));
}

TEST(SimOfADevice, LowersAndTakesScratchMemoryAsThere) {
  const auto sim = MakeSim(LikeCpu(), OverlapModel::kSlots, Open);
  ASSERT_TRUE(sim.ok()) << sim.status();
  const auto cpu = *Open("cpu");
  EXPECT_TRUE((*sim)->spec().host_memory);
  EXPECT_FALSE((*sim)->spec().computes);
  const char* const text =
      "x = input f32[4,8,16,16]; w = param f32[16,8,3,3]\n"
      "c = Conv(x, w) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}; r = Relu(c)\n"
      "p = MaxPool(r) {kernel=[2,2], strides=[2,2], pads=[0,0,0,0], dilations=[1,1]}\noutput p";
  const auto lowered = cpu->Lower(Parsed(text));
  const auto simulated = (*sim)->Lower(Parsed(text));
  ASSERT_TRUE(lowered.ok() && simulated.ok());
  EXPECT_EQ(ToText(*simulated), ToText(*lowered));
  EXPECT_GT(lowered->nodes.size(), Parsed(text).nodes.size());  // the pass did something
  const auto real = cpu->Compile(*lowered), program = (*sim)->Compile(*lowered);
  ASSERT_TRUE(real.ok() && program.ok());
  for (const graph::Node& node : lowered->nodes) {
    EXPECT_EQ((*program)->Workspace(node.id), (*real)->Workspace(node.id)) << node.name;
  }
}

TEST(SimOfADevice, ADeviceThatIsNotThereIsAnError) {
  SimProfile profile = LikeCpu();
  profile.like = "npu";
  const auto sim = MakeSim(profile, OverlapModel::kSlots, Open);
  EXPECT_EQ(sim.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(sim.status().message()),
              AllOf(HasSubstr("plain: like: "), HasSubstr("\"npu\"")));
  EXPECT_EQ(MakeSim(profile, OverlapModel::kSlots, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::device
