#include "device/sim/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace ebb::device {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

absl::string_view Name(OverlapModel model) {
  return model == OverlapModel::kSlots ? "slots" : "vector";
}

Micros Timeline::Stamp(double time) { return Micros(std::llround(time)); }

Timeline::Timeline(const SimProfile& profile, OverlapModel overlap)
    : profile_(profile), overlap_(overlap) {}

void Timeline::AddStream(StreamId stream) {
  EBB_CHECK(streams_.emplace(stream, std::make_unique<Stream>()).second);
}

void Timeline::RemoveStream(StreamId stream) {
  EBB_CHECK(Idle(stream));
  streams_.erase(stream);
}

bool Timeline::Idle(StreamId stream) const { return streams_.at(stream)->items.empty(); }

// --- enqueuing -----------------------------------------------------------------------------------

void Timeline::Launch(StreamId id, absl::Span<const KernelCost> kernels, StepStart step) {
  Stream& stream = Get(id);
  const auto real = std::count_if(kernels.begin(), kernels.end(),
                                  [](const KernelCost& kernel) { return kernel.micros > 0; });
  double host = std::max(now_, stream.host_free) + profile_.admission_us;
  if (step == StepStart::kYes) host += profile_.step_us;
  stream.host_free = host + static_cast<double>(real) * profile_.launch_us;
  stream.items.emplace_back(Kernels{
      .costs = kernels, .launched = host + profile_.launch_us, .launch_us = profile_.launch_us});
}

void Timeline::Kernel(StreamId id, const KernelCost& kernel) {
  Kernels& item = std::get<Kernels>(Get(id).items.emplace_back(Kernels{.own = kernel}));
  item.costs = {&item.own, 1};  // a deque's elements stay where they are
}

void Timeline::Copy(StreamId id, BusDirection direction, double micros) {
  Get(id).items.emplace_back(BusCopy{direction, micros});
}

Timeline::Event Timeline::Record(StreamId id) {
  auto event = std::make_shared<EventState>();
  Get(id).items.emplace_back(RecordItem{event});
  ++records_;
  return event;
}

void Timeline::Wait(StreamId id, Event event) {
  if (!event->complete) Get(id).items.emplace_back(WaitItem{std::move(event)});
}

// --- what happens at one instant -----------------------------------------------------------------

void Timeline::Complete(Stream& stream, EventState& event) {
  event.start = Stamp(stream.worked ? stream.start : now_);
  event.end = Stamp(stream.worked ? stream.end : now_);
  event.complete = true;
  stream.worked = false;
  ++completed_;
}

void Timeline::BeginWork(Stream& stream) {
  if (!std::exchange(stream.worked, true)) stream.start = now_;
}

void Timeline::EndWork(Stream& stream) {
  stream.end = now_;
  stream.head = Stream::Head::kStill;
}

bool Timeline::BeginKernel(Stream& stream, Kernels& kernels) {
  while (kernels.next < kernels.costs.size() && kernels.costs[kernels.next].micros == 0) {
    ++kernels.next;
  }
  if (kernels.next == kernels.costs.size()) {
    stream.items.pop_front();
    return true;
  }
  stream.not_before = std::max(kernels.launched, stream.gap_until);
  if (stream.not_before > now_) return false;
  stream.kernel = kernels.costs[kernels.next++];
  stream.left = stream.kernel.micros;
  stream.head = Stream::Head::kKernel;
  kernels.launched += kernels.launch_us;
  BeginWork(stream);
  return true;
}

bool Timeline::Begin(Stream& stream) {
  if (stream.items.empty() || stream.head != Stream::Head::kStill) return false;
  Item& item = stream.items.front();
  if (auto* kernels = std::get_if<Kernels>(&item)) return BeginKernel(stream, *kernels);
  if (auto* copy = std::get_if<BusCopy>(&item)) {
    Engine& engine = engines_[static_cast<size_t>(copy->direction)];
    stream.head = Stream::Head::kCopy;
    engine.queue.push_back(&stream);
    if (engine.queue.size() == 1) {
      engine.end = now_ + copy->micros;
      BeginWork(stream);
    }
    return true;
  }
  if (auto* record = std::get_if<RecordItem>(&item)) {
    Complete(stream, *record->event);
  } else if (!std::get<WaitItem>(item).event->complete) {
    return false;
  }
  stream.items.pop_front();
  return true;
}

void Timeline::Settle() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [id, stream] : streams_) {
      while (Begin(*stream)) changed = true;
    }
  }
}

// --- time ----------------------------------------------------------------------------------------

double Timeline::SharedRate() const {
  double slots = 0, flops = 0, bandwidth = 0;
  int running = 0;
  for (const auto& [id, stream] : streams_) {
    if (stream->head != Stream::Head::kKernel) continue;
    slots += stream->kernel.slots;
    flops += stream->kernel.flops;
    bandwidth += stream->kernel.bandwidth;
    ++running;
  }
  const double crowd = std::max({1.0, overlap_ == OverlapModel::kSlots ? slots : flops, bandwidth});
  return 1 / (crowd * (1 + profile_.interference * std::max(0, running - 1)));
}

bool Timeline::Step() {
  const double rate = SharedRate();
  const auto kernel_end = [&](const Stream& stream) { return now_ + stream.left / rate; };
  const auto starts_later = [](const Stream& stream) {
    return stream.head == Stream::Head::kStill && !stream.items.empty() &&
           std::holds_alternative<Kernels>(stream.items.front());
  };
  double next = kNever;
  for (const auto& [id, stream] : streams_) {
    if (stream->head == Stream::Head::kKernel) next = std::min(next, kernel_end(*stream));
    if (starts_later(*stream)) next = std::min(next, stream->not_before);
  }
  for (const Engine& engine : engines_) {
    if (!engine.queue.empty()) next = std::min(next, engine.end);
  }
  if (next == kNever) return false;
  for (auto& [id, stream] : streams_) {
    if (stream->head != Stream::Head::kKernel) continue;
    const bool done = kernel_end(*stream) <= next;
    stream->left = done ? 0 : stream->left - (next - now_) * rate;
  }
  now_ = next;
  for (auto& [id, stream] : streams_) {
    if (stream->head != Stream::Head::kKernel || stream->left > 0) continue;
    EndWork(*stream);
    stream->gap_until = now_ + profile_.kernel_gap_us;
  }
  for (Engine& engine : engines_) {
    if (engine.queue.empty() || engine.end > now_) continue;
    Stream& done = *engine.queue.front();
    engine.queue.pop_front();
    EndWork(done);
    done.items.pop_front();
    if (engine.queue.empty()) continue;
    Stream& begun = *engine.queue.front();
    engine.end = now_ + std::get<BusCopy>(begun.items.front()).micros;
    BeginWork(begun);
  }
  return true;
}

bool Timeline::Advance() {
  const int64_t before = completed_;
  Settle();
  return completed_ > before || Step();
}

}  // namespace ebb::device
