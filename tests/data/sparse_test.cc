// Sparse features: what padded rows look like, and which inconsistent arrays are refused.
#include "data/sparse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/files.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rules = std::vector<SparseRule>;
using Fields = std::map<std::string, HostTensor>;

HostTensor Ints(const std::vector<int64_t>& values) {
  return HostTensor::Of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}
HostTensor Floats(const std::vector<float>& values) {
  return HostTensor::Of<float>(DType::kF32, {static_cast<int64_t>(values.size())}, values);
}

Fields Feature(const std::vector<int64_t>& offsets, const std::vector<int64_t>& indices) {
  Fields fields;
  fields["c.offsets"] = Ints(offsets);
  fields["c.indices"] = Ints(indices);
  return fields;
}

std::string Error(const Fields& fields, const std::vector<SparseRule>& rules) {
  const auto padded = PadSparse(fields, rules, GiB(1));
  return padded.ok() ? "accepted" : std::string(padded.status().message());
}

TEST(Sparse, RowsArePaddedAndMasked) {
  const auto set = ParseDataSet(Fixture("sparse.npz"), {.sparse = {{"cat", 3, -1}}});
  ASSERT_TRUE(set.ok()) << set.status();
  const Fields& fields = (*set)->fields();
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(ToString(fields.at("cat").type), "i64[4,3]");
  EXPECT_THAT(fields.at("cat").as<int64_t>(),
              ElementsAre(5, 6, -1, -1, -1, -1, 7, 8, 9, 1, -1, -1));
  EXPECT_THAT(fields.at("cat.mask").as<float>(), ElementsAre(1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0));
  EXPECT_THAT(fields.at("cat.weights").as<float>(),
              ElementsAre(0.5, 1, 0, 0, 0, 0, 2, 3, 4, 5, 0, 0));
  EXPECT_EQ(fields.count("label"), 1u);
}

TEST(Sparse, OffsetsMayHaveTheEndOrNot) {
  for (const bool with_end : {false, true}) {
    Fields fields = Feature({0, 1, 1}, {4, 5, 6});
    if (with_end) fields["c.offsets"] = Ints({0, 1, 1, 3});
    const auto padded = PadSparse(fields, Rules{{"c", 2}}, GiB(1));
    ASSERT_TRUE(padded.ok()) << padded.status();
    EXPECT_THAT(padded->at("c").as<int64_t>(), ElementsAre(4, 0, 0, 0, 5, 6));
  }
  // The last row is empty, which only the rows of another field can tell from an end.
  Fields fields = Feature({0, 2}, {4, 5});
  fields["label"] = Ints({1, 0});
  const auto padded = PadSparse(fields, Rules{{"c", 2, 9}}, GiB(1));
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_THAT(padded->at("c").as<int64_t>(), ElementsAre(4, 5, 9, 9));
}

TEST(Sparse, TheFirstRuleThatMatchesCountsAndMayCut) {
  Fields fields = Feature({0, 3}, {1, 2, 3, 4});
  fields["long.offsets"] = Ints({0, 3});
  fields["long.indices"] = HostTensor::Of<int32_t>(DType::kI32, {4}, {1, 2, 3, 4});
  const std::vector<SparseRule> rules = {{"lo*", 4}, {"*", 1, 0, SparseRule::Overlong::kCut}};
  const auto padded = PadSparse(fields, rules, GiB(1));
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_THAT(padded->at("c").as<int64_t>(), ElementsAre(1, 4));
  EXPECT_THAT(padded->at("long").as<int32_t>(), ElementsAre(1, 2, 3, 0, 4, 0, 0, 0));
  EXPECT_THAT(padded->at("long.mask").as<float>(), ElementsAre(1, 1, 1, 0, 1, 0, 0, 0));
}

TEST(Sparse, WhatDoesNotFitIsRefusedInWords) {
  const std::vector<SparseRule> rules = {{"c", 2}};
  const Fields good = Feature({0, 2}, {1, 2, 3});
  EXPECT_EQ(Error(good, rules), "accepted");
  EXPECT_THAT(Error(good, {}), HasSubstr("say sparse: [{match: c, pad_to: LENGTH}]"));
  EXPECT_THAT(Error(good, {{"c", 1}}),
              HasSubstr("field \"c\", row 0 has 2 indices, more than pad_to 1; the longest row has "
                        "2"));
  EXPECT_THAT(Error(good, {{"c", 2}, {"d*", 2}}),
              HasSubstr("sparse[1] matches no sparse feature; they are c"));
  EXPECT_THAT(Error({{"x", Ints({1})}}, rules), HasSubstr("the data have none"));
  EXPECT_THAT(Error(Feature({1, 2}, {1, 2, 3}), rules), HasSubstr("begins with 1"));
  EXPECT_THAT(Error(Feature({0, 2, 1}, {1, 2, 3}), rules),
              HasSubstr("\"c.offsets\"[2] is 1, less than the 2 before it"));
  EXPECT_THAT(Error(Feature({0, 4}, {1, 2, 3}), rules), HasSubstr("less than the 4 before it"));
  EXPECT_THAT(Error(Feature({}, {1}), rules), HasSubstr("offsets are one flat array"));
  Fields fields = good;
  fields["y"] = Ints({1, 2, 3, 4});
  EXPECT_THAT(Error(fields, rules), HasSubstr("has 2 entries, but the other fields have 4 rows"));
  fields["y"] = Ints({1});
  EXPECT_THAT(Error(fields, rules), HasSubstr("ends at 2, but there are 3 indices"));
  fields = good;
  fields["c.weights"] = Floats({1, 2});
  EXPECT_THAT(Error(fields, rules), HasSubstr("give a float an index"));
  fields = good;
  fields["c.indices"] = Floats({1, 2, 3});
  EXPECT_THAT(Error(fields, rules), HasSubstr("\"c.indices\" is f32[3]"));
  fields["c.indices"] = HostTensor::Of<int32_t>(DType::kI32, {3}, {1, 2, 3});
  EXPECT_THAT(Error(fields, {{"c", 2, int64_t{1} << 40}}), HasSubstr("does not fit field"));
}

TEST(Sparse, PaddingIsBoundedAndAskedFor) {
  const Fields good = Feature({0, 2}, {1, 2, 3});
  const auto large = PadSparse(good, Rules{{"c", 1 << 20}}, MiB(16));
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(large.status().message(), HasSubstr("lower pad_to"));
  Bytes asked;
  const auto counted = PadSparse(good, Rules{{"c", 8}}, MiB(16), [&](Bytes bytes) {
    asked += bytes;
    return absl::OkStatus();
  });
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(asked, Bytes(2 * 8 * (8 + 4)));
}

TEST(Sparse, RulesAreChecked) {
  EXPECT_TRUE(CheckSparseRules(Rules{{"c", 1}}).ok());
  EXPECT_THAT(CheckSparseRules(Rules{{"c", 0}}).message(), HasSubstr("sparse[0].pad_to is 0"));
  EXPECT_THAT(CheckSparseRules(Rules{{"c", 1}, {"", 1}}).message(),
              HasSubstr("sparse[1].match is empty"));
}

}  // namespace
}  // namespace ebb::data
