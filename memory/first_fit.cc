#include "memory/first_fit.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace ebb::memory {
namespace {

int LifeOf(const LiveRange& range) { return range.last - range.first + 1; }

}  // namespace

int FirstFit::WindowFor(absl::Span<const LiveRange> ranges, int num_steps) {
  std::vector<int> lives;
  for (const LiveRange& range : ranges) lives.push_back(LifeOf(range));
  std::sort(lives.begin(), lives.end());
  const auto n = static_cast<double>(ranges.size());
  double least = n * n;  // one window for all
  int best = std::max(1, num_steps);
  for (int window = 1; window < num_steps; window *= 2) {
    const auto shorts =
        static_cast<double>(std::upper_bound(lives.begin(), lives.end(), window) - lives.begin());
    // A range no longer than a window touches two of them at most, and so do those that it finds.
    const double met = std::min(1.0, 3.0 * window / num_steps) * shorts;
    const double cost = shorts * (met + (n - shorts)) + 2 * (n - shorts) * n;
    if (cost >= least) continue;
    least = cost;
    best = window;
  }
  return best;
}

FirstFit::FirstFit(int num_steps, int window)
    : window_(window), short_(static_cast<size_t>(num_steps / window + 1)) {
  EBB_CHECK(window >= 1);
}

// Merges the shelves until there is a gap.
Bytes FirstFit::LowestAmong(absl::Span<const Shelf* const> shelves, const LiveRange& range,
                            Bytes bytes) {
  constexpr size_t kMost = 3;
  EBB_CHECK(shelves.size() <= kMost);
  const Placed* next[kMost];
  const Placed* end[kMost];
  for (size_t s = 0; s < shelves.size(); ++s) {
    next[s] = shelves[s]->data();
    end[s] = next[s] + shelves[s]->size();
  }
  Bytes at;
  const auto done = [&] {
    for (size_t s = 0; s < shelves.size(); ++s) looked_at_ += next[s] - shelves[s]->data();
    return at;
  };
  while (true) {
    const Placed** lowest = nullptr;
    for (size_t s = 0; s < shelves.size(); ++s) {
      while (next[s] != end[s] &&
             (next[s]->end <= at || next[s]->first > range.last || next[s]->last < range.first)) {
        ++next[s];
      }
      if (next[s] != end[s] && (lowest == nullptr || *next[s] < **lowest)) lowest = &next[s];
    }
    if (lowest == nullptr || at + bytes <= (*lowest)->offset) return done();
    at = (*lowest)->end;
  }
}

const FirstFit::Shelf& FirstFit::All() {
  if (pending_.empty()) return all_;
  looked_at_ += static_cast<int64_t>(all_.size() + pending_.size());
  std::sort(pending_.begin(), pending_.end());
  Shelf merged;
  merged.reserve(all_.size() + pending_.size());
  std::merge(all_.begin(), all_.end(), pending_.begin(), pending_.end(),
             std::back_inserter(merged));
  all_ = std::move(merged);
  pending_.clear();
  return all_;
}

Bytes FirstFit::Place(const LiveRange& range, Bytes bytes) {
  EBB_CHECK(bytes > Bytes(0));
  const auto insert = [](const Placed& placed, Shelf* shelf) {
    shelf->insert(std::upper_bound(shelf->begin(), shelf->end(), placed), placed);
  };
  const auto place = [&](absl::Span<const Shelf* const> shelves) {
    const Bytes at = LowestAmong(shelves, range, bytes);
    return Placed{at, at + bytes, range.first, range.last};
  };
  Placed placed;
  if (LifeOf(range) > window_) {
    placed = place({&All()});
    insert(placed, &long_);
  } else {
    Shelf& first = short_[static_cast<size_t>(range.first / window_)];
    Shelf& last = short_[static_cast<size_t>(range.last / window_)];
    if (&first == &last) {
      placed = place({&first, &long_});
    } else {
      placed = place({&first, &last, &long_});
      insert(placed, &last);
    }
    insert(placed, &first);
  }
  pending_.push_back(placed);
  return placed.offset;
}

}  // namespace ebb::memory
