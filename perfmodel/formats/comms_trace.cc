#include "perfmodel/formats/comms_trace.h"

#include <algorithm>

#include "absl/types/span.h"
#include "base/status.h"
#include "perfmodel/formats/collective_names.h"
#include "perfmodel/formats/json_records.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

constexpr int64_t kMostRanks = 1 << 20;

absl::StatusOr<CommsTraceEntry> ReadEntry(const json& record) {
  CommsTraceEntry entry{.comms = StringIn(record, "comms").value_or(""),
                        .compute = StringIn(record, "compute").value_or("")};
  const json& markers = FieldIn(record, "markers");
  if (markers.is_array()) {
    for (const json& marker : markers) {
      if (marker.is_string()) entry.markers.push_back(marker.get<std::string>());
    }
  }
  if (entry.comms.empty() && entry.compute.empty() && entry.markers.empty()) {
    return absl::InvalidArgumentError("an entry needs comms, compute or markers");
  }
  entry.count = IntegerIn(record, "count").value_or(1);
  entry.request = IntegerIn(record, "req").value_or(-1);
  entry.start_ns = IntegerIn(record, "startTime_ns").value_or(-1);
  entry.world_size = IntegerIn(record, "world_size").value_or(0);
  entry.group = IntegerIn(record, "pg_id").value_or(-1);
  entry.global_ranks = IntegersOf(FieldIn(record, "global_ranks"));
  entry.root = IntegerIn(record, "root").value_or(-1);
  entry.source = IntegerIn(record, "src_rank").value_or(-1);
  entry.destination = IntegerIn(record, "dst_rank").value_or(-1);
  const json& batched = FieldIn(record, "use_batch");
  entry.batched = batched.is_boolean() && batched.get<bool>();
  entry.dtype = StringIn(record, "dtype").value_or("");
  entry.in_elements = IntegerIn(record, "in_msg_size").value_or(0);
  entry.out_elements = IntegerIn(record, "out_msg_size").value_or(0);
  entry.in_split = IntegersOf(FieldIn(record, "in_split"));
  entry.out_split = IntegersOf(FieldIn(record, "out_split"));
  if (entry.in_elements < 0 || entry.out_elements < 0 || entry.world_size < 0 ||
      entry.world_size > kMostRanks || entry.count < 0) {
    return absl::InvalidArgumentError("sizes and counts must not be negative nor beyond reason");
  }
  return entry;
}

void PutUnless(int64_t none, int64_t value, const char* key, json& record) {
  if (value != none) record[key] = value;
}

json EntryJson(const CommsTraceEntry& entry) {
  json record = json::object();
  if (!entry.comms.empty()) record["comms"] = entry.comms;
  if (!entry.compute.empty()) record["compute"] = entry.compute;
  PutUnless(1, entry.count, "count", record);
  PutUnless(-1, entry.request, "req", record);
  PutUnless(-1, entry.start_ns, "startTime_ns", record);
  PutUnless(0, entry.world_size, "world_size", record);
  PutUnless(-1, entry.group, "pg_id", record);
  PutUnless(-1, entry.root, "root", record);
  PutUnless(-1, entry.source, "src_rank", record);
  PutUnless(-1, entry.destination, "dst_rank", record);
  PutUnless(0, entry.in_elements, "in_msg_size", record);
  PutUnless(0, entry.out_elements, "out_msg_size", record);
  if (!entry.dtype.empty()) record["dtype"] = entry.dtype;
  if (!entry.global_ranks.empty()) record["global_ranks"] = entry.global_ranks;
  if (!entry.in_split.empty()) record["in_split"] = entry.in_split;
  if (!entry.out_split.empty()) record["out_split"] = entry.out_split;
  if (entry.batched) record["use_batch"] = true;
  if (!entry.markers.empty()) record["markers"] = entry.markers;
  return record;
}

}  // namespace

absl::StatusOr<std::vector<CommsTraceEntry>> ReadCommsTrace(absl::string_view text) {
  std::vector<CommsTraceEntry> entries;
  EBB_RETURN_IF_ERROR(ReadJsonRecords(text, "",
                                      {.record =
                                           [&](const json& record, size_t) {
                                             auto entry = ReadEntry(record);
                                             if (entry.ok()) entries.push_back(*std::move(entry));
                                             return entry.status();
                                           },
                                       .field = {}}));
  return entries;
}

std::string WriteCommsTrace(absl::Span<const CommsTraceEntry> entries) {
  json list = json::array();
  for (const CommsTraceEntry& entry : entries) list.push_back(EntryJson(entry));
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<Collective> CollectiveOf(const CommsTraceEntry& entry) {
  EBB_ASSIGN_OR_RETURN(const CollectiveKind kind, ParseCollectiveName(entry.comms));
  EBB_ASSIGN_OR_RETURN(const int64_t element, ElementBytes(entry.dtype));
  const auto bytes = [&](int64_t elements) {
    return static_cast<double>(elements) * static_cast<double>(element);
  };
  Collective collective{.kind = kind, .ranks = std::max<int64_t>(1, entry.world_size)};
  if (kind == CollectiveKind::kSendRecv) collective.ranks = 2;
  collective.bytes = CountedBytes(kind, bytes(entry.in_elements), bytes(entry.out_elements));
  return collective;
}

}  // namespace ebb::perfmodel
