#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/philox.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/units.h"

namespace ebb {
namespace {

TEST(Units, FormatBytesUsesBinaryUnits) {
  EXPECT_EQ(FormatBytes(Bytes(812)), "812 B");
  EXPECT_EQ(FormatBytes(KiB(1)), "1.0 KiB");
  EXPECT_EQ(FormatBytes(MiB(3) + KiB(103)), "3.1 MiB");
}

TEST(Units, ParseBytesReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseBytes("4096"), Bytes(4096));
  EXPECT_EQ(ParseBytes("4GiB"), GiB(4));
  EXPECT_EQ(ParseBytes(" 1.5 MiB "), KiB(1536));
  EXPECT_EQ(ParseBytes("2GB"), Bytes(2000000000));
  EXPECT_EQ(ParseBytes("512k"), KiB(512));
  for (const char* bad : {"", "GiB", "-1", "4 XiB", "1e400", "9999999 PiB", "4GiBs", "1..2"}) {
    EXPECT_EQ(ParseBytes(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(ParseBytes(absl::string_view("1\0", 2)), std::nullopt);
}

TEST(Units, AlignUpIsTheNextMultiple) {
  EXPECT_EQ(AlignUp(Bytes(0), Bytes(64)), Bytes(0));
  EXPECT_EQ(AlignUp(Bytes(1), Bytes(64)), Bytes(64));
  EXPECT_EQ(AlignUp(Bytes(64), Bytes(64)), Bytes(64));
}

TEST(Ids, DefaultIsInvalid) {
  EXPECT_FALSE(NodeId().valid());
  EXPECT_TRUE(NodeId(0).valid());
}

TEST(Status, AnnotateKeepsTheCode) {
  const absl::Status status = Annotate(absl::NotFoundError("no file"), "data.train");
  EXPECT_EQ(status, absl::NotFoundError("data.train: no file"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

// Known answers of the Random123 library (kat_vectors, philox4x32 10 rounds).
TEST(Philox, MatchesKnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}),
              testing::ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(
      Philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
      testing::ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
}

TEST(Sha256, MatchesTheStandardsExample) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace ebb
