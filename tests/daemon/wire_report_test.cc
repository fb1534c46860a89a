// What the engine says of jobs and memory, on its way to the wire; and changes and statuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/wire.h"
#include "proto/status.h"

namespace ebb::daemon {
namespace {

using testing::HasSubstr;

TEST(WireUpdate, TakesWhatCanChangeAndRefusesTheRest) {
  v1::UpdateRequest request;
  EXPECT_EQ(UpdateFromWire(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_learning_rate(0.5);
  request.set_priority(3);
  request.mutable_stop()->set_steps(9);
  const auto update = UpdateFromWire(request);
  ASSERT_TRUE(update.ok());
  EXPECT_EQ(update->learning_rate, 0.5);
  EXPECT_EQ(update->priority, 3);
  EXPECT_EQ(update->stop->steps, 9);
  EXPECT_FALSE(update->weight.has_value());
  request.mutable_stop()->mutable_early();
  EXPECT_EQ(UpdateFromWire(request).status().code(), absl::StatusCode::kUnimplemented);
  request.clear_stop();
  request.set_max_in_flight(7);
  EXPECT_EQ(UpdateFromWire(request)->max_in_flight, 7);
  request.set_max_in_flight(100);
  EXPECT_EQ(UpdateFromWire(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.clear_max_in_flight();
  request.set_weight(0);
  EXPECT_EQ(UpdateFromWire(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WireReport, AJobKeepsWhatTheEngineSays) {
  runtime::JobInfo info;
  info.id = JobId(17);
  info.state = runtime::JobState::kFailed;
  info.reason = runtime::EndReason::kNan;
  info.message = "loss \xff\xfe of 'caf\xc3\xa9' \xe2\x82";
  info.eta = absl::Milliseconds(1500);
  info.held = Bytes(5);
  info.batch_size = 96;
  info.max_in_flight = 4;
  info.started = absl::InfinitePast();
  info.submitted = absl::FromUnixSeconds(100) + absl::Nanoseconds(5);
  info.last["train/loss"] = 2;
  v1::Job job = ToWire(info);
  EXPECT_EQ(job.id(), "j-17");
  EXPECT_EQ(job.state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(job.reason(), v1::Job::REASON_NAN);
  EXPECT_EQ(job.message(), "loss \\xff\\xfe of 'caf\xc3\xa9' \\xe2\\x82");
  EXPECT_EQ(job.eta().seconds(), 1);
  EXPECT_EQ(job.eta().nanos(), 500000000);
  EXPECT_EQ(job.lane(), -1);
  EXPECT_EQ(job.batch_size(), 96);
  EXPECT_EQ(job.max_in_flight(), 4);
  EXPECT_FALSE(job.has_started());
  EXPECT_EQ(job.submitted().nanos(), 5);
  EXPECT_EQ(job.metrics().at("train/loss"), 2);
  info.eta = absl::InfiniteDuration();
  EXPECT_FALSE(ToWire(info).has_eta());
  // States and reasons are the same names on both sides.
  for (int state = 0; state <= static_cast<int>(runtime::JobState::kCancelled); ++state) {
    info.state = static_cast<runtime::JobState>(state);
    EXPECT_EQ(static_cast<int>(ToWire(info).state()), state + 1);
  }
  for (int reason = 0; reason <= static_cast<int>(runtime::EndReason::kInternal); ++reason) {
    info.reason = static_cast<runtime::EndReason>(reason);
    EXPECT_EQ(static_cast<int>(ToWire(info).reason()), reason);
  }
}

TEST(WireReport, MemoryKeepsEveryByte) {
  runtime::MemoryReport memory;
  memory.pool = Bytes(100);
  memory.classes = {{"free", Bytes(60)}, {"saved", Bytes(40)}};
  runtime::LaneReport lane;
  lane.id = LaneId(0);
  lane.size = Bytes(90);
  lane.bottom = {JobId(1),
                 Bytes(30),
                 Bytes(10),
                 {{JobId(1), 2, Bytes(0), Bytes(30)}, {JobId(9), 0, Bytes(30), Bytes(10)}}};
  lane.free = Bytes(50);
  memory.lanes.push_back(lane);
  memory.outside = Bytes(7);
  const v1::MemoryReport wire = ToWire(memory, {});
  EXPECT_EQ(wire.pool_bytes(), 100);
  EXPECT_EQ(wire.outside_bytes(), 7);
  EXPECT_EQ(wire.classes().at("saved"), 40);
  EXPECT_EQ(wire.lanes(0).bottom().job(), "j-1");
  EXPECT_EQ(wire.lanes(0).bottom().blocks(0).state(), "held");
  EXPECT_EQ(wire.lanes(0).bottom().blocks(1).state(), "waiting");
  EXPECT_EQ(wire.lanes(0).bottom().blocks(1).offset(), 30);
  EXPECT_EQ(wire.lanes(0).top().job(), "");
}

TEST(WireStatus, CodesMapOneToOne) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "m");
    EXPECT_EQ(static_cast<int>(proto::ToGrpc(status).error_code()), code);
    EXPECT_EQ(proto::FromGrpc(proto::ToGrpc(status)).code(), status.code());
  }
  EXPECT_LT(proto::ToGrpc(absl::InternalError(std::string(100000, 'x'))).error_message().size(),
            2600u);
}

}  // namespace
}  // namespace ebb::daemon
