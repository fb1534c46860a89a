// From a decision to work on the device's streams: the step's batch, the sub-model's kernels, and
// the copies of state beside them.
#include <array>

#include "base/check.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

using memory::End;
using scheduler::Decision;

void EngineLoop::BeginStep(ActiveJob& job, const Decision& decision, Lane& lane) {
  job.ready = false;
  job.image_is_fresh = false;
  EBB_CHECK(!job.staged.empty() && job.staged.front()->staged && job.enqueuing == nullptr);
  job.enqueuing = std::move(job.staged.front());
  job.staged.pop_front();
  StepRun& run = *job.enqueuing;
  const int program = decision.profile;
  EBB_CHECK(program == static_cast<int>(run.item.kind));
  if (job.started == absl::InfinitePast()) {
    job.started = absl::Now();
    Publish(job, [&](Board::Record& record) { record.info.started = job.started; });
  }

  const device::StreamId stream = lane.streams[static_cast<int>(decision.end)];
  const StepProgram& step = *job.prepared->programs()[program];
  const auto write = [&](const char* name, auto values) {
    if (!step.graph.Find(name).valid()) return;
    device_->Write(stream, job.Resident(name, program),
                   {reinterpret_cast<const char*>(values.data()), sizeof(values)});
  };
  write("ebb.hyper",
        std::array<double, 4>{run.item.lr, static_cast<double>(run.item.step + 1), 0, 0});
  write("ebb.rng", std::array<int64_t, 2>{static_cast<int64_t>(job.prepared->spec.seed_dropout),
                                          run.item.step});

  EnterBatch(
      stream, job, run,
      job.Bind(program, decision.end, lane.region->base(), scheduler_->lane(lane.id).size()));
}

void EngineLoop::EndStepEnqueue(ActiveJob& job, device::StreamId stream, int program) {
  const ResidentLayout& resident = job.prepared->resident;
  const Bytes bytes = resident.metrics_bytes[program];
  auto& rooms = job.prepared->metric_rooms;
  if (rooms.empty()) {  // more steps are in flight than ever before
    auto room = HostBuffer::Create(*device_, job.prepared->MetricBytes());
    EBB_CHECK(room.ok());
    rooms.push_back(*std::move(room));
  }
  job.enqueuing->metrics = std::move(rooms.back());
  rooms.pop_back();
  device_->Copy(stream, job.enqueuing->metrics->base(),
                job.AtImage(resident.metrics_begin[program]), bytes);
  job.running.push_back(std::move(job.enqueuing));
}

// The main stream computes; what is copied between host and stack runs on two streams beside it,
// from when the launch may touch its memory, and is complete when the launch is.
void EngineLoop::LaunchSubModel(const Lane& lane, End end, const StepProgram& step,
                                const device::Bindings& bindings, Launch* launch) {
  const int sub_model = launch->sub_model;
  const auto e = static_cast<size_t>(end);
  const device::StreamId stream = lane.streams[e];
  const device::StreamId fetches = lane.fetch_streams[e], stores = lane.store_streams[e];
  const auto after = [&](device::StreamId waits, device::StreamId runs) {
    const device::EventId event = device_->Record(runs);
    device_->Wait(waits, event);
    launch->parts.push_back(event);
  };
  const auto copy = [&](device::StreamId on, const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) {
      const graph::Node& node = step.graph.node(id);
      const bool fetches_it = !node.outputs.empty();
      const ValueId to = fetches_it ? node.outputs[0] : node.inputs[0];
      const ValueId from = fetches_it ? node.inputs[0] : node.inputs[1];
      device_->Copy(on, bindings.values[to.index()], bindings.values[from.index()],
                    step.graph.value(from).type.bytes());
    }
  };
  const auto compute = [&](int first, int last) {
    AwaitOthers(stream, *launch);
    device_->Launch(
        stream,
        {.program = step.program.get(), .bindings = &bindings, .first = first, .last = last});
  };
  if (step.traffic.empty() || !step.traffic[sub_model].copies()) {
    const partitioner::SubModel& sub = step.partition.sub_models[sub_model];
    compute(sub.first, sub.last);
    return;
  }
  const graph::Traffic& traffic = step.traffic[sub_model];
  const bool fetch = !traffic.fetch_now.empty() || !traffic.fetch_ahead.empty();
  if (fetch) after(fetches, stream);
  if (fetch && launch->first && !launch->begin.valid()) launch->begin = launch->parts.back();
  if (!traffic.store.empty()) after(stores, stream);
  if (!traffic.fetch_now.empty()) {
    copy(fetches, traffic.fetch_now);
    after(stream, fetches);
  }
  copy(fetches, traffic.fetch_ahead);
  copy(stores, traffic.store);
  compute(traffic.computed.first, traffic.computed.last);
  if (!traffic.store_last.empty()) {
    after(stores, stream);
    if (!launch->begin.valid()) launch->begin = launch->parts.back();  // the kernels
    copy(stores, traffic.store_last);
  }
  if (!traffic.fetch_ahead.empty()) after(stream, fetches);
  if (!traffic.store.empty() || !traffic.store_last.empty()) after(stream, stores);
}

void EngineLoop::Dispatch(const Decision& decision) {
  ActiveJob* job = Find(decision.job);
  EBB_CHECK(job != nullptr);
  Lane& lane = lanes_[decision.lane.index()];
  const int stream_index = decision.lane.value() * 2 + static_cast<int>(decision.end);
  const device::StreamId stream = lane.streams[static_cast<int>(decision.end)];
  for (const auto& wait : {decision.wait, decision.previous}) {
    if (!wait) continue;
    if (const auto it = events_.find(*wait); it != events_.end()) device_->Wait(stream, it->second);
  }
  const int program = decision.profile;
  if (decision.first) BeginStep(*job, decision, lane);
  const bool copies_in = decision.first && !job->enqueuing->ahead;
  const StepProgram& step = *job->prepared->programs()[program];
  const device::Bindings& bindings =
      job->Bind(program, decision.end, lane.region->base(), scheduler_->lane(lane.id).size());
  Launch launch{.seq = decision.seq,
                .job = decision.job,
                .stream = stream_index,
                .first = decision.first,
                .last = decision.last,
                .sub_model = decision.sub_model,
                .extent = step.profile.extent[decision.sub_model],
                .held_after = step.profile.held_after[decision.sub_model]};
  launch.before = co_run_->Before(stream_index, {decision.job, program, decision.sub_model});
  if (decision.first) AwaitTurn(decision, stream, &launch);
  LaunchSubModel(lane, decision.end, step, bindings, &launch);
  if (decision.last) EndStepEnqueue(*job, stream, program);
  launch.event = device_->Record(stream);
  events_[decision.seq] = launch.event;
  overlap_->Launched(stream_index);
  co_run_->Launched(stream_index,
                    {.job = decision.job,
                     .program = program,
                     .sub_model = decision.sub_model,
                     .last = decision.last,
                     .seq = decision.seq,
                     .copies_in = copies_in},
                    device_->Now(),
                    {.memory = decision.wait, .data = decision.previous, .apart = launch.before});
  launches_[stream_index].push_back(std::move(launch));
  ++job->outstanding;
  lane.tides[static_cast<int>(decision.end)] = {decision.job, program, decision.sub_model};
  SampleLedger();
  if (decision.last) Pump(*job);
}

}  // namespace ebb::runtime
