// Slices of fields: how they are written, what they take, and what of it reaches a batch.
#include "data/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FieldSlice, IsWrittenAsInPython) {
  const auto read = [](absl::string_view text) {
    const auto slice = ParseFieldSlice(text);
    EXPECT_TRUE(slice.ok()) << slice.status();
    return slice.ok() ? *slice : FieldSlice();
  };
  EXPECT_EQ(read("x").field, "x");
  EXPECT_FALSE(read("x").slice.from || read("x").slice.to);
  EXPECT_EQ(read("tokens[:-1]").field, "tokens");
  EXPECT_EQ(read("tokens[:-1]").slice.to, -1);
  EXPECT_FALSE(read("tokens[:-1]").slice.from);
  EXPECT_EQ(read("tokens[1:]").slice.from, 1);
  EXPECT_FALSE(read("tokens[1:]").slice.to);
  EXPECT_EQ(read("a[2:5]").slice.from, 2);
  EXPECT_EQ(read("a[2:5]").slice.to, 5);
  EXPECT_FALSE(read("a[:]").slice.from || read("a[:]").slice.to);
}

TEST(FieldSlice, OtherTextInBracketsIsRefused) {
  for (const char* bad : {"x[", "x[]", "x[1]", "x[1:2", "x[:]y", "x[a:]", "x[1:2:3]", "x[1:]]",
                          "x[[1:]", "x[1.5:]", "[", "x]["}) {
    const auto slice = ParseFieldSlice(bad);
    EXPECT_THAT(slice.status().ToString(), HasSubstr("is not a slice of a field")) << bad;
  }
}

TEST(RowPart, LiesInTheRow) {
  const auto part = [](RowSlice slice, graph::Shape shape) {
    const auto part = PartOf(slice, shape);
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() ? *part : RowPart();
  };
  EXPECT_EQ(part({}, {7}).elements, 1);
  EXPECT_EQ(part({{}, -1}, {7, 5}).elements, 4);
  EXPECT_EQ(part({1, {}}, {7, 5}).first, 1);
  EXPECT_EQ(part({-2, {}}, {7, 5}).first, 3);
  const RowPart inner = part({1, 3}, {7, 5, 2, 2});
  EXPECT_EQ(inner.first, 4);
  EXPECT_EQ(inner.elements, 8);
  EXPECT_THAT(inner.shape, ElementsAre(2, 2, 2));
  for (const RowSlice& bad :
       std::vector<RowSlice>{{5, {}}, {{}, 0}, {3, 2}, {{}, 6}, {-6, {}}, {{}, -5}, {2, 2}}) {
    EXPECT_THAT(PartOf(bad, {7, 5}).status().ToString(), HasSubstr("axis 1 has 5 elements"));
  }
  EXPECT_THAT(PartOf({1, {}}, {7}).status().ToString(), HasSubstr("a row is one number"));
}

// Rows of five tokens, 10 r + 0 ... 10 r + 4; inputs and targets are slices of them.
BatchSource Shifted() {
  std::vector<int32_t> tokens;
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < 5; ++i) tokens.push_back(10 * row + i);
  }
  std::map<std::string, HostTensor> fields;
  fields["tokens"] = HostTensor::Of<int32_t>(DType::kI32, {3, 5}, tokens);
  BatchSource source;
  source.data = *DataSet::Create(std::move(fields), TokenOrigin{.first = 100, .window = 5});
  source.rows = {0, 1, 2};
  source.batch_size = 2;
  source.bindings.resize(2);
  source.bindings[0] = {.field = "tokens", .type = {DType::kI32, {2, 4}}, .slice = {{}, -1}};
  source.bindings[1] = {.field = "tokens", .type = {DType::kI64, {2, 4}}, .slice = {1, {}}};
  return source;
}

TEST(FillBatch, TakesInputsAndTargetsOfOneField) {
  BatchSource source = Shifted();
  ASSERT_TRUE(Validate(source).ok()) << Validate(source);
  std::vector<int32_t> x(8);
  std::vector<int64_t> y(8);
  EXPECT_EQ(*FillBatch(source, {2, 0, 1}, {0, 0}, {x.data(), y.data()}), 2);
  EXPECT_THAT(x, ElementsAre(20, 21, 22, 23, 0, 1, 2, 3));
  EXPECT_THAT(y, ElementsAre(21, 22, 23, 24, 1, 2, 3, 4));
  source.tail = BatchSource::Tail::kPad;
  EXPECT_EQ(*FillBatch(source, {2, 0, 1}, {0, 1}, {x.data(), y.data()}), 1);
  EXPECT_THAT(y, ElementsAre(11, 12, 13, 14, 11, 12, 13, 14));
}

TEST(Validate, JudgesOnlyWhatASliceTakes) {
  BatchSource source = Shifted();
  source.bindings[0].table_rows = 24;  // 24 is a target only
  EXPECT_TRUE(Validate(source).ok()) << Validate(source);
  source.bindings[1].label_classes = 24;
  EXPECT_THAT(Validate(source).ToString(), HasSubstr("token 114 of the file: 24 is not a class of "
                                                     "the model, which has 24"));
  source.bindings[1].label_classes = 25;
  EXPECT_TRUE(Validate(source).ok()) << Validate(source);
}

TEST(Validate, NamesTokenAndPlaceOutsideOfTheVocabulary) {
  BatchSource source = Shifted();
  source.bindings[0].table_rows = 23;
  EXPECT_THAT(Validate(source).ToString(),
              HasSubstr("token 113 of the file: 23 is outside of the table that the model looks it "
                        "up in, which has 23 rows"));
}

TEST(Validate, SaysWhatToBindOfTokens) {
  BatchSource source = Shifted();
  source.bindings[0].slice = {};
  EXPECT_THAT(Validate(source).ToString(),
              HasSubstr("rows of shape [5] but the model input takes [4]; change window, or bind"));
  source.bindings[0].slice = {{}, 9};
  EXPECT_THAT(Validate(source).ToString(), HasSubstr("field \"tokens\": the slice [:9] takes"));
  source.bindings[0].field = "x";
  EXPECT_THAT(Validate(source).ToString(),
              HasSubstr("bind the model input to a part of it, as in \"tokens[:-1]\""));
}

}  // namespace
}  // namespace ebb::data
