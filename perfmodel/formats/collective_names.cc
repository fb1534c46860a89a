#include "perfmodel/formats/collective_names.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ebb::perfmodel {
namespace {

// Lower-case letters and digits alone: "_all_gather_base" and "AllGatherBase" are one name.
std::string Plain(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      plain.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

}  // namespace

absl::StatusOr<CollectiveKind> ParseCollectiveName(absl::string_view name) {
  struct Known {
    absl::string_view start;
    CollectiveKind kind;
  };
  constexpr Known kKnown[] = {
      {"allreduce", CollectiveKind::kAllReduce},
      {"allgather", CollectiveKind::kAllGather},
      {"reducescatter", CollectiveKind::kReduceScatter},
      {"alltoall", CollectiveKind::kAllToAll},
      {"broadcast", CollectiveKind::kBroadcast},
      {"send", CollectiveKind::kSendRecv},
      {"recv", CollectiveKind::kSendRecv},
      {"isend", CollectiveKind::kSendRecv},
      {"irecv", CollectiveKind::kSendRecv},
  };
  const std::string plain = Plain(name);
  for (const Known& known : kKnown) {
    if (absl::StartsWith(plain, known.start)) return known.kind;
  }
  return absl::UnimplementedError(absl::StrCat("no collective is called ", name));
}

absl::StatusOr<int64_t> ElementBytes(absl::string_view dtype) {
  struct Known {
    absl::string_view name;
    int64_t bytes;
  };
  constexpr Known kKnown[] = {
      {"float", 4},   {"float32", 4},  {"double", 8}, {"float64", 8},      {"half", 2},
      {"float16", 2}, {"bfloat16", 2}, {"int", 4},    {"int32", 4},        {"long", 8},
      {"int64", 8},   {"short", 2},    {"int16", 2},  {"char", 1},         {"byte", 1},
      {"int8", 1},    {"uint8", 1},    {"bool", 1},   {"float8e4m3fn", 1}, {"float8e5m2", 1},
  };
  for (const absl::string_view prefix : {"torch.", "c10::"}) absl::ConsumePrefix(&dtype, prefix);
  const std::string plain = Plain(dtype);
  for (const Known& known : kKnown) {
    if (plain == known.name) return known.bytes;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown type of elements ", dtype));
}

double CountedBytes(CollectiveKind kind, double in_bytes, double out_bytes) {
  return kind == CollectiveKind::kAllGather ? out_bytes : in_bytes;
}

}  // namespace ebb::perfmodel
