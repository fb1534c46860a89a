// The pool: all device memory that Ebb owns, a budget of granules. Regions are taken from it: one
// for each job's resident state, one for each lane. Thread rule: one owner thread (the engine).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "memory/granules.h"

namespace ebb::memory {

class Pool;

// A range of addresses that never moves, with `size()` bytes of memory from its base.
class Region {
 public:
  ~Region();  // gives its memory back to the pool
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  const std::string& name() const { return name_; }
  char* base() const { return base_; }
  Bytes size() const { return size_; }          // committed, a multiple of the granule
  Bytes capacity() const { return capacity_; }  // addresses reserved
  // Grows or shrinks at the end; the base stays. kResourceExhausted leaves it as it was.
  absl::Status Resize(Bytes size);

 private:
  friend class Pool;
  Region(Pool* pool, std::string name, char* base, Bytes capacity);
  Pool* pool_;
  std::string name_;
  char* base_;
  Bytes size_;
  Bytes capacity_;
};

class Pool {
 public:
  // `budget` is rounded down to granules. `source` must outlive the pool.
  Pool(GranuleSource* source, Bytes budget);
  ~Pool();  // all regions must be gone
  // A region of `size` bytes (rounded up to granules) that can grow to `capacity` (>= size;
  // default: the budget). kResourceExhausted says how much is asked for and how much is free.
  absl::StatusOr<std::unique_ptr<Region>> Create(std::string name, Bytes size,
                                                 Bytes capacity = Bytes(0));
  // Has all of the budget's memory once, for sources that keep what they have had: no change of a
  // region can fail for want of it later. kResourceExhausted says what there is.
  absl::Status TakeAll();
  Bytes budget() const { return budget_; }
  Bytes used() const { return used_; }
  Bytes free() const { return budget_ - used_; }
  Bytes granule() const { return source_->granule(); }
  // sum of the regions' sizes == used() <= budget(). Checked after every change in tests.
  void CheckInvariants() const;

 private:
  friend class Region;
  GranuleSource* source_;
  Bytes budget_;
  Bytes used_;
  std::vector<Region*> regions_;
};

}  // namespace ebb::memory
