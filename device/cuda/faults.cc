#include "device/cuda/faults.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::device::cuda {
namespace {

constexpr int64_t kSlotBytes = 64;  // a line each
constexpr Bytes kHostBlock = KiB(64);
static_assert(sizeof(FaultSlot) <= kSlotBytes);

bool IsWhole(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

std::string Describe(const FaultSlot& fault) {
  switch (fault.code) {
    case kIndexOutOfRange:
      return absl::StrCat("index ", fault.value, " is not below ", fault.limit);
    case kLabelOutOfRange:
      return absl::StrCat("label ", fault.value, " is none of the ", fault.limit, " classes");
    default:
      return absl::StrCat("fault ", fault.code, " of value ", fault.value, ", limit ", fault.limit);
  }
}

}  // namespace

bool MayFault(const Graph& graph, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id.valid() && IsWhole(graph.value(id).type.dtype); });
}

absl::StatusOr<std::unique_ptr<Faults>> Faults::Make(std::shared_ptr<Api> api, Stream stream) {
  const Bytes granule = api->granule();
  EBB_ASSIGN_OR_RETURN(char* const slots, api->Reserve(granule));
  if (absl::Status status = api->Map(slots, granule); !status.ok()) {
    api->Unreserve(slots, granule);
    return status;
  }
  std::unique_ptr<Faults> faults(new Faults(api, slots));
  EBB_RETURN_IF_ERROR(api->Fill(stream, slots, 0, granule));
  EBB_RETURN_IF_ERROR(api->Synchronize(stream));
  return faults;
}

Faults::Faults(std::shared_ptr<Api> api, char* slots)
    : api_(std::move(api)), granule_(api_->granule()), slots_(slots) {
  MutexLock lock(&mu_);
  for (int64_t at = granule_.count() - kSlotBytes; at >= 0; at -= kSlotBytes) {
    free_slots_.push_back(reinterpret_cast<FaultSlot*>(slots_ + at));
  }
}

Faults::~Faults() {
  for (char* const block : host_blocks_) api_->FreeHost(block);
  (void)api_->Unmap(slots_, granule_);
  api_->Unreserve(slots_, granule_);
}

FaultSlot* Faults::TakeSlot() {
  MutexLock lock(&mu_);
  if (free_slots_.empty()) return nullptr;
  FaultSlot* const slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void Faults::GiveSlot(FaultSlot* slot) {
  MutexLock lock(&mu_);
  free_slots_.push_back(slot);
}

absl::StatusOr<const FaultSlot*> Faults::Read(Stream stream, FaultSlot* slot) {
  FaultSlot* copy = nullptr;
  {
    MutexLock lock(&mu_);
    if (free_copies_.empty()) {
      EBB_ASSIGN_OR_RETURN(char* const block, api_->AllocateHost(kHostBlock));
      host_blocks_.push_back(block);
      for (int64_t at = 0; at < kHostBlock.count(); at += kSlotBytes) {
        free_copies_.push_back(reinterpret_cast<FaultSlot*>(block + at));
      }
    }
    copy = free_copies_.back();
    free_copies_.pop_back();
  }
  const Bytes bytes(sizeof(FaultSlot));
  absl::Status status = api_->Copy(stream, copy, slot, bytes);
  if (status.ok()) status = api_->Fill(stream, slot, 0, bytes);
  if (!status.ok()) return status;  // the copy is lost: work may still write it
  return copy;
}

void Faults::GiveCopy(const FaultSlot* copy) {
  MutexLock lock(&mu_);
  free_copies_.push_back(const_cast<FaultSlot*>(copy));
}

int32_t Faults::AddNodes(std::vector<std::string> names) {
  constexpr int64_t kEnd = std::numeric_limits<int32_t>::max();
  const auto count = std::max<int64_t>(static_cast<int64_t>(names.size()), 1);
  MutexLock lock(&mu_);
  for (;;) {
    if (next_node_ + count > kEnd) next_node_ = 0;
    // The range must be free: those of programs that live long may lie in the way after a wrap.
    const auto after = names_.lower_bound(static_cast<int32_t>(next_node_));
    const bool free_before =
        after == names_.begin() ||
        std::prev(after)->first + static_cast<int64_t>(std::prev(after)->second.size()) <=
            next_node_;
    if (free_before && (after == names_.end() || after->first >= next_node_ + count)) break;
    next_node_ =
        after == names_.end()
            ? next_node_ + count
            : after->first + std::max<int64_t>(static_cast<int64_t>(after->second.size()), 1);
  }
  const auto first = static_cast<int32_t>(next_node_);
  next_node_ += count;
  names_.emplace(first, std::move(names));
  return first;
}

void Faults::RemoveNodes(int32_t first) {
  MutexLock lock(&mu_);
  names_.erase(first);
}

absl::Status Faults::StatusOf(const FaultSlot& fault) const {
  if (fault.code == kNoFault) return absl::OkStatus();
  MutexLock lock(&mu_);
  std::string where = "a node that is gone";
  const auto after = names_.upper_bound(fault.node);
  if (after != names_.begin()) {
    const auto& [first, names] = *std::prev(after);
    const auto index = static_cast<size_t>(fault.node - first);
    if (index < names.size()) where = names[index];
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", Describe(fault)));
}

}  // namespace ebb::device::cuda
