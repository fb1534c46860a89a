// Order, batches and validation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "data/dataset.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using graph::NumElements;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const DataSet> Set(std::map<std::string, HostTensor> fields) {
  auto set = DataSet::Create(std::move(fields));
  EXPECT_TRUE(set.ok()) << set.status();
  return *set;
}

// Five rows of x = [10 r, 10 r + 1] and label = r.
BatchSource FiveRows(int64_t batch_size) {
  BatchSource source;
  source.data = Set(
      {{"x", HostTensor::Of<float>(DType::kF32, {5, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41})},
       {"label", HostTensor::Of<int64_t>(DType::kI64, {5}, {0, 1, 2, 3, 4})}});
  source.rows = {0, 1, 2, 3, 4};
  source.batch_size = batch_size;
  source.bindings = {{"x", {DType::kF32, {batch_size, 2}}},
                     {"label", {DType::kI64, {batch_size}}, 5}};
  return source;
}

// A source of one field, bound as `type` says; the batch is all rows.
BatchSource OneField(HostTensor tensor, DType to, graph::Shape row_shape) {
  BatchSource source;
  source.batch_size = tensor.type.shape[0];
  source.data = Set({{"f", std::move(tensor)}});
  source.rows.resize(static_cast<size_t>(source.batch_size));
  std::iota(source.rows.begin(), source.rows.end(), 0);
  row_shape.insert(row_shape.begin(), source.batch_size);
  source.bindings = {{"f", {to, row_shape}}};
  return source;
}

template <class T>
std::vector<T> Fill(const BatchSource& source) {
  std::vector<T> out(static_cast<size_t>(NumElements(source.bindings[0].type.shape)));
  EXPECT_TRUE(FillBatch(source, EpochOrder(source, 0), {0, 0}, {out.data()}).ok());
  return out;
}

std::string Error(const BatchSource& source) { return Validate(source).ToString(); }

TEST(EpochOrder, IsTheFileOrderWhenSequential) {
  BatchSource source = FiveRows(2);
  source.rows = {4, 0, 2};
  EXPECT_THAT(EpochOrder(source, 3), ElementsAre(4, 0, 2));
}

TEST(EpochOrder, IsAPermutationThatDependsOnSeedAndEpochAlone) {
  BatchSource source = FiveRows(2);
  source.order = BatchSource::Order::kShuffled;
  source.rows.resize(1000);
  std::iota(source.rows.begin(), source.rows.end(), 100);
  const std::vector<int64_t> order = EpochOrder(source, 0);
  EXPECT_NE(order, source.rows);
  EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), source.rows.begin()));
  EXPECT_EQ(order, EpochOrder(source, 0));
  EXPECT_NE(order, EpochOrder(source, 1));
  source.batch_size = 7;
  EXPECT_EQ(order, EpochOrder(source, 0));
  source.seed = 1;
  EXPECT_NE(order, EpochOrder(source, 0));
}

// Saved jobs resume in the middle of an epoch: the order must never change between releases.
TEST(EpochOrder, IsFixedForAllTime) {
  BatchSource source = FiveRows(2);
  source.order = BatchSource::Order::kShuffled;
  source.seed = 2;
  source.rows = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(EpochOrder(source, 0), ElementsAre(0, 6, 1, 2, 5, 4, 3, 7));
  EXPECT_THAT(EpochOrder(source, 1), ElementsAre(2, 7, 3, 5, 6, 4, 1, 0));
}

TEST(EpochOrder, DrawsEveryPermutationEquallyOften) {
  BatchSource source = FiveRows(2);
  source.order = BatchSource::Order::kShuffled;
  source.rows = {0, 1, 2, 3};
  std::map<std::vector<int64_t>, int> counts;
  constexpr int kDraws = 24000;
  for (int epoch = 0; epoch < kDraws; ++epoch) ++counts[EpochOrder(source, epoch)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : counts)
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi_squared, 49.7);  // 23 degrees of freedom, p = 0.001
}

TEST(FillBatch, CopiesRowsOfTheOrder) {
  const BatchSource source = FiveRows(2);
  std::vector<float> x(4);
  std::vector<int64_t> label(2);
  EXPECT_EQ(source.BatchesPerEpoch(), 2);
  EXPECT_EQ(*FillBatch(source, {4, 0, 3, 1, 2}, {0, 1}, {x.data(), label.data()}), 2);
  EXPECT_THAT(x, ElementsAre(30, 31, 10, 11));
  EXPECT_THAT(label, ElementsAre(3, 1));
}

TEST(FillBatch, PadsTheTailWithItsLastRow) {
  BatchSource source = FiveRows(3);
  source.tail = BatchSource::Tail::kPad;
  std::vector<float> x(6);
  std::vector<int64_t> label(3);
  EXPECT_EQ(source.BatchesPerEpoch(), 2);
  EXPECT_EQ(*FillBatch(source, EpochOrder(source, 0), {0, 1}, {x.data(), label.data()}), 2);
  EXPECT_THAT(label, ElementsAre(3, 4, 4));
  EXPECT_THAT(x, ElementsAre(30, 31, 40, 41, 40, 41));
}

TEST(FillBatch, ConvertsElementTypes) {
  const HostTensor bytes = HostTensor::Of<uint8_t>(DType::kU8, {2}, {0, 255});
  EXPECT_THAT(Fill<float>(OneField(bytes, DType::kF32, {})), ElementsAre(0, 255));
  EXPECT_THAT(Fill<double>(OneField(bytes, DType::kF64, {})), ElementsAre(0, 255));
  EXPECT_THAT(Fill<int64_t>(OneField(bytes, DType::kI64, {})), ElementsAre(0, 255));
  const HostTensor ints = HostTensor::Of<int64_t>(DType::kI64, {2}, {-3, 7});
  EXPECT_THAT(Fill<float>(OneField(ints, DType::kF32, {})), ElementsAre(-3, 7));
  EXPECT_THAT(Fill<int32_t>(OneField(ints, DType::kI32, {})), ElementsAre(-3, 7));
  const HostTensor doubles = HostTensor::Of<double>(DType::kF64, {2}, {0.1, -2});
  EXPECT_THAT(Fill<float>(OneField(doubles, DType::kF32, {})), ElementsAre(0.1f, -2));
  const HostTensor flags = HostTensor::Of<uint8_t>(DType::kBool, {2}, {0, 1});
  EXPECT_THAT(Fill<float>(OneField(flags, DType::kF32, {})), ElementsAre(0, 1));
}

// Every pair of types: either Validate() refuses it, or FillBatch() converts it.
TEST(FillBatch, ConvertsEveryPairThatValidateAccepts) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kI32,
                              DType::kI64, DType::kU8,  DType::kBool};
  int accepted = 0;
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      const BatchSource source = OneField(HostTensor::Zeros({from, {3}}), to, {});
      if (!Validate(source).ok()) continue;
      ++accepted;
      EXPECT_EQ(Fill<double>(source)[0], 0);  // room for every type
    }
  }
  EXPECT_EQ(accepted, 6 * 2 + 4 * 3 + 1);
}

TEST(RowShapes, FitUpToOuterOnesOrWhenFlat) {
  const auto fit = [](std::vector<int64_t> a, std::vector<int64_t> b) {
    EXPECT_EQ(RowShapesFit(a, b), RowShapesFit(b, a));
    return RowShapesFit(a, b);
  };
  EXPECT_TRUE(fit({64}, {1, 8, 8}));
  EXPECT_TRUE(fit({8, 8}, {1, 8, 8}));
  EXPECT_TRUE(fit({8, 8, 1}, {1, 8, 8}));
  EXPECT_TRUE(fit({}, {1}));
  EXPECT_TRUE(fit({3, 32, 32}, {3072}));
  EXPECT_FALSE(fit({32, 32, 3}, {3, 32, 32}));
  EXPECT_FALSE(fit({63}, {1, 8, 8}));
  EXPECT_FALSE(fit({4, 16}, {8, 8}));
}

TEST(Validate, AcceptsAGoodSource) {
  EXPECT_TRUE(Validate(FiveRows(2)).ok()) << Validate(FiveRows(2));
}

TEST(Validate, RefusesABatchLargerThanTheRowsUnlessPadded) {
  BatchSource source = FiveRows(6);
  EXPECT_THAT(Error(source), HasSubstr("batch_size 6 is larger than the 5 rows"));
  source.tail = BatchSource::Tail::kPad;
  EXPECT_TRUE(Validate(source).ok());
  EXPECT_THAT(Error(FiveRows(0)), HasSubstr("batch_size is 0"));
}

TEST(Validate, RefusesRowsThatDoNotExist) {
  BatchSource source = FiveRows(2);
  source.rows = {0, 5};
  EXPECT_THAT(Error(source), HasSubstr("index entry 1 is row 5, but the data set has rows 0 to 4"));
  source.rows = {-1};
  EXPECT_THAT(Error(source), HasSubstr("index entry 0 is row -1"));
  source.rows = {};
  EXPECT_THAT(Error(source), HasSubstr("no row is selected"));
}

TEST(Validate, ListsTheFieldsWhenOneIsMissing) {
  BatchSource source = FiveRows(2);
  source.bindings[0].field = "image";
  EXPECT_THAT(Error(source), AllOf(HasSubstr("no field \"image\""), HasSubstr("\"label\" i64[5]"),
                                   HasSubstr("\"x\" f32[5,2]")));
}

TEST(Validate, NamesBothShapesWhenTheyDoNotFit) {
  BatchSource source = FiveRows(2);
  source.bindings[0].type.shape = {2, 3};
  EXPECT_THAT(Error(source), HasSubstr("rows of shape [2] but the model input takes [3]"));
  source.bindings[0].type.shape = {3, 2};
  EXPECT_THAT(Error(source), HasSubstr("not the batch size 2"));
}

TEST(Validate, RefusesFloatsForIntegers) {
  BatchSource source = FiveRows(2);
  source.bindings[0].type.dtype = DType::kI64;
  EXPECT_THAT(Error(source), HasSubstr("f32 is not converted to i64; save it as i64"));
  source = FiveRows(2);
  source.bindings[0].label_classes = 5;
  EXPECT_THAT(Error(source), HasSubstr("class labels are integers"));
}

TEST(Validate, NamesFieldRowAndValueOfABadLabel) {
  BatchSource source = FiveRows(2);
  source.bindings[1].label_classes = 4;
  EXPECT_THAT(Error(source), HasSubstr("field \"label\", row 4: 4 is not a class of the model, "
                                       "which has 4; labels must be 0 to 3, or -100"));
  source.bindings[1].ignore_index = 4;
  EXPECT_TRUE(Validate(source).ok());
  source.bindings[1].ignore_index = -100;
  source.rows = {0, 1, 2, 3};  // the bad row is not used
  EXPECT_TRUE(Validate(source).ok());
}

TEST(Validate, NamesFieldRowAndElementOfANotFiniteValue) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  BatchSource source =
      OneField(HostTensor::Of<float>(DType::kF32, {2, 2}, {0, 1, 2, nan}), DType::kF32, {2});
  EXPECT_THAT(Error(source), HasSubstr("field \"f\", row 1, element 1: nan is not finite"));
  source.rows = {0, 0};
  EXPECT_TRUE(Validate(source).ok());
  EXPECT_THAT(Error(OneField(HostTensor::Of<double>(DType::kF64, {1}, {1e300}), DType::kF32, {})),
              HasSubstr("too large for f32"));
  EXPECT_TRUE(
      Validate(OneField(HostTensor::Of<double>(DType::kF64, {1}, {1e300}), DType::kF64, {})).ok());
}

TEST(Validate, RefusesIntegersThatDoNotFitTheInput) {
  EXPECT_THAT(Error(OneField(HostTensor::Of<int64_t>(DType::kI64, {1}, {int64_t{1} << 40}),
                             DType::kI32, {})),
              HasSubstr("1099511627776 does not fit"));
  EXPECT_THAT(Error(OneField(HostTensor::Of<int32_t>(DType::kI32, {1}, {-1}), DType::kU8, {})),
              HasSubstr("-1 does not fit"));
}

}  // namespace
}  // namespace ebb::data
