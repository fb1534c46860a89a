#include "memory/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/memory/step_profiles.h"

namespace ebb::memory {
namespace {

using testing::HasSubstr;

// Addresses are numbers; commits are counted and may be refused.
class FakeGranules final : public GranuleSource {
 public:
  Bytes granule() const override { return Bytes(64); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override {
    char* base = reinterpret_cast<char*>(next_);
    next_ += static_cast<uintptr_t>(bytes.count()) + 4096;
    committed_[base] = Bytes(0);
    return base;
  }
  void Unreserve(char* base, Bytes) override {
    EXPECT_EQ(committed_[base], Bytes(0)) << "addresses given back with memory behind them";
    committed_.erase(base);
  }
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override {
    if (total_ + bytes > device) return absl::ResourceExhaustedError("the device is full");
    EXPECT_EQ(committed_[base], offset);
    committed_[base] += bytes;
    total_ += bytes;
    return absl::OkStatus();
  }
  void Decommit(char* base, Bytes offset, Bytes bytes) override {
    EXPECT_EQ(committed_[base], offset + bytes);
    committed_[base] = offset;
    total_ -= bytes;
  }
  Bytes total() const { return total_; }
  size_t reservations() const { return committed_.size(); }

  Bytes device = Bytes(1 << 20);

 private:
  uintptr_t next_ = 4096;
  std::map<char*, Bytes> committed_;
  Bytes total_;
};

TEST(Pool, RoundsTheBudgetDownAndRegionsUp) {
  FakeGranules source;
  Pool pool(&source, Bytes(1000));
  EXPECT_EQ(pool.budget(), Bytes(960));
  auto region = pool.Create("lane 0", Bytes(65));
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->size(), Bytes(128));
  EXPECT_EQ((*region)->capacity(), Bytes(960));
  EXPECT_EQ((*region)->name(), "lane 0");
  EXPECT_EQ(pool.free(), Bytes(832));
  pool.CheckInvariants();
}

TEST(Pool, RegionsGrowAndShrinkInPlace) {
  FakeGranules source;
  Pool pool(&source, Bytes(640));
  auto region = pool.Create("r", Bytes(64));
  ASSERT_TRUE(region.ok());
  char* const base = (*region)->base();
  ASSERT_TRUE((*region)->Resize(Bytes(512)).ok());
  EXPECT_EQ((*region)->base(), base);
  EXPECT_EQ(source.total(), Bytes(512));
  ASSERT_TRUE((*region)->Resize(Bytes(0)).ok());
  EXPECT_EQ(pool.used(), Bytes(0));
  EXPECT_EQ(source.total(), Bytes(0));
}

TEST(Pool, SaysHowMuchIsAskedForAndHowMuchIsFree) {
  FakeGranules source;
  Pool pool(&source, Bytes(640));
  auto region = pool.Create("first", Bytes(512));
  ASSERT_TRUE(region.ok());
  const absl::Status status = pool.Create("second", Bytes(192)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("192 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("128 bytes"));
  EXPECT_EQ(source.reservations(), 1u);
}

TEST(Pool, ARefusedResizeChangesNothing) {
  FakeGranules source;
  Pool pool(&source, Bytes(640));
  auto region = pool.Create("r", Bytes(128), Bytes(256));
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->Resize(Bytes(320)).code(), absl::StatusCode::kResourceExhausted);
  source.device = Bytes(128);
  const absl::Status status = (*region)->Resize(Bytes(256));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the device is full"));
  EXPECT_EQ((*region)->size(), Bytes(128));
  EXPECT_EQ(pool.Create("s", Bytes(64)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(source.reservations(), 1u);
  pool.CheckInvariants();
}

TEST(Pool, SumsUpAfterEveryRandomChange) {
  FakeGranules source;
  Pool pool(&source, Bytes(64 * 100));
  Dice dice(7);
  std::vector<std::unique_ptr<Region>> regions;
  for (int event = 0; event < 2000; ++event) {
    const int64_t kind = dice(0, 9);
    if (kind < 3) {
      auto region = pool.Create("r", Bytes(dice(0, 64 * 30)));
      if (region.ok()) regions.push_back(*std::move(region));
    } else if (!regions.empty()) {
      const auto i = static_cast<size_t>(dice(0, static_cast<int64_t>(regions.size()) - 1));
      if (kind < 5) {
        regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        (void)regions[i]->Resize(Bytes(dice(0, 64 * 40)));
      }
    }
    pool.CheckInvariants();
    ASSERT_EQ(pool.used(), source.total());
    ASSERT_EQ(source.reservations(), regions.size());
  }
}

}  // namespace
}  // namespace ebb::memory
