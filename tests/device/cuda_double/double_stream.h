// What stands behind the double's handles. All of it is guarded by the lock of its DoubleApi.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/device/cuda_double/double_api.h"

namespace ebb::testing {

struct DoubleEvent {
  int64_t recorded = 0;  // calls
  int64_t complete = 0;  // the newest call that is
  Micros at;             // when
};

struct DoubleGraph {
  std::vector<std::function<void()>> work;
  bool spoiled = false;
  std::atomic<int> unfinished{0};  // launches
};

struct DoubleStream {
  struct Task {  // one of these
    std::function<void()> work;
    std::shared_ptr<DoubleEvent> record;
    std::shared_ptr<DoubleEvent> wait;
    int64_t number = 0;  // of the event's recording
  };
  DoubleApi* api = nullptr;
  std::thread thread;
  std::deque<Task> tasks;
  bool busy = false;
  bool closing = false;
  std::unique_ptr<DoubleGraph> capture;
};

}  // namespace ebb::testing
