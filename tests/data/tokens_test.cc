// Token files: what is read, how it is cut, and what is refused in which words.
#include "data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/data/files.h"

namespace ebb::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Set = std::shared_ptr<const DataSet>;

// 0, 1, 2, ... as bare u16.
std::string Counted(int count) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), uint16_t{0});
  return BytesOf(values);
}

const graph::HostTensor& Tokens(const Set& set) { return set->fields().at("tokens"); }

Set Parse(const std::string& file, const TokenOptions& options) {
  const absl::StatusOr<Set> set = ParseTokens(file, options);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *set : nullptr;
}

std::string Error(const std::string& file, const TokenOptions& options = {.window = 2},
                  Bytes limit = kMaxDataSetBytes) {
  const absl::StatusOr<Set> set = ParseTokens(file, options, limit);
  return set.ok() ? "accepted" : set.status().ToString();
}

TEST(Tokens, WindowsFollowOneAnotherAndTheRestIsLeftOut) {
  const Set set = Parse(Counted(11), {.window = 4});
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->rows(), 2);
  EXPECT_EQ(ToString(Tokens(set).type), "i32[2,4]");
  EXPECT_THAT(Tokens(set).as<int32_t>(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(set->bytes(), Bytes(32));
}

TEST(Tokens, BareElementsAreU16UnlessU32IsSaid) {
  EXPECT_THAT(Tokens(Parse(BytesOf<uint16_t>({65535, 1}), {.window = 2})).as<int32_t>(),
              ElementsAre(65535, 1));
  const Set wide =
      Parse(BytesOf<uint32_t>({4000000000, 1}), {.type = TokenType::kU32, .window = 2});
  EXPECT_THAT(Tokens(wide).as<int64_t>(), ElementsAre(4000000000, 1));
}

TEST(Tokens, ANpySaysItsType) {
  const TokenOptions two{.window = 2};
  EXPECT_THAT(Tokens(Parse(Npy("<u2", "(2,)", BytesOf<uint16_t>({65535, 1})), two)).as<int32_t>(),
              ElementsAre(65535, 1));
  EXPECT_THAT(Tokens(Parse(Npy(">u2", "(2,)", std::string("\1\0\0\2", 4)), two)).as<int32_t>(),
              ElementsAre(256, 2));
  EXPECT_THAT(Tokens(Parse(Npy("|u1", "(2,)", "ab"), two)).as<uint8_t>(), ElementsAre(97, 98));
  EXPECT_THAT(Tokens(Parse(Npy("<i4", "(2,)", BytesOf<int32_t>({70000, 1})), two)).as<int32_t>(),
              ElementsAre(70000, 1));
  EXPECT_THAT(Tokens(Parse(Npy("<u4", "(2,)", BytesOf<uint32_t>({70000, 1})), two)).as<int64_t>(),
              ElementsAre(70000, 1));
  EXPECT_THAT(Tokens(Parse(Npy("<i8", "(3,)", BytesOf<int64_t>({70000, 1, 2})), two)).as<int64_t>(),
              ElementsAre(70000, 1));
}

// For every split point: no token is in both parts, and none is lost but the rest of a window.
TEST(Tokens, RangesThatMeetShareNothingAndMissNothing) {
  for (const double at : {0.1, 0.3, 0.5, 0.9, 0.99}) {
    const Set train = Parse(Counted(997), {.window = 1, .from = 0, .to = at});
    const Set val = Parse(Counted(997), {.window = 1, .from = at, .to = 1});
    ASSERT_EQ(train->rows() + val->rows(), 997) << at;
    EXPECT_EQ(Tokens(train).as<int32_t>().back() + 1, Tokens(val).as<int32_t>().front()) << at;
    EXPECT_EQ(Tokens(val).as<int32_t>().back(), 996);
  }
  EXPECT_THAT(Tokens(Parse(Counted(10), {.window = 2, .from = 0.5, .to = 0.9})).as<int32_t>(),
              ElementsAre(5, 6, 7, 8));
}

TEST(Tokens, APlaceIsThatInTheFile) {
  const Set set = Parse(Counted(20), {.window = 3, .from = 0.5, .to = 1});
  EXPECT_TRUE(set->IsTokens());
  EXPECT_EQ(set->Place("tokens", 1, 2), "token 15 of the file");
  EXPECT_EQ(Tokens(set).as<int32_t>()[5], 15);
}

TEST(Tokens, WindowAndRangeMustMakeSense) {
  const std::string file = Counted(10);
  EXPECT_THAT(Error(file, {.window = 0}), HasSubstr("window is 0; give the tokens of one sample"));
  EXPECT_THAT(Error(file, {.window = -1}), HasSubstr("window is -1"));
  EXPECT_THAT(Error(file, {.window = 11}),
              HasSubstr("window 11 is longer than the 10 tokens in the range [0, 1) of the file's "
                        "10; shorten the window or widen the range"));
  EXPECT_THAT(Error(file, {.window = std::numeric_limits<int64_t>::max()}), HasSubstr("longer"));
  EXPECT_THAT(Error(file, {.window = 2, .from = 0.9, .to = 1}),
              HasSubstr("window 2 is longer than the 1 tokens in the range [0.9, 1)"));
  const double nan = std::nan("");
  for (const auto& [from, to] : std::vector<std::pair<double, double>>{
           {0.9, 0.1}, {0.5, 0.5}, {-0.1, 1}, {0, 1.1}, {nan, 1}, {0, nan}}) {
    EXPECT_THAT(Error(file, {.window = 2, .from = from, .to = to}),
                AllOf(HasSubstr("range is ["), HasSubstr("two fractions of the file in order")));
  }
}

TEST(Tokens, WhatIsNoTokenFileIsNamed) {
  EXPECT_THAT(Error(""), HasSubstr("the token file is empty"));
  EXPECT_THAT(Error(Counted(4) + "x"), HasSubstr("has 9 bytes, which are no whole number of u16"));
  EXPECT_THAT(Error(Counted(3), {.type = TokenType::kU32, .window = 1}),
              HasSubstr("has 6 bytes, which are no whole number of u32"));
  EXPECT_THAT(Error("To be, or not to be\n"),
              HasSubstr("the file is text, but tokens are numbers"));
  EXPECT_THAT(Error(Gzip(Counted(100))), HasSubstr("gzipped; gunzip it"));
  EXPECT_THAT(Error(Fixture("plain.npz")), HasSubstr("a zip or .npz"));
  const std::string wide = BytesOf(std::vector<uint32_t>(40, 7));
  EXPECT_THAT(Error(wide), HasSubstr("say token_type: u32"));
  EXPECT_EQ(Error(wide, {.type = TokenType::kU16, .window = 2}), "accepted") << "who insists";
  EXPECT_EQ(Error("ab", {.type = TokenType::kU16, .window = 1}), "accepted");
  EXPECT_EQ(Error(std::string(400, '\0')), "accepted") << "zeros are zeros of any size";
  EXPECT_THAT(Error(Npy("<f4", "(2,)", BytesOf<float>({1, 2}))),
              AllOf(HasSubstr("tokens are integers"), HasSubstr("type f4")));
  EXPECT_THAT(Error(Npy("|b1", "(2,)", std::string("\0\1", 2))), HasSubstr("type b1"));
  EXPECT_THAT(Error(Npy("<i4", "(2, 2)", BytesOf<int32_t>({1, 2, 3, 4}))),
              HasSubstr("shape [2,2], but tokens are one flat array; save array.reshape(-1)"));
  EXPECT_THAT(Error(Npy("<u2", "(3,)", Counted(2))), HasSubstr("damaged or cut short"));
  EXPECT_THAT(Error(Npy("<u2", "(2,)", Counted(2)), {.type = TokenType::kU16, .window = 2}),
              HasSubstr("token_type is for bare arrays"));
  EXPECT_THAT(Error(Npy("<i8", "(4,)", BytesOf<int64_t>({1, 2, 3, -4}))),
              HasSubstr("token 3 of the file is -4; token ids are 0 or more"));
  EXPECT_THAT(Error(Npy("<i4", "(4,)", BytesOf<int32_t>({1, 2, 3, -4})),
                    {.window = 2, .from = 0.5, .to = 1}),
              HasSubstr("token 3 of the file is -4"));
}

TEST(Tokens, MemoryIsAskedForBeforeItIsTaken) {
  EXPECT_THAT(Error(Counted(100), {.window = 2}, Bytes(399)),
              AllOf(HasSubstr("100 tokens unpack to"), HasSubstr("narrow the range")));
  Bytes asked;
  const auto count = [&](Bytes bytes) {
    asked += bytes;
    return absl::OkStatus();
  };
  ASSERT_TRUE(ParseTokens(Counted(100), {.window = 2, .from = 0, .to = 0.5}, GiB(1), count).ok());
  EXPECT_EQ(asked, Bytes(200)) << "only what is in the range";
  const auto refused = ParseTokens(Counted(100), {.window = 2}, GiB(1),
                                   [](Bytes) { return absl::ResourceExhaustedError("no more"); });
  EXPECT_EQ(refused.status(), absl::ResourceExhaustedError("no more"));
}

TEST(Tokens, SurviveDamageOfTheHeader) {
  const std::string file = Npy("<i4", "(6,)", BytesOf<int32_t>({1, 2, 3, 4, 5, 6}));
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(Error(file.substr(0, length)), "") << length;
  }
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string damaged = file;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const auto set = ParseTokens(damaged, {.window = 2}, MiB(1));
    if (!set.ok()) continue;
    EXPECT_GT((*set)->rows(), 0) << seed;
    EXPECT_EQ(static_cast<int64_t>(Tokens(*set).data.size()), Tokens(*set).type.bytes().count());
  }
}

}  // namespace
}  // namespace ebb::data
