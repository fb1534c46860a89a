#include "runtime/co_residence.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::runtime {

void CoResidence::Launched(int stream, const LaunchSpan& span, std::vector<JobId> after,
                           Micros now) {
  streams_[stream].outstanding.push_back({span, std::move(after), now});
  last_end_.try_emplace(span.job);
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

void CoResidence::Completed(int index, Micros start, Micros end) {
  Stream& stream = streams_[index];
  EBB_CHECK(!stream.outstanding.empty());
  Pending pending = std::move(stream.outstanding.front());
  stream.outstanding.pop_front();
  // Time that has been told of stays told.
  const Micros begin = std::max(BeginOf(stream, pending, start, end), settled_until_);
  end = std::max(end, begin + Micros(1));
  stream.last_end = end;
  if (const auto it = last_end_.find(pending.span.job); it != last_end_.end()) it->second = end;
  newest_ = std::max(newest_, end);
  auto span = std::make_shared<LaunchSpan>(pending.span);
  span->micros = static_cast<double>((end - begin).count());
  edges_.emplace(std::pair(begin, Edge::kBegin), span);
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
    std::erase(running_, span);
    watcher_->Ended(*span);
  }
  Pass(horizon);
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
  watcher_->Ran(view_, micros);
}

}  // namespace ebb::runtime
