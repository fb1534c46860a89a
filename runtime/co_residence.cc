#include "runtime/co_residence.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::runtime {

void CoResidence::Launched(int index, const LaunchSpan& span, std::vector<JobId> after,
                           const LaunchWaits& waits, Micros now) {
  Pending pending;
  pending.span = span;
  pending.after = std::move(after);
  pending.launched = now;
  const auto add = [&](memory::LaunchSeq seq, Ends* ends) {
    if (End end = EndOf(seq)) ends->push_back(std::move(end));
  };
  if (waits.memory) add(*waits.memory, &pending.needed);
  if (waits.data) add(*waits.data, &pending.needed);
  for (const memory::LaunchSeq seq : waits.apart) add(seq, &pending.apart);
  streams_[index].outstanding.push_back(std::move(pending));
  last_end_.try_emplace(span.job);
}

CoResidence::End CoResidence::EndOf(memory::LaunchSeq seq) {
  for (Stream& stream : streams_) {
    for (Pending& pending : stream.outstanding) {
      if (pending.span.seq != seq) continue;
      if (pending.end == nullptr) pending.end = std::make_shared<std::optional<Micros>>();
      return pending.end;
    }
  }
  return nullptr;
}

Micros CoResidence::BeginOf(const Stream& stream, const Pending& pending, Micros start,
                            Micros end) const {
  Micros begin = std::min(std::max(stream.last_end, pending.launched), start);
  for (const JobId job : pending.after) {
    const auto it = last_end_.find(job);
    if (it != last_end_.end() && it->second < end) begin = std::max(begin, it->second);
  }
  return begin;
}

void CoResidence::Completed(int index, Micros start, Micros end, Micros copied) {
  Stream& stream = streams_[index];
  EBB_CHECK(!stream.outstanding.empty());
  Pending pending = std::move(stream.outstanding.front());
  stream.outstanding.pop_front();
  // Of those that are not reported yet the device knows: then the work began when it began.
  const auto after = [&](const Ends& ends, Micros begin) {
    for (const End& other : ends) begin = std::max(begin, std::min(other->value_or(start), end));
    return begin;
  };
  const Micros free = after(pending.needed, BeginOf(stream, pending, start, end));
  // Time that has been told of stays told.
  const Micros begin = std::max(after(pending.apart, free), settled_until_);
  end = std::max(end, begin + Micros(1));
  stream.last_end = end;
  if (pending.end != nullptr) *pending.end = end;
  if (const auto it = last_end_.find(pending.span.job); it != last_end_.end()) it->second = end;
  newest_ = std::max(newest_, end);
  auto span = std::make_shared<LaunchSpan>(pending.span);
  span->micros = static_cast<double>((end - begin).count());
  span->waited = pending.apart.empty() ? 0 : static_cast<double>((begin - free).count());
  edges_.emplace(std::pair(begin, Edge::kBegin), span);
  edges_.emplace(std::pair(std::clamp(copied, begin, end - Micros(1)), Edge::kCopied), span);
  edges_.emplace(std::pair(end, Edge::kEnd), span);
  Settle();
}

// No launch still to be reported begins earlier.
Micros CoResidence::Horizon() const {
  Micros horizon = newest_;
  for (const Stream& stream : streams_) {
    if (stream.outstanding.empty()) continue;
    horizon = std::min(horizon, std::max(stream.last_end, stream.outstanding.front().launched));
  }
  return std::max(horizon, settled_until_);
}

void CoResidence::Settle() {
  const Micros horizon = Horizon();
  while (!edges_.empty() && edges_.begin()->first.first <= horizon) {
    const auto [time, edge] = edges_.begin()->first;
    const std::shared_ptr<LaunchSpan> span = std::move(edges_.begin()->second);
    edges_.erase(edges_.begin());
    Pass(time);
    if (edge == Edge::kBegin) {
      running_.push_back(span);
      continue;
    }
    if (edge == Edge::kCopied) {
      span->copied = true;
      continue;
    }
    std::erase(running_, span);
    watcher_->Ended(*span);
  }
  Pass(horizon);
}

void CoResidence::Meet(LaunchSpan& span, const LaunchSpan& other, double micros) {
  for (LaunchSpan::Meeting& meeting : span.met) {
    if (meeting.with == other.ref()) {
      meeting.micros += micros;
      return;
    }
  }
  span.met.push_back({other.ref(), micros});
}

// Of launches whose kernels execute.
void CoResidence::CountMeetings(double micros) {
  absl::InlinedVector<LaunchSpan*, 4> spans;
  for (const auto& span : running_) {
    if (span->copied) spans.push_back(span.get());
  }
  if (spans.size() == 1) spans[0]->alone += micros;
  if (spans.size() == 2) {
    Meet(*spans[0], *spans[1], micros);
    Meet(*spans[1], *spans[0], micros);
  }
  if (spans.size() > 2) {
    for (LaunchSpan* span : spans) span->crowded += micros;
  }
}

void CoResidence::Pass(Micros until) {
  const auto micros = static_cast<double>((until - settled_until_).count());
  settled_until_ = until;
  if (micros <= 0 || running_.empty()) return;
  view_.clear();
  for (const auto& span : running_) {
    const bool twice = std::any_of(view_.begin(), view_.end(), [&](const LaunchSpan* other) {
      return other->job == span->job;
    });
    if (twice) return;  // stamps that touch; a job runs one launch at a time
    view_.push_back(span.get());
  }
  if (running_.size() > 1) {
    for (const auto& span : running_) span->shared = true;
  }
  CountMeetings(micros);
  watcher_->Ran(view_, micros);
}

}  // namespace ebb::runtime
