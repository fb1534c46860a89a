// What a job leaves when it has come to its end.
#include "runtime/engine_loop.h"
#include "runtime/resident.h"

namespace ebb::runtime {
namespace {

// Of the state that the image holds.
std::shared_ptr<JobResult> ResultOf(const PreparedJob& job, absl::Span<const char> image) {
  auto result = std::make_shared<JobResult>();
  result->weights = TensorsOf(job, image, graph::Role::kParam);
  result->weights.merge(TensorsOf(job, image, graph::Role::kBuffer));
  result->slots = TensorsOf(job, image, graph::Role::kOptState);
  for (auto& [name, tensor] : result->weights) {
    const auto average = result->slots.find(graph::AverageOf(name));
    if (average != result->slots.end()) tensor = average->second;
  }
  result->onnx = job.spec.model.onnx;
  return result;
}

// Of the state that is the job's result, and where it has kept another, the last one.
std::shared_ptr<JobResult> StatesOf(const PreparedJob& job, absl::Span<const char> image,
                                    const absl::Span<const char>* last) {
  std::shared_ptr<JobResult> result = ResultOf(job, image);
  result->keep = job.spec.keep;
  if (last != nullptr) result->last = ResultOf(job, *last);
  return result;
}

}  // namespace

// The last step is complete: what it left is copied to the host, and the job is done.
void EngineLoop::BeginSnapshot(ActiveJob& job) {
  job.snapshotting = true;
  const Bytes bytes = job.prepared->resident.state_end;
  if (!device_->spec().computes) {
    CopyImage(job, ImageWay::kDown, job.prepared->host_image->base(), bytes);
    AfterCopies(job, [this](ActiveJob& job) {
      EndJob(job.id, JobState::kSucceeded, EndReason::kNone, "");
    });
    return;
  }
  if (job.prepared->spec.predict) {  // its outputs are there already
    AfterCopies(job, [this](ActiveJob& job) {
      auto result = std::make_shared<JobResult>();
      result->predictions = std::move(job.prepared->predictions);
      Succeed(job, std::move(result));
    });
    return;
  }
  const Keep keep = job.prepared->spec.keep;
  if (keep == Keep::kBest) {  // it is there already
    AfterCopies(job, [this](ActiveJob& job) {
      Succeed(job, StatesOf(*job.prepared, job.prepared->best->bytes(), nullptr));
    });
    return;
  }
  std::shared_ptr<std::vector<char>> room;  // where there is no image
  char* image = nullptr;
  if (device_->spec().host_memory) {
    room = std::make_shared<std::vector<char>>(bytes.count());
    image = room->data();
  } else {
    image = job.prepared->host_image->base();
  }
  const absl::Span<const char> state(image, static_cast<size_t>(bytes.count()));
  CopyImage(job, ImageWay::kDown, image, bytes);
  AfterCopies(job, [this, room, state, keep](ActiveJob& job) {
    const PreparedJob& prepared = *job.prepared;
    if (keep == Keep::kLast) return Succeed(job, StatesOf(prepared, state, nullptr));
    Succeed(job, StatesOf(prepared, prepared.best->bytes(), &state));
  });
}

void EngineLoop::Succeed(ActiveJob& job, std::shared_ptr<JobResult> result) {
  result->held = std::move(job.prepared->host_share);
  if (result->held) result->held->Shrink(job.prepared->ResultBytes(device_->spec()));
  Publish(job, [&](Board::Record& record) { record.result = result; });
  EndJob(job.id, JobState::kSucceeded, EndReason::kNone, "");
}

}  // namespace ebb::runtime
