// The mutex of the project: absl::Mutex with thread-safety annotations, or std::mutex in a
// thread-sanitizer build, which cannot see into the distribution's Abseil.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#ifdef EBB_TSAN
#include <chrono>
#include <condition_variable>
#include <mutex>
#else
#include "absl/synchronization/mutex.h"
#endif

namespace ebb {

#ifdef EBB_TSAN

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class CondVar {
 public:
  void Wait(Mutex* mu) { cv_.wait(mu->mu_); }
  // True if it timed out.
  bool WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
    if (timeout >= absl::Hours(24)) return cv_.wait(mu->mu_), false;
    return cv_.wait_until(mu->mu_,
                          std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout)) ==
           std::cv_status::timeout;
  }
  void Signal() { cv_.notify_one(); }
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable_any cv_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mu_;
};

#else

using Mutex = absl::Mutex;
using CondVar = absl::CondVar;
using MutexLock = absl::MutexLock;

#endif

}  // namespace ebb
