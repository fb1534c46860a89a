// What CUDA can do wrong, and what the device makes of it: a failed call ends a launch, a lost GPU
// ends everything, and nothing waits for what will not come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/cuda_double/chain.h"
#include "tests/device/cuda_double/open_double.h"

namespace ebb::testing {
namespace {

using Fault = DoubleApi::Fault;
using ::testing::HasSubstr;

constexpr char kText[] = "x = input f32[100]; y = Neg(x); z = Neg(y); output z";

class CudaFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    chain_ = std::make_unique<Chain>(&device(), kText);
    stream_ = device().CreateStream();
    const std::vector<float> ones(Chain::kFloats, 1);
    chain_->Set("x", ones.data(), ones.size() * sizeof(float));
  }
  device::Device& device() { return *cuda_.device; }
  DoubleApi& api() { return *cuda_.api; }
  absl::Status Run() {
    chain_->Launch(stream_);
    return Finish(device(), stream_);
  }

  CudaDouble cuda_ = OpenCudaDouble();
  std::unique_ptr<Chain> chain_;
  device::StreamId stream_;
};

TEST_F(CudaFaults, ARefusedLaunchIsToldByTheNextEventAloneWithItsNode) {
  api().FailAt(Fault::kLaunch, 2);
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node '" + chain_->graph().nodes[1].name + "'"));
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(device().Health().ok());
}

class CudaLost : public CudaFaults, public ::testing::WithParamInterface<Fault> {};

TEST_P(CudaLost, AllEventsCompleteWithItAndNothingHangs) {
  const device::StreamId other = device().CreateStream();
  chain_->Launch(other);
  const device::EventId before = device().Record(other);
  api().FailAt(GetParam(), 3);
  for (int i = 0; i < 4; ++i) chain_->Launch(stream_);
  device().Wait(stream_, before);
  EXPECT_EQ(Finish(device(), stream_).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(device().Health().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(device().Query(before).complete);
  EXPECT_EQ(Finish(device(), other).code(), absl::StatusCode::kDataLoss);
  const device::StreamId late = device().CreateStream();
  chain_->Launch(late);
  EXPECT_EQ(Finish(device(), late).code(), absl::StatusCode::kDataLoss);
  device().Synchronize(late);
  for (const device::StreamId stream : {stream_, other, late}) device().DestroyStream(stream);
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaLost, ::testing::Values(Fault::kStickyCall, Fault::kStickyWork));

TEST_F(CudaFaults, MemoryThatIsNotToBeHadIsRefusedAndNothingElseHappens) {
  memory::GranuleSource& granules = device().granules();
  const auto base = granules.Reserve(granules.granule());
  ASSERT_TRUE(base.ok());
  api().FailAt(Fault::kMap, 1);
  const absl::Status status = granules.Commit(*base, Bytes(0), granules.granule());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("GPU memory"));
  ASSERT_TRUE(granules.Commit(*base, Bytes(0), granules.granule()).ok());
  granules.Decommit(*base, Bytes(0), granules.granule());
  granules.Unreserve(*base, granules.granule());
  EXPECT_TRUE(Run().ok());
}

TEST_F(CudaFaults, AStreamThatIsNotToBeHadFailsItsEventsAndNoOthers) {
  api().FailAt(Fault::kCreateStream, 1);
  const device::StreamId broken = device().CreateStream();
  for (int i = 0; i < 2; ++i) {
    chain_->Launch(broken);
    EXPECT_EQ(Finish(device(), broken).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(Run().ok());
  device().DestroyStream(broken);
}

TEST_F(CudaFaults, WithoutAnEventTheHostWaits) {
  for (int i = 0; i < 300; ++i) device().Record(stream_);  // none is left of those made before
  chain_->Launch(stream_);                                 // with a begin of its own
  api().FailAt(Fault::kCreateEvent, 1);
  const device::EventId event = device().Record(stream_);
  const device::EventState state = device().Query(event);
  EXPECT_TRUE(state.complete);
  EXPECT_EQ(state.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(chain_->Get("z"), std::vector<float>(Chain::kFloats, 1));
  EXPECT_TRUE(Run().ok());
}

TEST_F(CudaFaults, AWaitThatIsRefusedKeepsItsOrder) {
  const device::StreamId other = device().CreateStream();
  Chain reader(&device(), kText);
  for (int i = 0; i < 100; ++i) chain_->Launch(stream_);
  const device::EventId event = device().Record(stream_);
  api().FailAt(Fault::kWait, 1);
  device().Wait(other, event);
  EXPECT_TRUE(device().Query(event).complete);  // the host has waited
  EXPECT_TRUE(Finish(device(), other).ok());
}

}  // namespace
}  // namespace ebb::testing
