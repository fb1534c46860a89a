#include "memory/pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::memory {
namespace {

Bytes RoundDown(Bytes bytes, Bytes granule) {
  return Bytes(bytes.count() / granule.count() * granule.count());
}

std::string Exact(Bytes bytes) {
  return absl::StrCat(FormatBytes(bytes), " (", bytes.count(), " bytes)");
}

}  // namespace

Region::Region(Pool* pool, std::string name, char* base, Bytes capacity)
    : pool_(pool), name_(std::move(name)), base_(base), capacity_(capacity) {}

Region::~Region() {
  if (size_ > Bytes(0)) pool_->source_->Decommit(base_, Bytes(0), size_);
  pool_->used_ -= size_;
  pool_->source_->Unreserve(base_, capacity_);
  std::erase(pool_->regions_, this);
}

absl::Status Region::Resize(Bytes size) {
  EBB_CHECK(size >= Bytes(0));
  size = AlignUp(size, pool_->granule());
  if (size > capacity_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("region '", name_, "': ", Exact(size), " asked for, but its addresses end at ",
                     Exact(capacity_), "; create it with a larger capacity"));
  }
  if (size > size_) {
    const Bytes more = size - size_;
    if (more > pool_->free()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("region '", name_, "': ", Exact(more), " more asked for, but only ",
                       Exact(pool_->free()), " of the pool's ", Exact(pool_->budget()),
                       " are free; stop a job, lower a batch size or give the pool more memory"));
    }
    if (absl::Status status = pool_->source_->Commit(base_, size_, more); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("region '", name_, "': ", status.message()));
    }
    pool_->used_ += more;
  } else if (size < size_) {
    pool_->source_->Decommit(base_, size, size_ - size);
    pool_->used_ -= size_ - size;
  }
  size_ = size;
  return absl::OkStatus();
}

Pool::Pool(GranuleSource* source, Bytes budget)
    : source_(source), budget_(RoundDown(budget, source->granule())) {
  EBB_CHECK(budget >= Bytes(0));
}

Pool::~Pool() { EBB_CHECK(regions_.empty()); }

absl::Status Pool::TakeAll() {
  absl::StatusOr<std::unique_ptr<Region>> all = Create("all", budget_);
  return all.status();
}

absl::StatusOr<std::unique_ptr<Region>> Pool::Create(std::string name, Bytes size, Bytes capacity) {
  EBB_CHECK(size >= Bytes(0));
  if (capacity == Bytes(0)) capacity = std::max(budget_, granule());
  capacity = AlignUp(std::max(capacity, size), granule());
  // Checked before addresses are asked for, so that the answer names the real shortage.
  if (AlignUp(size, granule()) > free()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("region '", name, "': ", Exact(AlignUp(size, granule())),
                     " asked for, but only ", Exact(free()), " of the pool's ", Exact(budget_),
                     " are free; stop a job, lower a batch size or give the pool more memory"));
  }
  absl::StatusOr<char*> base = source_->Reserve(capacity);
  if (!base.ok()) {
    return absl::Status(base.status().code(),
                        absl::StrCat("region '", name, "': ", base.status().message()));
  }
  std::unique_ptr<Region> region(new Region(this, std::move(name), *base, capacity));
  regions_.push_back(region.get());
  if (absl::Status status = region->Resize(size); !status.ok()) return status;
  return region;
}

void Pool::CheckInvariants() const {
  Bytes sum;
  for (const Region* region : regions_) {
    EBB_CHECK(region->size_ >= Bytes(0) && region->size_ <= region->capacity_);
    EBB_CHECK(region->size_.count() % granule().count() == 0);
    sum += region->size_;
  }
  EBB_CHECK(sum == used_);
  EBB_CHECK(used_ <= budget_);
}

}  // namespace ebb::memory
