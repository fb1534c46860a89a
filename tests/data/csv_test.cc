// CSV by example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/dataset.h"
#include "tests/data/files.h"

namespace ebb::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const DataSet> Parse(const std::string& text, const CsvOptions& options = {}) {
  auto set = ParseDataSet(text, {.csv = options});
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *set : nullptr;
}

absl::Span<const float> X(const std::shared_ptr<const DataSet>& set) {
  return set->fields().at("x").as<float>();
}
absl::Span<const int64_t> Label(const std::shared_ptr<const DataSet>& set) {
  return set->fields().at("label").as<int64_t>();
}

std::string Error(const std::string& text, const CsvOptions& options = {}) {
  const auto set = ParseDataSet(text, {.csv = options});
  return set.ok() ? "accepted" : std::string(set.status().message());
}

TEST(Csv, TakesTheLastColumnAsLabel) {
  const auto set = Parse("1,2.5,0\n3,-4e-1,7\n");
  EXPECT_EQ(ToString(set->fields().at("x").type), "f32[2,2]");
  EXPECT_EQ(ToString(set->fields().at("label").type), "i64[2]");
  EXPECT_THAT(X(set), ElementsAre(1, 2.5, 3, -0.4f));
  EXPECT_THAT(Label(set), ElementsAre(0, 7));
}

TEST(Csv, TakesTheLabelColumnThatIsAskedFor) {
  for (int column : {1, -2}) {
    const auto set = Parse("1,2,3\n4,5,6\n", {.label_column = column});
    EXPECT_THAT(X(set), ElementsAre(1, 3, 4, 6));
    EXPECT_THAT(Label(set), ElementsAre(2, 5));
  }
  EXPECT_THAT(Error("1,2,3\n", {.label_column = 3}), HasSubstr("there are 3 columns"));
  EXPECT_THAT(Error("1,2,3\n", {.label_column = -4}), HasSubstr("label_column -4"));
}

TEST(Csv, SkipsAHeaderBlankLinesAndAByteOrderMark) {
  const auto set = Parse("\xef\xbb\xbf\r\nwidth,\"height, cm\",class\r\n\r\n 1 ,+2,0\r\n  \n3,4,1");
  EXPECT_THAT(X(set), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Label(set), ElementsAre(0, 1));
}

TEST(Csv, ReadsQuotedCells) {
  const auto set = Parse("\"a\"\"b\",\"two\nlines\",c\n\"1\",\"2\" ,\"3\"\r\n");
  EXPECT_THAT(X(set), ElementsAre(1, 2));
  EXPECT_THAT(Label(set), ElementsAre(3));
}

TEST(Csv, MakesLabelsFloatsWhenOneIsNotWhole) {
  const auto set = Parse("1,2\n3,0.5\n");
  EXPECT_EQ(ToString(set->fields().at("label").type), "f32[2]");
  EXPECT_THAT(set->fields().at("label").as<float>(), ElementsAre(2, 0.5));
  EXPECT_THAT(Label(Parse("1,2.0\n3,0.00e+00\n")), ElementsAre(2, 0));
  EXPECT_THAT(Label(Parse("1,9223372036854775807\n")), ElementsAre(9223372036854775807));
}

TEST(Csv, LeavesNotFiniteValuesToValidation) {
  const auto set = Parse("nan,inf,0\n-inf,NaN,1\n");
  EXPECT_TRUE(std::isnan(X(set)[0]));
  EXPECT_TRUE(std::isinf(X(set)[1]));
  EXPECT_LT(X(set)[2], 0);
}

TEST(Csv, SaysLineAndColumn) {
  EXPECT_THAT(Error("a,b,c\n1,2,3\n\n4,five,6\n"),
              HasSubstr("csv line 4, column 2: \"five\" is not a number"));
  EXPECT_THAT(Error("1,2,3\n4,,6\n"), HasSubstr("csv line 2, column 2: the cell is empty"));
  EXPECT_THAT(Error("1,2,3\n4,5\n"), HasSubstr("csv line 2: 2 columns, but the first row has 3"));
  EXPECT_THAT(Error("1,2\n1e39,5\n"), HasSubstr("csv line 2, column 1: \"1e39\" is too large"));
  EXPECT_THAT(Error("1,2\n1,1e39\n"), HasSubstr("csv line 2, column 2: \"1e39\" is too large"));
  EXPECT_THAT(Error("1,2\n1,cat\n"), HasSubstr("encode categories as 0, 1, 2"));
  EXPECT_THAT(Error("\"a\nb\",c\n1,2\n3,x\n"), HasSubstr("csv line 4, column 2"));
  EXPECT_THAT(Error("1,2\n\"3,4\n"), HasSubstr("line 2, column 1: the quote that begins here"));
  EXPECT_THAT(Error("1,2\n\"3\"x,4\n"), HasSubstr("text after a closing quote"));
  EXPECT_THAT(Error("1,2\n+-3,4\n"), HasSubstr("not a number"));
}

TEST(Csv, RefusesTablesWithoutData) {
  EXPECT_THAT(Error("a,b\n"), HasSubstr("no row of numbers"));
  EXPECT_THAT(Error("\n \n"), HasSubstr("no row of numbers"));
  EXPECT_THAT(Error("1\n2\n"), HasSubstr("one column only"));
  EXPECT_THAT(Error(std::string(1 << 20, ',')), HasSubstr("more than 1048576 columns"));
}

TEST(Csv, TakesUnderflowAsTheNearestNumber) { EXPECT_THAT(X(Parse("1e-60,0\n")), ElementsAre(0)); }

TEST(Csv, ReadsTheDigits) {
  const auto set = Parse(ReadSource("examples/data/digits.csv.gz"));
  EXPECT_EQ(ToString(set->fields().at("x").type), "f32[1797,64]");
  int64_t counts[10] = {};
  for (int64_t label : Label(set)) ++counts[label];
  EXPECT_THAT(counts, ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
  std::vector<int64_t> rows = *ParseIndex(ReadSource("examples/data/digits_train.npy"));
  const std::vector<int64_t> test = *ParseIndex(ReadSource("examples/data/digits_test.npy"));
  EXPECT_EQ(rows.size(), 1438u);
  rows.insert(rows.end(), test.begin(), test.end());
  std::sort(rows.begin(), rows.end());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], static_cast<int64_t>(i));
  EXPECT_EQ(rows.size(), 1797u);
}

}  // namespace
}  // namespace ebb::data
