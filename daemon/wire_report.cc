// What the runtime reports: native -> wire.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "daemon/wire.h"

#ifndef EBB_VERSION
#error "the build defines EBB_VERSION"
#endif

namespace ebb::daemon {
namespace {

void SetTime(absl::Time time, google::protobuf::Timestamp* wire) {
  const int64_t nanos = absl::ToUnixNanos(time);
  wire->set_seconds(nanos / 1000000000);
  wire->set_nanos(static_cast<int32_t>(nanos % 1000000000));
}
bool IsSet(absl::Time time) { return time > absl::UnixEpoch() && time != absl::InfiniteFuture(); }

v1::Job::Reason ReasonToWire(runtime::EndReason reason) {
  switch (reason) {
    case runtime::EndReason::kNone:
      return v1::Job::REASON_NONE;
    case runtime::EndReason::kCancelled:
      return v1::Job::REASON_CANCELLED;
    case runtime::EndReason::kInvalid:
      return v1::Job::REASON_INVALID;
    case runtime::EndReason::kUnsupported:
      return v1::Job::REASON_UNSUPPORTED;
    case runtime::EndReason::kOom:
      return v1::Job::REASON_OOM;
    case runtime::EndReason::kData:
      return v1::Job::REASON_DATA;
    case runtime::EndReason::kNan:
      return v1::Job::REASON_NAN;
    case runtime::EndReason::kDevice:
      return v1::Job::REASON_DEVICE;
    case runtime::EndReason::kInternal:
      return v1::Job::REASON_INTERNAL;
  }
  return v1::Job::REASON_INTERNAL;
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* wire) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  wire->set_seconds(nanos / 1000000000);
  wire->set_nanos(static_cast<int32_t>(nanos % 1000000000));
}

void StackToWire(const runtime::StackReport& stack, v1::MemoryReport::Stack* wire) {
  if (stack.job.valid()) wire->set_job(JobLabel(stack.job));
  wire->set_held_bytes(stack.held.count());
  wire->set_waiting_bytes(stack.waiting.count());
  for (const runtime::BlockReport& block : stack.blocks) {
    v1::MemoryReport::Block& out = *wire->add_blocks();
    if (block.job.valid()) out.set_job(JobLabel(block.job));
    out.set_sub_model(block.sub_model);
    out.set_offset(block.offset.count());
    out.set_bytes(block.bytes.count());
    out.set_state(block.job == stack.job ? "held" : "waiting");
  }
}

}  // namespace

v1::Job::State StateToWire(runtime::JobState state) {
  switch (state) {
    case runtime::JobState::kPreparing:
      return v1::Job::STATE_PREPARING;
    case runtime::JobState::kQueued:
      return v1::Job::STATE_QUEUED;
    case runtime::JobState::kRunning:
      return v1::Job::STATE_RUNNING;
    case runtime::JobState::kPaused:
      return v1::Job::STATE_PAUSED;
    case runtime::JobState::kSucceeded:
      return v1::Job::STATE_SUCCEEDED;
    case runtime::JobState::kFailed:
      return v1::Job::STATE_FAILED;
    case runtime::JobState::kCancelled:
      return v1::Job::STATE_CANCELLED;
  }
  return v1::Job::STATE_UNSPECIFIED;
}

std::string JobLabel(JobId id) { return absl::StrCat("j-", id.value()); }

v1::Job ToWire(const runtime::JobInfo& info) {
  v1::Job wire;
  wire.set_id(JobLabel(info.id));
  wire.set_name(info.name);
  wire.set_state(StateToWire(info.state));
  wire.set_reason(ReasonToWire(info.reason));
  wire.set_message(Escaped(info.message));
  for (const std::string& warning : info.warnings) wire.add_warnings(Escaped(warning));
  wire.set_step(info.step);
  wire.set_total_steps(info.total_steps);
  wire.set_epoch(info.epoch);
  wire.set_total_epochs(info.total_epochs);
  for (const auto& [name, value] : info.last) (*wire.mutable_metrics())[name] = value;
  wire.set_learning_rate(info.learning_rate);
  wire.set_steps_per_second(info.steps_per_second);
  wire.set_share(info.share);
  if (info.eta && *info.eta >= absl::ZeroDuration() && *info.eta < absl::Hours(24 * 365 * 100)) {
    SetDuration(*info.eta, wire.mutable_eta());
  }
  wire.set_why(Escaped(info.why));
  wire.set_resident_bytes(info.resident.count());
  wire.set_streamed_bytes(info.streamed.count());
  wire.set_staging_bytes(info.staging.count());
  wire.set_step_peak_bytes(info.step_peak.count());
  wire.set_held_bytes(info.held.count());
  wire.set_lane(info.lane.value());
  wire.set_priority(info.priority);
  wire.set_weight(info.weight);
  wire.set_batch_size(info.batch_size);
  wire.set_max_in_flight(info.max_in_flight);
  for (const auto& [key, value] : info.labels) (*wire.mutable_labels())[key] = value;
  if (IsSet(info.submitted)) SetTime(info.submitted, wire.mutable_submitted());
  if (IsSet(info.started)) SetTime(info.started, wire.mutable_started());
  if (IsSet(info.finished)) SetTime(info.finished, wire.mutable_finished());
  if (info.elapsed > Micros(0)) {
    SetDuration(absl::Microseconds(info.elapsed.count()), wire.mutable_elapsed());
  }
  return wire;
}

v1::MetricPoint ToWire(const runtime::MetricPoint& point) {
  v1::MetricPoint wire;
  wire.set_name(point.name);
  wire.set_step(point.step);
  wire.set_epoch(point.epoch);
  wire.set_value(point.value);
  if (IsSet(point.time)) SetTime(point.time, wire.mutable_time());
  return wire;
}

v1::MemoryReport ToWire(const runtime::MemoryReport& memory,
                        const runtime::OverlapReport& overlap) {
  v1::MemoryReport wire;
  wire.set_pool_bytes(memory.pool.count());
  for (const auto& [name, bytes] : memory.classes) (*wire.mutable_classes())[name] = bytes.count();
  for (const runtime::LaneReport& lane : memory.lanes) {
    v1::MemoryReport::Lane& out = *wire.add_lanes();
    out.set_id(lane.id.value());
    out.set_size_bytes(lane.size.count());
    StackToWire(lane.bottom, out.mutable_bottom());
    StackToWire(lane.top, out.mutable_top());
    out.set_waiting_bytes(lane.waiting.count());
    out.set_free_bytes(lane.free.count());
  }
  for (const runtime::JobMemoryReport& job : memory.jobs) {
    v1::MemoryReport::JobMemory& out = *wire.add_jobs();
    out.set_job(JobLabel(job.job));
    out.set_name(job.name);
    out.set_resident_bytes(job.resident.count());
    out.set_staging_bytes(job.staging.count());
    out.set_step_peak_bytes(job.step_peak.count());
    out.set_held_bytes(job.held.count());
    out.set_lane(job.lane.value());
  }
  v1::MemoryReport::Overlap& out = *wire.mutable_overlap();
  out.set_samples(overlap.samples);
  out.set_shared(overlap.shared);
  out.set_deep(overlap.deep);
  out.set_wall_us(overlap.wall.count());
  out.set_busy_us(overlap.busy.count());
  out.set_concurrent_us(overlap.concurrent.count());
  wire.set_outside_bytes(memory.outside.count());
  for (const auto& [name, bytes] : memory.host) (*wire.mutable_host())[name] = bytes.count();
  return wire;
}

v1::DeviceReport ToWire(const runtime::DeviceReport& report) {
  v1::DeviceReport wire;
  wire.set_kind(report.spec.kind);
  wire.set_name(Escaped(report.spec.name));
  wire.set_memory_bytes(report.spec.memory.count());
  wire.set_pool_bytes(report.pool.count());
  wire.set_lanes(report.lanes);
  wire.set_streams(report.streams);
  wire.set_policy(report.policy);
  wire.set_parallelism(report.spec.parallelism);
  wire.set_threads_per_stream(report.spec.threads_per_stream);
  wire.set_peak_flops(report.spec.peak_flops);
  wire.set_peak_bandwidth(report.spec.peak_bandwidth);
  wire.set_version(EBB_VERSION);
  wire.set_simulated(!report.spec.profile.empty());
  wire.set_profile(Escaped(report.spec.profile));
  wire.set_overlap_model(report.spec.overlap_model);
  wire.set_constants_sha256(report.spec.constants_sha256);
  wire.set_co_run(runtime::Name(report.co_run));
  return wire;
}

v1::ExplainReport ToWire(JobId id, const runtime::ExplainReport& report) {
  v1::ExplainReport wire;
  wire.set_job(JobLabel(id));
  wire.set_graph(EscapedLines(report.graph));
  for (const runtime::SubModelReport& sub_model : report.sub_models) {
    v1::ExplainReport::SubModel& out = *wire.add_sub_models();
    out.set_first(sub_model.first);
    out.set_last(sub_model.last);
    out.set_phase(sub_model.phase);
    out.set_extent_bytes(sub_model.extent.count());
    out.set_held_after_bytes(sub_model.held_after.count());
    out.set_saved_bytes(sub_model.saved.count());
  }
  wire.set_plan(report.plan);
  wire.set_plan_peak_bytes(report.plan_peak.count());
  wire.set_live_peak_bytes(report.live_peak.count());
  wire.set_quantum_bytes(report.quantum.count());
  for (const auto& [name, bytes] : report.resident) {
    (*wire.mutable_resident())[name] = bytes.count();
  }
  for (const runtime::LevelReport& level : report.ladder) {
    v1::ExplainReport::Level& out = *wire.add_ladder();
    out.set_name(level.name);
    out.set_region_bytes(level.region.count());
    out.set_step_peak_bytes(level.step_peak.count());
    out.set_host_bytes(level.host.count());
    out.set_copied_bytes(level.bus.count());
    out.set_in_use(level.in_use);
  }
  wire.set_admission(Escaped(report.admission));
  wire.set_numerics_key(report.numerics_key);
  wire.set_next_batch(report.next_batch);
  wire.set_solo_step_micros(report.solo_step.value_or(Micros(0)).count());
  wire.set_crowd(report.crowd.value_or(0));
  wire.set_waiting(report.waiting);
  for (const runtime::CoRunPair& pair : report.pairs) {
    v1::ExplainReport::Pair& out = *wire.add_pairs();
    out.set_job(JobLabel(pair.other));
    out.set_state(runtime::Name(pair.state));
    out.set_own(pair.own);
    out.set_other(pair.others);
    out.set_retry_in_steps(pair.retry_in);
    out.set_lost(pair.tries);
    out.set_known_sub_models(pair.known);
    out.set_apart_sub_models(pair.apart);
  }
  return wire;
}

v1::Estimate ToWire(const std::string& device, const runtime::EstimateReport& report) {
  v1::Estimate wire;
  wire.set_device(device);
  const runtime::Verdict& verdict = report.verdict;
  wire.set_verdict(verdict.kind == runtime::Verdict::Kind::kFitsNow ? v1::Estimate::VERDICT_FITS_NOW
                   : verdict.kind == runtime::Verdict::Kind::kAfter ? v1::Estimate::VERDICT_AFTER
                                                                    : v1::Estimate::VERDICT_NEVER);
  wire.set_text(Escaped(report.text));
  if (verdict.after.valid()) wire.set_after(JobLabel(verdict.after));
  if (verdict.wait) SetDuration(absl::Microseconds(verdict.wait->count()), wire.mutable_wait());
  wire.set_batch_size(report.batch_size);
  wire.set_pool_bytes(report.pool.count());
  wire.set_resident_bytes(report.resident.count());
  wire.set_staging_bytes(report.staging.count());
  wire.set_step_peak_bytes(report.step_peak.count());
  wire.set_live_peak_bytes(report.live_peak.count());
  wire.set_host_bytes(report.host.count());
  wire.set_alone_bytes(report.alone.count());
  wire.set_two_bytes(report.two.count());
  wire.set_copies(report.copies);
  if (report.largest_alone) wire.set_largest_batch_alone(*report.largest_alone);
  if (report.largest_beside_equal) {
    wire.set_largest_batch_beside_equal(*report.largest_beside_equal);
  }
  if (report.largest_now) wire.set_largest_batch_now(*report.largest_now);
  if (report.step_time) {
    SetDuration(absl::Microseconds(report.step_time->count()), wire.mutable_step_time());
  }
  wire.set_device_name(Escaped(report.device.name));
  wire.set_simulated(!report.device.profile.empty());
  wire.set_constants_sha256(report.device.constants_sha256);
  wire.set_others_bytes(verdict.ledger.others.count());
  wire.set_lane_bytes(verdict.ledger.lane.count());
  return wire;
}

v1::StoredObject ToWire(const ObjectInfo& info) {
  v1::StoredObject wire;
  wire.set_handle(absl::StrCat("sha256:", info.sha256));
  wire.set_name(info.name);
  wire.set_bytes(info.bytes.count());
  v1::ObjectKind kind = v1::OBJECT_KIND_UNSPECIFIED;
  if (info.kind == "graph") kind = v1::OBJECT_KIND_GRAPH;
  if (info.kind == "weights") kind = v1::OBJECT_KIND_WEIGHTS;
  if (info.kind == "data") kind = v1::OBJECT_KIND_DATA;
  if (info.kind == "onnx") kind = v1::OBJECT_KIND_ONNX;
  if (info.kind == "index") kind = v1::OBJECT_KIND_INDEX;
  wire.set_kind(kind);
  if (IsSet(info.stored)) SetTime(info.stored, wire.mutable_stored());
  return wire;
}

}  // namespace ebb::daemon
