#include "runtime/metric_log.h"

#include <iterator>
#include <utility>

namespace ebb::runtime {
namespace {

constexpr size_t kBlock = 32;  // points
static_assert(kBlock * sizeof(MetricPoint) <= 4096);

}  // namespace

void MetricLog::Add(MetricPoint point) {
  if (size_ % kBlock == 0) blocks_.emplace_back().reserve(kBlock);
  blocks_.back().push_back(std::move(point));
  ++size_;
}

std::vector<MetricPoint> MetricLog::From(size_t from) const {
  std::vector<MetricPoint> points;
  if (from >= size_) return points;
  points.reserve(size_ - from);
  // From the end, since readers follow a job: they want the newest.
  const size_t last = (size_ - 1) / kBlock;
  auto block = std::prev(blocks_.end(), static_cast<ptrdiff_t>(last - from / kBlock + 1));
  for (size_t skip = from % kBlock; block != blocks_.end(); ++block, skip = 0) {
    points.insert(points.end(), block->begin() + static_cast<ptrdiff_t>(skip), block->end());
  }
  return points;
}

}  // namespace ebb::runtime
