// CUDA graphs of launches that come again: what was enqueued once is captured, and replayed with
// one call from then on. A graph has its pointers in it, so the key is all of them. Thread-safe.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "device/cuda/api.h"

namespace ebb::device::cuda {

// How far a stream has come: launches are numbered in the order of their enqueuing.
struct StreamProgress {
  std::atomic<int64_t> complete{0};  // launches up to this number are
};

class GraphCache {
 public:
  using Key = absl::Span<const void* const>;

  // Keeps `capacity` graphs, those used last.
  GraphCache(std::shared_ptr<Api> api, int capacity) : api_(std::move(api)), capacity_(capacity) {}
  ~GraphCache();  // all launches must be complete
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Does on `stream` what `enqueue` does: calls it, or replays what it did for the same key. The
  // first time it is called plainly, since it may never come again; the second time it is captured.
  // What cannot be captured is enqueued plainly for ever. `launch` is the number of this launch on
  // the stream, whose calls must come one after another; a key must belong to one stream.
  absl::Status Run(Stream stream, Key key, int64_t launch,
                   const std::shared_ptr<StreamProgress>& progress,
                   absl::FunctionRef<absl::Status()> enqueue);

  int graphs() const;   // that are ready
  int retired() const;  // no longer kept, but not known to be complete

 private:
  struct Entry {
    std::vector<const void*> key;
    ExecutableGraph graph = nullptr;
    bool plain = false;  // cannot be captured
    // Its last launch.
    std::shared_ptr<StreamProgress> progress;
    int64_t launch = 0;

    bool Complete() const { return progress == nullptr || progress->complete >= launch; }
  };
  using Entries = std::list<Entry>;

  Entry* Find(Key key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Add(Key key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DestroyRetired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<ExecutableGraph> Capture(Stream stream, absl::FunctionRef<absl::Status()> enqueue);

  const std::shared_ptr<Api> api_;
  const int capacity_;
  mutable Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);  // the one used last is first
  absl::flat_hash_map<Key, Entries::iterator> index_ ABSL_GUARDED_BY(mu_);
  Entries retired_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::device::cuda
