// The loader: one thread that writes batches into staging slots ahead of the steps that read them.
// Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "data/dataset.h"

namespace ebb::runtime {

// The row order of the newest epoch that was asked for; touched by the loader's thread only.
struct EpochCache {
  int64_t epoch = -1;
  std::vector<int64_t> order;
};

struct StageRequest {
  const data::BatchSource* source = nullptr;
  std::shared_ptr<const data::BatchSource> fed;  // what `source` is, where the client pushes it
  std::shared_ptr<EpochCache> cache;
  int64_t epoch = 0;
  int64_t batch = 0;
  std::vector<void*> out;    // one a binding
  int64_t* valid = nullptr;  // where "ebb.valid" is staged, or null
  // Called on the loader's thread when the slot is full, with the number of valid rows, or with why
  // its rows cannot be read. The request's memory must live until then.
  std::function<void(absl::StatusOr<int64_t>)> done;
};

class Stager {
 public:
  Stager();
  ~Stager();  // finishes what it has begun, drops the rest without calling `done`
  // Requests are served in order.
  void Stage(StageRequest request);

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  std::deque<StageRequest> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ebb::runtime
