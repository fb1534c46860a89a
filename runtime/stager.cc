#include "runtime/stager.h"

#include <utility>

namespace ebb::runtime {

Stager::Stager() : thread_([this] { Run(); }) {}

Stager::~Stager() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void Stager::Stage(StageRequest request) {
  MutexLock lock(&mu_);
  queue_.push_back(std::move(request));
  changed_.Signal();
}

void Stager::Run() {
  for (;;) {
    StageRequest request;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !stopping_) changed_.Wait(&mu_);
      if (stopping_) return;
      request = std::move(queue_.front());
      queue_.pop_front();
    }
    if (request.cache->epoch != request.epoch) {
      request.cache->order =
          data::EpochOrder(*request.source, request.epoch, std::move(request.cache->order));
      request.cache->epoch = request.epoch;
    }
    absl::StatusOr<int64_t> valid = data::FillBatch(*request.source, request.cache->order,
                                                    {request.epoch, request.batch}, request.out);
    if (valid.ok() && request.valid != nullptr) *request.valid = *valid;
    request.done(std::move(valid));
  }
}

}  // namespace ebb::runtime
