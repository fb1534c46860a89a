#include "perfmodel/collective.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

struct KindRow {
  CollectiveKind kind;
  absl::string_view name;
};
constexpr KindRow kKinds[] = {
    {CollectiveKind::kAllReduce, "all_reduce"},         {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"}, {CollectiveKind::kAllToAll, "all_to_all"},
    {CollectiveKind::kBroadcast, "broadcast"},          {CollectiveKind::kSendRecv, "send_recv"},
};

}  // namespace

absl::string_view Name(CollectiveKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return "?";
}

absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name) {
  std::string known;
  for (const KindRow& row : kKinds) {
    if (row.name == name) return row.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no collective '", Escaped(name), "'; there are ", known));
}

double BusFactor(CollectiveKind kind, int64_t ranks) {
  if (ranks <= 1) return 0;
  const auto n = static_cast<double>(ranks);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (n - 1) / n;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSendRecv:
      return 1;
  }
  return 1;
}

}  // namespace ebb::perfmodel
