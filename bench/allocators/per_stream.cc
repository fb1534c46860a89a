#include <map>
#include <set>
#include <utility>

#include "bench/allocators/allocators.h"

namespace ebb::bench {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSmall = kMiB;  // the most that a small block holds

class PerStream final : public ReplayAllocator {
 public:
  Handle Allocate(const TraceBuffer& buffer) override {
    const int64_t bytes = AlignUp(buffer.bytes, Bytes(512)).count();
    const bool small = bytes <= kSmall;
    Holes& holes = holes_[{buffer.job, small}];
    auto it = holes.lower_bound({bytes, 0});
    if (it == holes.end()) it = holes.insert(NewSegment(bytes, &holes)).first;
    const int64_t at = it->second;
    holes.erase(it);
    Block& block = blocks_.at(at);
    block.free = false;
    const int64_t rest = block.bytes - bytes;
    if (small ? rest >= 512 : rest > kSmall) {
      block.bytes = bytes;
      blocks_.emplace(at + bytes, Block{rest, block.segment, true, &holes});
      holes.emplace(rest, at + bytes);
    }
    return at;
  }

  void Free(Handle handle) override {
    auto it = blocks_.find(handle);
    it->second.free = true;
    Holes& holes = *it->second.holes;
    const auto next = std::next(it);
    if (next != blocks_.end() && Joins(it->second, next->second)) {
      holes.erase({next->second.bytes, next->first});
      it->second.bytes += next->second.bytes;
      blocks_.erase(next);
    }
    if (it != blocks_.begin()) {
      const auto before = std::prev(it);
      if (Joins(it->second, before->second)) {
        holes.erase({before->second.bytes, before->first});
        before->second.bytes += it->second.bytes;
        blocks_.erase(it);
        it = before;
      }
    }
    holes.emplace(it->second.bytes, it->first);
  }

  Bytes peak() const override { return Bytes(reserved_); }

 private:
  using Holes = std::set<std::pair<int64_t, int64_t>>;  // (bytes, address)
  struct Block {
    int64_t bytes = 0;
    int segment = 0;
    bool free = false;
    Holes* holes = nullptr;  // of its stream and size
  };

  static bool Joins(const Block& block, const Block& other) {
    return other.free && other.segment == block.segment;
  }
  std::pair<int64_t, int64_t> NewSegment(int64_t bytes, Holes* holes) {
    int64_t size = AlignUp(Bytes(bytes), Bytes(2 * kMiB)).count();
    if (bytes <= kSmall) {
      size = 2 * kMiB;
    } else if (bytes < 10 * kMiB) {
      size = 20 * kMiB;
    }
    const int64_t at = reserved_;
    reserved_ += size;  // kept, so that the sum is the peak
    blocks_.emplace(at, Block{size, segments_++, true, holes});
    return {size, at};
  }

  int64_t reserved_ = 0;
  int segments_ = 0;
  std::map<std::pair<int, bool>, Holes> holes_;  // by stream and size
  std::map<int64_t, Block> blocks_;              // by address
};

}  // namespace

std::unique_ptr<ReplayAllocator> MakePerStream() { return std::make_unique<PerStream>(); }

}  // namespace ebb::bench
