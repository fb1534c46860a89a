// Streams, events and graphs of the double; memory is in double_memory.cc.
#include "tests/device/cuda_double/double_api.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "device/cuda/launch.h"
#include "tests/device/cuda_double/double_stream.h"

namespace ebb::testing {
namespace {

DoubleStream* Of(device::cuda::Stream stream) { return reinterpret_cast<DoubleStream*>(stream); }

const std::shared_ptr<DoubleEvent>& Of(device::cuda::Event event) {
  return *reinterpret_cast<std::shared_ptr<DoubleEvent>*>(event);
}

}  // namespace

DoubleApi::DoubleApi(DoubleOptions options) : options_(options) {
  properties_ = {.name = "test double of a GPU",
                 .compute_major = 9,
                 .compute_minor = 0,
                 .multiprocessors = 8,
                 .max_threads_per_multiprocessor = 2048,
                 .memory = options.memory,
                 .shared_per_block = KiB(227),
                 .clock_hz = 1e9,
                 .bandwidth = 1e11,
                 .managed_virtual_memory = true};
}

DoubleApi::~DoubleApi() {
  MutexLock lock(&mu_);
  EBB_CHECK(streams_ == 0);
}

void DoubleApi::FailAt(Fault fault, int64_t nth) {
  MutexLock lock(&mu_);
  countdown_[static_cast<size_t>(fault)] = nth;
}

bool DoubleApi::Fails(Fault fault) {
  int64_t& left = countdown_[static_cast<size_t>(fault)];
  return left > 0 && --left == 0;
}

DoubleApi::Calls DoubleApi::calls() const {
  MutexLock lock(&mu_);
  return calls_;
}

void DoubleApi::Die(const std::string& why) {
  MutexLock lock(&mu_);
  if (dying_.ok()) dying_ = absl::DataLossError(why);  // whose work this is ends first
}

void DoubleApi::DieLocked(const std::string& why) {
  if (dying_.ok()) dying_ = absl::DataLossError(why);
  while (running_ > 0) changed_.Wait(&mu_);
  dead_ = dying_;
  changed_.SignalAll();
}

absl::Status DoubleApi::OutsideCapture(const char* call) {
  EBB_RETURN_IF_ERROR(Alive());
  const auto it = capturing_.find(std::this_thread::get_id());
  if (it == capturing_.end()) return absl::OkStatus();
  it->second->capture->spoiled = true;
  return absl::InternalError(absl::StrCat(call, " is not permitted when a stream is capturing"));
}

absl::StatusOr<DoubleApi::Stream> DoubleApi::CreateStream() {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaStreamCreate"));
  ++calls_.allocations;
  if (Fails(Fault::kCreateStream)) return absl::ResourceExhaustedError("no memory for a stream");
  ++streams_;
  auto* const stream = new DoubleStream;
  stream->api = this;
  stream->thread = std::thread([this, stream] { Run(stream); });
  return reinterpret_cast<Stream>(stream);
}

void DoubleApi::DestroyStream(Stream handle) {
  DoubleStream* const stream = Of(handle);
  {
    MutexLock lock(&mu_);
    ++calls_.allocations;
    EBB_CHECK(!dead_.ok() || (stream->tasks.empty() && !stream->busy));
    stream->closing = true;
    changed_.SignalAll();
  }
  stream->thread.join();
  delete stream;
  MutexLock lock(&mu_);
  --streams_;
}

absl::Status DoubleApi::Synchronize(Stream handle) {
  DoubleStream* const stream = Of(handle);
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaStreamSynchronize"));
  ++calls_.synchronous;
  while (dead_.ok() && (stream->busy || !stream->tasks.empty())) changed_.Wait(&mu_);
  return Alive();
}

absl::StatusOr<DoubleApi::Event> DoubleApi::CreateEvent() {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaEventCreate"));
  ++calls_.allocations;
  if (Fails(Fault::kCreateEvent)) return absl::ResourceExhaustedError("no memory for an event");
  return reinterpret_cast<Event>(new std::shared_ptr<DoubleEvent>(std::make_shared<DoubleEvent>()));
}

void DoubleApi::DestroyEvent(Event event) {
  delete reinterpret_cast<std::shared_ptr<DoubleEvent>*>(event);
  MutexLock lock(&mu_);
  ++calls_.allocations;
}

absl::Status DoubleApi::Record(Stream stream, Event event) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaEventRecord"));
  if (Fails(Fault::kStickyCall)) DieLocked("injected: an illegal memory access");
  EBB_RETURN_IF_ERROR(Alive());
  if (Fails(Fault::kRecord)) return absl::InternalError("injected: an event is not recorded");
  const std::shared_ptr<DoubleEvent>& record = Of(event);
  Of(stream)->tasks.push_back({.record = record, .number = ++record->recorded});
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::Status DoubleApi::Wait(Stream stream, Event event) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaStreamWaitEvent"));
  if (Fails(Fault::kStickyCall)) DieLocked("injected: an illegal memory access");
  EBB_RETURN_IF_ERROR(Alive());
  if (Fails(Fault::kWait)) return absl::InternalError("injected: a wait is refused");
  const std::shared_ptr<DoubleEvent>& awaited = Of(event);
  Of(stream)->tasks.push_back({.wait = awaited, .number = awaited->recorded});
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::StatusOr<bool> DoubleApi::Query(Event event) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaEventQuery"));
  return Of(event)->complete >= Of(event)->recorded;
}

absl::Status DoubleApi::Synchronize(Event event) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaEventSynchronize"));
  ++calls_.synchronous;
  const std::shared_ptr<DoubleEvent> awaited = Of(event);
  while (dead_.ok() && awaited->complete < awaited->recorded) changed_.Wait(&mu_);
  return Alive();
}

absl::StatusOr<Micros> DoubleApi::Elapsed(Event from, Event to) {
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaEventElapsedTime"));
  for (const Event event : {from, to}) {
    if (Of(event)->recorded == 0 || Of(event)->complete < Of(event)->recorded) {
      return absl::InternalError("cudaEventElapsedTime: an event is not complete");
    }
  }
  return Of(to)->at - Of(from)->at;
}

absl::Status DoubleApi::EnqueueLocked(DoubleStream* stream, std::function<void()> work) {
  EBB_RETURN_IF_ERROR(Alive());
  const auto it = capturing_.find(std::this_thread::get_id());
  const bool captures = it != capturing_.end() && it->second == stream;
  if (stream->capture != nullptr && !captures) {
    return absl::InternalError("the stream is capturing for another thread");
  }
  if (captures) {
    stream->capture->work.push_back(std::move(work));
    return absl::OkStatus();
  }
  if (Fails(Fault::kStickyCall)) DieLocked("injected: an illegal memory access");
  EBB_RETURN_IF_ERROR(Alive());
  stream->tasks.push_back({.work = std::move(work)});
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::Status DoubleApi::Enqueue(Stream stream, std::function<void()> work) {
  MutexLock lock(&mu_);
  ++calls_.kernels;
  if (Fails(Fault::kLaunch)) return absl::InternalError("injected: the launch is refused");
  return EnqueueLocked(Of(stream), std::move(work));
}

absl::Status DoubleApi::Copy(Stream stream, void* to, const void* from, Bytes bytes) {
  MutexLock lock(&mu_);
  // Such a copy waits for the stream, or for a buffer at least.
  if (!IsPinned(to) || !IsPinned(from)) ++calls_.synchronous;
  const auto size = static_cast<size_t>(bytes.count());
  return EnqueueLocked(Of(stream), [=] { std::memcpy(to, from, size); });
}

absl::Status DoubleApi::Fill(Stream stream, void* to, int byte, Bytes bytes) {
  MutexLock lock(&mu_);
  const auto size = static_cast<size_t>(bytes.count());
  return EnqueueLocked(Of(stream), [=] { std::memset(to, byte, size); });
}

absl::Status DoubleApi::Write(Stream stream, void* to, const std::array<char, 64>& data,
                              Bytes bytes) {
  MutexLock lock(&mu_);
  const auto size = static_cast<size_t>(bytes.count());
  return EnqueueLocked(Of(stream), [=] { std::memcpy(to, data.data(), size); });
}

absl::Status DoubleApi::BeginCapture(Stream handle) {
  DoubleStream* const stream = Of(handle);
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaStreamBeginCapture"));
  if (stream->capture != nullptr) return absl::InternalError("the stream is capturing already");
  stream->capture = std::make_unique<DoubleGraph>();
  capturing_.emplace(std::this_thread::get_id(), stream);
  return absl::OkStatus();
}

absl::StatusOr<DoubleApi::CapturedGraph> DoubleApi::EndCapture(Stream handle) {
  DoubleStream* const stream = Of(handle);
  MutexLock lock(&mu_);
  ++calls_.captures;
  EBB_CHECK(capturing_.erase(std::this_thread::get_id()) == 1 && stream->capture != nullptr);
  std::unique_ptr<DoubleGraph> graph = std::move(stream->capture);
  EBB_RETURN_IF_ERROR(Alive());
  if (graph->spoiled) return absl::InternalError("the capture was spoiled by another call");
  if (Fails(Fault::kEndCapture)) return absl::InternalError("injected: the capture fails");
  ++calls_.allocations;
  return reinterpret_cast<CapturedGraph>(graph.release());
}

void DoubleApi::Discard(CapturedGraph graph) { delete reinterpret_cast<DoubleGraph*>(graph); }

absl::StatusOr<DoubleApi::ExecutableGraph> DoubleApi::Instantiate(CapturedGraph captured) {
  std::unique_ptr<DoubleGraph> graph(reinterpret_cast<DoubleGraph*>(captured));
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaGraphInstantiate"));
  ++calls_.allocations;
  if (Fails(Fault::kInstantiate)) return absl::ResourceExhaustedError("injected: no graph");
  return reinterpret_cast<ExecutableGraph>(graph.release());
}

absl::Status DoubleApi::LaunchGraph(Stream stream, ExecutableGraph executable) {
  auto* const graph = reinterpret_cast<DoubleGraph*>(executable);
  MutexLock lock(&mu_);
  EBB_RETURN_IF_ERROR(OutsideCapture("cudaGraphLaunch"));
  if (Fails(Fault::kLaunchGraph)) return absl::InternalError("injected: no launch of a graph");
  ++calls_.graph_launches;
  ++graph->unfinished;
  return EnqueueLocked(Of(stream), [graph] {
    for (const std::function<void()>& work : graph->work) work();
    --graph->unfinished;
  });
}

void DoubleApi::DestroyGraph(ExecutableGraph executable) {
  auto* const graph = reinterpret_cast<DoubleGraph*>(executable);
  MutexLock lock(&mu_);
  ++calls_.allocations;
  EBB_CHECK(!dead_.ok() || graph->unfinished == 0);
  delete graph;
}

void DoubleApi::Run(DoubleStream* stream) {
  MutexLock lock(&mu_);
  for (;;) {
    while (!stream->closing && (stream->tasks.empty() || !dying_.ok())) changed_.Wait(&mu_);
    if (stream->closing && (stream->tasks.empty() || !dying_.ok())) return;
    DoubleStream::Task task = std::move(stream->tasks.front());
    stream->tasks.pop_front();
    stream->busy = true;
    if (task.wait != nullptr) {
      while (dying_.ok() && task.wait->complete < task.number) changed_.Wait(&mu_);
    } else if (task.record != nullptr) {
      task.record->complete = std::max(task.record->complete, task.number);
      task.record->at = SteadyClock().Now();
    } else if (Fails(Fault::kStickyWork)) {
      DieLocked("injected: an illegal memory access in a kernel");
    } else {
      ++running_;
      mu_.Unlock();
      task.work();
      mu_.Lock();
      if (--running_ == 0 && !dying_.ok()) dead_ = dying_;
    }
    stream->busy = false;
    changed_.SignalAll();
  }
}

}  // namespace ebb::testing

namespace ebb::device::cuda {

absl::Status EnqueueOnDouble(Stream stream, std::function<void()> work) {
  return reinterpret_cast<testing::DoubleStream*>(stream)->api->Enqueue(stream, std::move(work));
}

LoopOrder OrderOnDouble(Stream stream) {
  return reinterpret_cast<testing::DoubleStream*>(stream)->api->loops();
}

}  // namespace ebb::device::cuda
