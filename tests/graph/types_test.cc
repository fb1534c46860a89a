// Element types, shapes, tensors and attributes.
#include "graph/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/attrs.h"

namespace ebb::graph {
namespace {

TEST(DTypes, NamesReadBack) {
  for (DType dtype :
       {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8, DType::kBool}) {
    EXPECT_EQ(ParseDType(Name(dtype)), dtype);
  }
  EXPECT_EQ(ParseDType("f16"), std::nullopt);
}

TEST(Shapes, AScalarHasOneElementAndAnEmptyDimensionNone) {
  EXPECT_EQ(NumElements({}), 1);
  EXPECT_EQ(NumElements({2, 3, 4}), 24);
  EXPECT_EQ(NumElements({int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
}

TEST(Shapes, CountsSaturateInsteadOfOverflowing) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const TensorType type{DType::kF64, {huge, huge, 3}};
  EXPECT_GT(NumElements(type.shape), int64_t{1} << 50);
  EXPECT_GT(type.bytes(), GiB(1 << 20));
}

TEST(Shapes, StridesAreRowMajor) {
  EXPECT_THAT(StridesOf({2, 3, 4}), testing::ElementsAre(12, 4, 1));
  EXPECT_THAT(StridesOf({}), testing::IsEmpty());
}

TEST(Shapes, BroadcastAsNumpyDoes) {
  EXPECT_EQ(BroadcastShapes({4, 1, 3}, {5, 1}), (Shape{4, 5, 3}));
  EXPECT_EQ(BroadcastShapes({}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(BroadcastShapes({1}, {0}), (Shape{0}));
  EXPECT_EQ(BroadcastShapes({2, 3}, {2}), std::nullopt);
}

TEST(Shapes, TypesPrintWithoutSpaces) {
  EXPECT_EQ(ToString(TensorType{DType::kF32, {8, 3, 32, 32}}), "f32[8,3,32,32]");
  EXPECT_EQ(ToString(TensorType{DType::kI64, {}}), "i64[]");
}

TEST(HostTensors, OwnExactlyTheirBytes) {
  const HostTensor zeros = HostTensor::Zeros({DType::kI32, {2, 2}});
  EXPECT_THAT(zeros.as<int32_t>(), testing::ElementsAre(0, 0, 0, 0));
  const HostTensor tensor = HostTensor::Of<float>(DType::kF32, {2}, {1.5F, -2});
  EXPECT_THAT(tensor.as<float>(), testing::ElementsAre(1.5F, -2));
}

TEST(Attributes, MissingOnesFallBack) {
  const Attrs attrs = {{"axis", int64_t{2}}, {"alpha", 0.5}, {"pads", std::vector<int64_t>{1, 2}}};
  EXPECT_EQ(attrs.Int("axis", 7), 2);
  EXPECT_EQ(attrs.Int("k", 7), 7);
  EXPECT_EQ(attrs.Float("alpha", 1), 0.5);
  EXPECT_THAT(attrs.Ints("pads"), testing::ElementsAre(1, 2));
  EXPECT_EQ(attrs.Str("mode", "constant"), "constant");
}

TEST(Attributes, AnIntIsAFloatButAFloatIsNoInt) {
  EXPECT_EQ(Attrs({{"alpha", int64_t{2}}}).Float("alpha", 0), 2.0);
  EXPECT_TRUE(CheckKinds({{"alpha", int64_t{2}}}).ok());
  EXPECT_EQ(CheckKinds({{"axis", 2.0}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_DEATH(Attrs({{"axis", 2.0}}).Int("axis", 0), "check failed");
}

TEST(Attributes, UnknownNamesAreRefused) {
  EXPECT_THAT(std::string(CheckKinds({{"colour", int64_t{2}}}).message()),
              testing::HasSubstr("'colour'"));
}

TEST(Attributes, PrintSoThatTheirKindIsSeen) {
  EXPECT_EQ(ToString(Attrs({{"axis", int64_t{1}},
                            {"alpha", 1.0},
                            {"pads", std::vector<int64_t>{0, 1}},
                            {"mode", std::string("constant")}})),
            "{alpha=1.0, axis=1, mode=\"constant\", pads=[0,1]}");
}

}  // namespace
}  // namespace ebb::graph
