#include "perfmodel/fabric_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kText[] = R"(name: lab
topology: {nodes: 2, nics: 4, nic_gbs: 25}
preset: a100-nvswitch
curves:
- kind: all_reduce
  ranks: 8
  source: "log:1"
  points: [[1024, 11.8], [2048, 12.1], [4096, 0.1]]
- {kind: send_recv, ranks: 2, nodes: 2, points: [[8, 5], [1e6, 60]]}
)";

std::string MessageOf(absl::string_view text) {
  return std::string(ParseFabric(text, "f.yaml").status().message());
}

TEST(FabricFile, HoldsATopologyAndCurves) {
  const auto fabric = ParseFabric(kText, "f.yaml");
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  EXPECT_EQ(fabric->name(), "lab");
  Topology expected = *FindFabric("a100-nvswitch")->topology();
  expected.nodes = 2;
  expected.nics = 4;
  expected.nic_gbs = 25;
  EXPECT_EQ(fabric->topology(), expected);
  ASSERT_EQ(fabric->curves().size(), 2u);
  EXPECT_EQ(fabric->curves()[0].points()[1], (CurvePoint{2048, 12.1}));
  EXPECT_EQ(fabric->curves()[1].subject(), (Curve::Subject{CollectiveKind::kSendRecv, 2, 2, ""}));
}

TEST(FabricFile, IsWrittenAsItIsRead) {
  for (const std::string& text :
       {std::string(kText), std::string("{name: \"a \\\"b\\\" \\\\c\", preset: pcie4}"),
        std::string("{name: x, topology: {link: nvmesh, link_gbs: 33.333333333333336}}")}) {
    const auto fabric = ParseFabric(text, "f.yaml");
    ASSERT_TRUE(fabric.ok()) << fabric.status();
    const std::string written = FabricText(*fabric);
    const auto again = ParseFabric(written, "again.yaml");
    ASSERT_TRUE(again.ok()) << again.status() << written;
    EXPECT_EQ(FabricText(*again), written);
    EXPECT_EQ(again->name(), fabric->name());
    EXPECT_EQ(again->topology(), fabric->topology());
    ASSERT_EQ(again->curves().size(), fabric->curves().size());
    for (size_t i = 0; i < again->curves().size(); ++i) {
      EXPECT_EQ(again->curves()[i].points(), fabric->curves()[i].points());
    }
  }
}

TEST(FabricFile, NamesTheLineOfAFault) {
  EXPECT_THAT(MessageOf("name: x\npreset: a100\n"), StartsWith("f.yaml:2:9: no fabric 'a100'"));
  EXPECT_THAT(MessageOf("name: x\nlinks: 3\n"),
              StartsWith("f.yaml:2:1: a fabric has no field 'links'; it has curves, name"));
  EXPECT_THAT(MessageOf("name: x\nname: y\n"), StartsWith("f.yaml:2:1: 'name' is given twice"));
  EXPECT_THAT(MessageOf("preset: pcie4\n"), HasSubstr("needs a name"));
  EXPECT_THAT(MessageOf("name: x\n"), HasSubstr("neither curves nor a topology"));
  EXPECT_THAT(MessageOf("name: x\ntopology: {link_gbs: -5}\n"),
              StartsWith("f.yaml:2:11: link_gbs must be above 0"));
  EXPECT_THAT(MessageOf("name: x\ntopology: {link_gbs: 5, usable_gbs: 6}\n"),
              HasSubstr("at most link_gbs"));
  EXPECT_THAT(MessageOf("name: x\ntopology: {link_gbs: 5, nodes: 2}\n"), HasSubstr("nics"));
  EXPECT_THAT(MessageOf("name: x\ncurves:\n- {ranks: 2, points: [[1, 2], [2, 3]]}\n"),
              StartsWith("f.yaml:3:3: a curve needs its kind"));
  EXPECT_THAT(MessageOf("name: x\ncurves:\n- {kind: all_reduce, points: [[1, 2], [2, 3]]}\n"),
              StartsWith("f.yaml:3:3: all_reduce of 0 ranks"));
  EXPECT_THAT(MessageOf("name: x\ncurves:\n- {kind: sum, ranks: 2}\n"),
              StartsWith("f.yaml:3:10: no collective 'sum'"));
  EXPECT_THAT(MessageOf("name: x\ncurves:\n- kind: all_reduce\n  points:\n  - [1]\n"),
              StartsWith("f.yaml:5:5: a point is [bytes, microseconds]"));
  EXPECT_THAT(MessageOf("name: x\ncurves:\n- kind: all_reduce\n  points:\n  - [1, five]\n"),
              StartsWith("f.yaml:5:9: it must be a number"));
}

TEST(FabricFile, RefusesWhatIsNoYamlOrNoText) {
  for (const absl::string_view text :
       {"", "3", "[1, 2]", "name: [", "name: x\npreset: pcie4\n---\nname: y\n", "\xff\xfe",
        "? [a]\n: b\n", "&a [*a, *a]", "name: \"\\x1b[31m\"\npreset: pcie4\n"}) {
    const auto fabric = ParseFabric(text, "f.yaml");
    EXPECT_EQ(fabric.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(fabric.status().message()), StartsWith("f.yaml")) << text;
  }
}

TEST(FabricFile, DoesNotFollowABombOfAliases) {
  std::string text = "name: x\ncurves:\n- kind: all_reduce\n  ranks: 2\n  points: &p\n";
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&text, "  - [", i + 1, ", 5]\n");
  for (int i = 3; i < 1000; ++i) {
    absl::StrAppend(&text, "- {kind: all_reduce, ranks: ", i, ", points: *p}\n");
  }
  EXPECT_THAT(MessageOf(text), HasSubstr("too many points"));
}

}  // namespace
}  // namespace ebb::perfmodel
