// Parquet files that pyarrow wrote (tests/data/make_parquet.py). Skipped where Arrow is not built
// in.
#include "data/parquet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/data/files.h"

namespace ebb::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Parquet : public testing::Test {
 protected:
  void SetUp() override {
    if (!ReadsParquet()) GTEST_SKIP() << "this build has no Arrow (EBB_PARQUET)";
  }
};

std::string Error(const std::string& name) {
  const auto set = ParseDataSet(Fixture(name));
  return set.ok() ? "accepted" : set.status().ToString();
}

TEST_F(Parquet, ColumnsAreFieldsAndListsAreSparse) {
  for (const char* name : {"plain.parquet", "zstd.parquet"}) {
    SCOPED_TRACE(name);
    const auto set = ParseDataSet(Fixture(name), {.sparse = {{"tags", 3, -1}}});
    ASSERT_TRUE(set.ok()) << set.status();
    const auto& fields = (*set)->fields();
    EXPECT_EQ((*set)->rows(), 5);
    ASSERT_EQ(fields.size(), 8u);
    EXPECT_THAT(fields.at("x").as<float>(), ElementsAre(0.5, -1.5, 2.5, 3, 4));
    EXPECT_EQ(ToString(fields.at("wide").type), "f32[5,3]");
    EXPECT_EQ(fields.at("wide").as<float>()[14], 15);
    EXPECT_EQ(fields.at("wide").as<float>()[6], 7);
    EXPECT_THAT(fields.at("small").as<int32_t>(), ElementsAre(-1, 2, 3, 4, 127));
    EXPECT_THAT(fields.at("u16").as<int32_t>(), ElementsAre(1, 2, 3, 4, 65535));
    EXPECT_EQ(ToString(fields.at("flag").type), "bool[5]");
    EXPECT_THAT(fields.at("flag").as<uint8_t>(), ElementsAre(1, 0, 1, 1, 0));
    EXPECT_THAT(fields.at("label").as<int64_t>(), ElementsAre(0, 1, 2, 1, 0));
    EXPECT_THAT(fields.at("tags").as<int64_t>(),
                ElementsAre(5, 6, -1, -1, -1, -1, 7, 8, 9, 1, -1, -1, 2, 3, -1));
    EXPECT_EQ(fields.at("tags.mask").as<float>()[14], 0);
  }
}

TEST_F(Parquet, WhatIsNoFieldIsRefusedByColumnAndRow) {
  EXPECT_THAT(Error("plain.parquet"), HasSubstr("are a sparse feature"));
  EXPECT_THAT(Error("null.parquet"), HasSubstr("column \"x\": Parquet: row 1 is null"));
  EXPECT_THAT(Error("null_in_list.parquet"),
              HasSubstr("column \"t\": Parquet: row 1 has a null in its list"));
  EXPECT_THAT(Error("text.parquet"),
              HasSubstr("UNIMPLEMENTED: column \"name\": elements of string are not read"));
  EXPECT_THAT(Error("ragged_floats.parquet"), HasSubstr("must be of a fixed size"));
  EXPECT_EQ(ParseDataSet(Fixture("plain.parquet"), {}, Bytes(100)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(Parquet, CutOrDamagedTheyAreReadOrRefusedButNeverCrash) {
  const FileOptions options{.sparse = {{"tags", 3}}};
  for (const char* name : {"plain.parquet", "zstd.parquet"}) {
    const std::string file = Fixture(name);
    for (size_t length = 0; length < file.size(); ++length) {
      EXPECT_FALSE(ParseDataSet(file.substr(0, length), options, MiB(16)).ok()) << length;
    }
    int refused = 0;
    for (unsigned seed = 0; seed < 1500; ++seed) {
      std::mt19937 random(seed);
      std::string bytes = file;
      for (unsigned i = 1 + random() % 4; i > 0; --i) {
        bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      }
      const auto set = ParseDataSet(bytes, options, MiB(16));
      refused += set.ok() ? 0 : 1;
      if (!set.ok()) continue;
      for (const auto& [field, tensor] : (*set)->fields()) {
        EXPECT_EQ(tensor.type.shape[0], (*set)->rows());
      }
    }
    EXPECT_GT(refused, 300);
  }
}

}  // namespace
}  // namespace ebb::data
