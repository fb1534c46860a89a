// Models of several embeddings over the columns of one input: which column indexes which table, and
// that data are held against it.
#include "runtime/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset.h"
#include "graph/text.h"

namespace ebb::runtime {
namespace {

using data::ColumnTable;
using graph::Graph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char kColumn[] = "axes=[1], steps=[1]}; ";

Graph Parse(const std::string& text) {
  auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph{};
}

std::string TwoTables() {
  return std::string("s = input i64[4,2,3]; a = param f32[10,2]; b = param f32[7,2]; ") +
         "c = Slice(s) {starts=[0], ends=[1], " + kColumn + "d = Slice(s) {starts=[1], ends=[2], " +
         kColumn +
         "e = Reshape(c) {shape=[4,3]}; x = Gather(a, e) {axis=0}; "
         "f = Reshape(d) {shape=[12]}; o = constant i64[4] 0 3 6 9; "
         "y = EmbeddingBag(b, f, o) {mode=\"sum\"}";
}

TEST(ColumnTables, AreFoundBehindSlicesOfTheInput) {
  const Graph graph = Parse(TwoTables());
  EXPECT_THAT(ColumnTablesOf(graph, graph.Find("s")),
              ElementsAre(ColumnTable{0, 3, 10}, ColumnTable{3, 6, 7}));
  EXPECT_THAT(ColumnTablesOf(graph, graph.Find("a")), IsEmpty());
}

TEST(ColumnTables, AreThoseOfThePartsOfABatchToo) {
  const Graph graph =
      Parse(std::string("s = input i64[4,2]; a = param f32[10,2]; ") +
            "p = Slice(s) {starts=[2], ends=[4], axes=[0], steps=[1]}; c = Slice(p) {starts=[1], "
            "ends=[2], " +
            kColumn + "x = Gather(a, c) {axis=0}");
  EXPECT_THAT(ColumnTablesOf(graph, graph.Find("s")), ElementsAre(ColumnTable{1, 2, 10}));
}

TEST(ColumnTables, AreNoneWhereTheIndicesAreComputed) {
  const Graph graph =
      Parse(std::string("s = input i64[4,2]; a = param f32[10,2]; t = Add(s, s); ") +
            "c = Slice(t) {starts=[1], ends=[2], " + kColumn + "x = Gather(a, c) {axis=0}");
  EXPECT_THAT(ColumnTablesOf(graph, graph.Find("s")), IsEmpty());
}

TEST(ColumnTables, JudgeTheDataOfTheirColumns) {
  const Graph graph = Parse("s = input i64[2,2]");
  auto data = data::DataSet::Create(
      {{"s", graph::HostTensor::Of<int64_t>(graph::DType::kI64, {3, 2}, {9, 6, 0, 0, 8, 7})}});
  ASSERT_TRUE(data.ok()) << data.status();
  data::BatchSource source;
  source.data = *data;
  source.rows = {0, 1, 2};
  source.batch_size = 2;
  source.bindings = {{.field = "s", .type = {graph::DType::kI64, {2, 2}}}};
  source.bindings[0].columns = {{0, 1, 10}, {1, 2, 8}};
  EXPECT_TRUE(data::Validate(source).ok()) << data::Validate(source);
  source.bindings[0].columns[1].rows = 7;
  EXPECT_THAT(data::Validate(source).ToString(),
              HasSubstr("7 is outside of the table that the model looks it up in, which has 7"));
}

}  // namespace
}  // namespace ebb::runtime
