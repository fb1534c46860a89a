#include "device/cuda/graph_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace ebb::device::cuda {

GraphCache::~GraphCache() {
  for (Entries* entries : {&entries_, &retired_}) {
    for (const Entry& entry : *entries) {
      if (entry.graph != nullptr) api_->DestroyGraph(entry.graph);
    }
  }
}

GraphCache::Entry* GraphCache::Find(Key key) {
  const auto it = index_.find(key);
  if (it == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return &entries_.front();
}

void GraphCache::Add(Key key) {
  if (static_cast<int>(entries_.size()) >= capacity_) {
    const auto last = std::prev(entries_.end());
    index_.erase(Key(last->key));
    retired_.splice(retired_.end(), entries_, last);
  }
  entries_.emplace_front();
  entries_.front().key.assign(key.begin(), key.end());
  index_.emplace(Key(entries_.front().key), entries_.begin());
}

void GraphCache::DestroyRetired() {
  for (auto it = retired_.begin(); it != retired_.end();) {
    if (it->graph != nullptr && !it->Complete()) {
      ++it;
      continue;
    }
    if (it->graph != nullptr) api_->DestroyGraph(it->graph);
    it = retired_.erase(it);
  }
}

absl::StatusOr<ExecutableGraph> GraphCache::Capture(Stream stream,
                                                    absl::FunctionRef<absl::Status()> enqueue) {
  EBB_RETURN_IF_ERROR(api_->BeginCapture(stream));
  const absl::Status enqueued = enqueue();
  absl::StatusOr<CapturedGraph> captured = api_->EndCapture(stream);  // in any case
  if (!enqueued.ok()) {
    if (captured.ok()) api_->Discard(*captured);
    return enqueued;
  }
  if (!captured.ok()) return captured.status();
  return api_->Instantiate(*captured);
}

absl::Status GraphCache::Run(Stream stream, Key key, int64_t launch,
                             const std::shared_ptr<StreamProgress>& progress,
                             absl::FunctionRef<absl::Status()> enqueue) {
  ExecutableGraph graph = nullptr;
  bool plain = true;
  // The graph is in use from here on, so that nobody destroys it.
  const auto use = [&](Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    entry.progress = progress;
    entry.launch = launch;
    graph = entry.graph;
    plain = entry.plain;
  };
  {
    MutexLock lock(&mu_);
    DestroyRetired();
    if (Entry* const entry = Find(key)) {
      use(*entry);
    } else {
      Add(key);
    }
  }
  if (plain) return enqueue();
  if (graph == nullptr) {
    const absl::StatusOr<ExecutableGraph> made = Capture(stream, enqueue);
    if (IsSticky(made.status())) return made.status();
    MutexLock lock(&mu_);
    Entry* entry = Find(key);
    if (entry == nullptr) {  // others have come in between
      Add(key);
      entry = &entries_.front();
    }
    entry->plain = !made.ok();
    entry->graph = made.value_or(nullptr);
    use(*entry);
  }
  if (plain) return enqueue();
  const absl::Status launched = api_->LaunchGraph(stream, graph);
  if (launched.ok() || IsSticky(launched)) return launched;
  {
    MutexLock lock(&mu_);
    if (Entry* const entry = Find(key)) entry->plain = true;
  }
  return enqueue();
}

int GraphCache::graphs() const {
  MutexLock lock(&mu_);
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(),
                                        [](const Entry& e) { return e.graph != nullptr; }));
}

int GraphCache::retired() const {
  MutexLock lock(&mu_);
  return static_cast<int>(retired_.size());
}

}  // namespace ebb::device::cuda
