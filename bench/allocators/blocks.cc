#include <algorithm>
#include <map>

#include "bench/allocators/allocators.h"

namespace ebb::bench {
namespace {

class Blocks final : public ReplayAllocator {
 public:
  explicit Blocks(Bytes block) : size_(block.count()) {}

  Handle Allocate(const TraceBuffer& buffer) override {
    const int64_t bytes = buffer.bytes.count();
    if (bytes >= size_) return Take((bytes + size_ - 1) / size_, bytes);
    // What a launch's buffers fill; the next launch of the job begins a block of its own.
    Open& open = open_[buffer.job * 2 + (buffer.outlives ? 1 : 0)];
    if (open.block < 0 || open.launch != buffer.launch ||
        blocks_[open.block].filled + bytes > size_) {
      open = {Take(1, bytes), buffer.launch};
      blocks_[open.block].open = &open;
      return open.block;
    }
    Block& block = blocks_[open.block];
    block.filled += bytes;
    ++block.live;
    return open.block;
  }

  void Free(Handle handle) override {
    Block& block = blocks_[handle];
    if (--block.live > 0) return;
    if (block.open != nullptr && block.open->block == handle) block.open->block = -1;
    in_use_ -= block.count;
    free_.push_back(handle);
  }

  Bytes peak() const override { return Bytes(peak_ * size_); }

 private:
  struct Open {
    Handle block = -1;
    int launch = -1;
  };
  struct Block {
    int64_t count = 0;     // of blocks that it is made of
    int64_t filled = 0;    // bytes from its start
    int live = 0;          // buffers in it
    Open* open = nullptr;  // where it was filled
  };

  Handle Take(int64_t count, int64_t filled) {
    Handle handle = static_cast<Handle>(blocks_.size());
    if (free_.empty()) {
      blocks_.emplace_back();
    } else {
      handle = free_.back();
      free_.pop_back();
    }
    blocks_[handle] = {.count = count, .filled = filled, .live = 1};
    in_use_ += count;
    peak_ = std::max(peak_, in_use_);
    return handle;
  }

  const int64_t size_;
  int64_t in_use_ = 0, peak_ = 0;
  std::vector<Block> blocks_;
  std::vector<Handle> free_;
  std::map<int, Open> open_;  // by job, and whether its buffers outlive their launch
};

}  // namespace

std::unique_ptr<ReplayAllocator> MakeBlocks(Bytes block) { return std::make_unique<Blocks>(block); }

}  // namespace ebb::bench
