#include "perfmodel/formats/kineto.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "perfmodel/formats/json_records.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

struct Category {
  absl::string_view name;
  KinetoKind kind;
};
// Of 2021's traces too, which are capitalised.
constexpr Category kCategories[] = {
    {"cpu_op", KinetoKind::kOp},
    {"Operator", KinetoKind::kOp},
    {"user_annotation", KinetoKind::kAnnotation},
    {"cuda_runtime", KinetoKind::kRuntime},
    {"cuda_driver", KinetoKind::kRuntime},
    {"Runtime", KinetoKind::kRuntime},
    {"kernel", KinetoKind::kKernel},
    {"Kernel", KinetoKind::kKernel},
    {"gpu_memcpy", KinetoKind::kMemcpy},
    {"Memcpy", KinetoKind::kMemcpy},
    {"gpu_memset", KinetoKind::kMemset},
    {"Memset", KinetoKind::kMemset},
};

std::optional<KinetoKind> KindOf(absl::string_view category) {
  for (const Category& known : kCategories) {
    if (known.name == category) return known.kind;
  }
  return std::nullopt;
}

std::vector<std::vector<int64_t>> Dims(const json& args) {
  std::vector<std::vector<int64_t>> dims;
  const json& all = FieldIn(args, "Input Dims");
  if (!all.is_array()) return dims;
  for (const json& one : all) {
    dims.emplace_back();
    if (!one.is_array()) continue;
    for (const json& dim : one) {
      if (dim.is_number_integer()) dims.back().push_back(dim.get<int64_t>());
    }
  }
  return dims;
}

void ReadArgs(const json& args, KinetoEvent& event) {
  event.correlation = IntegerIn(args, "correlation").value_or(-1);
  event.record_function = IntegerIn(args, "Record function id").value_or(-1);
  if (event.kind == KinetoKind::kOp) event.dims = Dims(args);
  if (!event.on_device()) return;
  const int64_t stream = IntegerIn(args, "stream").value_or(event.thread);
  event.stream = static_cast<int>(std::clamp<int64_t>(stream, -1, INT32_MAX));
  event.bytes = IntegerIn(args, "bytes").value_or(0);
  event.collective = StringIn(args, "Collective name").value_or("");
  event.dtype = StringIn(args, "dtype").value_or("");
  event.group = StringIn(args, "Process Group Name").value_or("");
  event.in_elements = IntegerIn(args, "In msg nelems").value_or(0);
  event.out_elements = IntegerIn(args, "Out msg nelems").value_or(0);
  event.group_size = IntegerIn(args, "Group size").value_or(0);
}

absl::Status ReadEvent(const json& record, std::vector<KinetoEvent>& events) {
  if (StringIn(record, "ph") != "X") return absl::OkStatus();
  const auto kind = KindOf(StringIn(record, "cat").value_or(""));
  if (!kind) return absl::OkStatus();
  const auto name = StringIn(record, "name");
  const auto begin = NumberIn(record, "ts"), micros = NumberIn(record, "dur");
  if (!name || !begin || !micros) {
    return absl::InvalidArgumentError("an event needs name, ts and dur");
  }
  if (std::fabs(*begin) > 1e17 || *micros < 0 || *micros > 1e15) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: ts %g and dur %g us are no times", *name, *begin, *micros));
  }
  KinetoEvent event{.kind = *kind, .name = *name, .begin = *begin, .micros = *micros};
  event.thread = IntegerIn(record, "tid").value_or(0);
  ReadArgs(FieldIn(record, "args"), event);
  events.push_back(std::move(event));
  return absl::OkStatus();
}

// Of the whole file, besides its events.
void ReadField(const std::string& key, const json& value, KinetoTrace& trace) {
  if (key == "distributedInfo") {
    trace.rank =
        static_cast<int>(std::clamp<int64_t>(IntegerIn(value, "rank").value_or(0), 0, 1 << 24));
    trace.ranks = static_cast<int>(
        std::clamp<int64_t>(IntegerIn(value, "world_size").value_or(1), 1, 1 << 24));
  } else if (key == "deviceProperties" && value.is_array() && !value.empty()) {
    trace.device = StringIn(value[0], "name").value_or("");
  } else if (key == "baseTimeNanoseconds" && value.is_number()) {
    trace.origin_us = value.get<double>() / 1000;
  }
}

const char* CategoryOf(KinetoKind kind) {
  switch (kind) {
    case KinetoKind::kOp:
      return "cpu_op";
    case KinetoKind::kAnnotation:
      return "user_annotation";
    case KinetoKind::kRuntime:
      return "cuda_runtime";
    case KinetoKind::kKernel:
      return "kernel";
    case KinetoKind::kMemcpy:
      return "gpu_memcpy";
    case KinetoKind::kMemset:
      break;
  }
  return "gpu_memset";
}

json Args(const KinetoEvent& event, int rank) {
  json args = json::object();
  if (event.correlation >= 0) args["correlation"] = event.correlation;
  if (event.record_function >= 0) args["Record function id"] = event.record_function;
  if (!event.dims.empty()) args["Input Dims"] = event.dims;
  if (!event.on_device()) return args;
  args["stream"] = event.stream;
  args["device"] = rank;
  if (event.bytes > 0) args["bytes"] = event.bytes;
  if (event.collective.empty()) return args;
  args["Collective name"] = event.collective;
  args["In msg nelems"] = event.in_elements;
  args["Out msg nelems"] = event.out_elements;
  args["Group size"] = event.group_size;
  args["dtype"] = event.dtype;
  args["Process Group Name"] = event.group;
  return args;
}

}  // namespace

absl::StatusOr<KinetoTrace> ReadKineto(absl::string_view text) {
  KinetoTrace trace;
  EBB_RETURN_IF_ERROR(ReadJsonRecords(
      text, "traceEvents",
      {.record = [&](const json& record, size_t) { return ReadEvent(record, trace.events); },
       .field = [&](const std::string& key, const json& value) { ReadField(key, value, trace); }}));
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const KinetoEvent& a, const KinetoEvent& b) {
                     return std::pair(a.begin, -a.micros) < std::pair(b.begin, -b.micros);
                   });
  if (trace.events.empty()) return trace;
  // Small numbers keep fractions of a microsecond.
  const double first = std::floor(trace.events.front().begin);
  for (KinetoEvent& event : trace.events) event.begin -= first;
  trace.origin_us += first;
  return trace;
}

std::string WriteKineto(const KinetoTrace& trace) {
  json events = json::array();
  for (const KinetoEvent& event : trace.events) {
    events.push_back({{"ph", "X"},
                      {"cat", CategoryOf(event.kind)},
                      {"name", event.name},
                      {"pid", trace.rank},
                      {"tid", event.thread},
                      {"ts", event.begin},
                      {"dur", event.micros},
                      {"args", Args(event, trace.rank)}});
  }
  const json file = {
      {"schemaVersion", 1},
      {"baseTimeNanoseconds", std::llround(std::clamp(trace.origin_us, -9e15, 9e15) * 1000)},
      {"distributedInfo", {{"backend", "nccl"}, {"rank", trace.rank}, {"world_size", trace.ranks}}},
      {"deviceProperties", {{{"id", trace.rank}, {"name", trace.device}}}},
      {"traceEvents", std::move(events)}};
  return file.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ebb::perfmodel
