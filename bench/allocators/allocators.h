// Allocators to replay a trace through: what others do where Ebb has a plan. Each has addresses
// without end and counts how many it needs. No device: only the bookkeeping. Thread rule: one owner
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/allocators/trace.h"

namespace ebb::bench {

class ReplayAllocator {
 public:
  virtual ~ReplayAllocator() = default;
  using Handle = int64_t;
  virtual Handle Allocate(const TraceBuffer& buffer) = 0;
  virtual void Free(Handle handle) = 0;
  // The most it has needed so far.
  virtual Bytes peak() const = 0;
};

// One arena for all streams; the smallest hole that fits, at once joined with its neighbours when
// it is freed. Holes are always cut to size.
std::unique_ptr<ReplayAllocator> MakeBestFit();

// As above, with the rules of TensorFlow's BFC allocator: 21 bins of doubling size, and a hole is
// cut only if it has twice the bytes asked for or 128 MiB would be lost.
std::unique_ptr<ReplayAllocator> MakeBfc();

// The rules of PyTorch's caching allocator: blocks belong to the stream they were made for. Up to
// 1 MiB come from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, more from segments of
// their own size; segments are cut, joined again, and kept.
std::unique_ptr<ReplayAllocator> MakePerStream();

// Blocks of one size, each for one launch's buffers that outlive it or one launch's others, filled
// from its start; a block is free again when all that is in it has died. A buffer that is larger
// takes as many blocks as it needs.
std::unique_ptr<ReplayAllocator> MakeBlocks(Bytes block);

}  // namespace ebb::bench
