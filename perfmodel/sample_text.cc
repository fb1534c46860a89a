// Samples as lines of JSON.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/sample.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

constexpr size_t kLongestLine = 1 << 16;

absl::Status Wrong(absl::string_view key, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(key, " must be ", wanted));
}

absl::Status Take(const json& value, absl::string_view key, double* to) {
  if (!value.is_number()) return Wrong(key, "a number");
  *to = value.get<double>();
  return absl::OkStatus();
}
absl::Status Take(const json& value, absl::string_view key, int64_t* to) {
  if (!value.is_number_integer()) return Wrong(key, "a whole number");
  *to = value.get<int64_t>();
  return absl::OkStatus();
}
absl::Status Take(const json& value, absl::string_view key, bool* to) {
  if (!value.is_boolean()) return Wrong(key, "true or false");
  *to = value.get<bool>();
  return absl::OkStatus();
}
absl::Status Take(const json& value, absl::string_view key, std::string* to) {
  if (!value.is_string()) return Wrong(key, "text");
  *to = value.get<std::string>();
  return absl::OkStatus();
}
absl::Status Take(const json& value, absl::string_view key, std::vector<std::string>* to) {
  if (!value.is_array()) return Wrong(key, "a list of names");
  for (const json& one : value) {
    if (!one.is_string()) return Wrong(key, "a list of names");
    to->push_back(one.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status TakeMember(const std::string& key, const json& value, OpSample* sample) {
  Work& work = sample->work;
  std::string text;
  if (key == "family") {
    EBB_RETURN_IF_ERROR(Take(value, key, &text));
    EBB_ASSIGN_OR_RETURN(work.family, ParseFamily(text));
    return absl::OkStatus();
  }
  if (key == "dtype") {
    EBB_RETURN_IF_ERROR(Take(value, key, &text));
    const std::optional<graph::DType> dtype = graph::ParseDType(text);
    if (!dtype.has_value()) return Wrong(key, "a type of elements, like f32");
    work.dtype = *dtype;
    return absl::OkStatus();
  }
  if (key == "batch") return Take(value, key, &work.batch);
  if (key == "m") return Take(value, key, &work.m);
  if (key == "n") return Take(value, key, &work.n);
  if (key == "k") return Take(value, key, &work.k);
  if (key == "window") return Take(value, key, &work.window);
  if (key == "stride") return Take(value, key, &work.stride);
  if (key == "flops") return Take(value, key, &work.flops);
  if (key == "bytes") return Take(value, key, &work.bytes);
  if (key == "micros") return Take(value, key, &sample->micros);
  if (key == "launch_us") return Take(value, key, &sample->launch_us);
  if (key == "stream") return Take(value, key, &sample->stream);
  if (key == "device") return Take(value, key, &sample->device);
  if (key == "step") return Take(value, key, &sample->step);
  if (key == "co_resident") return Take(value, key, &sample->co_resident);
  if (key == "throttled") return Take(value, key, &sample->throttled);
  if (key == "warm_up") return Take(value, key, &sample->warm_up);
  if (key == "repeats") return Take(value, key, &sample->repeats);
  return absl::InvalidArgumentError(absl::StrCat("no member '", Escaped(key), "' of a sample"));
}

absl::StatusOr<OpSample> ReadLine(absl::string_view line) {
  if (line.size() > kLongestLine) return absl::InvalidArgumentError("a line above 64 KiB");
  const json value = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) {
    return absl::InvalidArgumentError("not one whole JSON object; was the file cut off?");
  }
  for (const char* needed : {"family", "dtype", "micros", "device"}) {
    if (!value.contains(needed)) return absl::InvalidArgumentError(absl::StrCat("no ", needed));
  }
  OpSample sample;
  for (const auto& [key, member] : value.items()) {
    EBB_RETURN_IF_ERROR(TakeMember(key, member, &sample));
  }
  return sample;
}

}  // namespace

std::string WriteSamples(absl::Span<const OpSample> samples) {
  std::string text;
  for (const OpSample& sample : samples) {
    const Work& work = sample.work;
    json line = {{"family", std::string(Name(work.family))},
                 {"dtype", std::string(graph::Name(work.dtype))},
                 {"batch", work.batch},
                 {"m", work.m},
                 {"n", work.n},
                 {"k", work.k},
                 {"window", work.window},
                 {"stride", work.stride},
                 {"flops", work.flops},
                 {"bytes", work.bytes},
                 {"micros", sample.micros},
                 {"launch_us", sample.launch_us},
                 {"stream", sample.stream},
                 {"device", sample.device},
                 {"step", sample.step},
                 {"repeats", sample.repeats}};
    if (!sample.co_resident.empty()) line["co_resident"] = sample.co_resident;
    if (sample.throttled) line["throttled"] = true;
    if (sample.warm_up) line["warm_up"] = true;
    absl::StrAppend(&text, line.dump(-1, ' ', false, json::error_handler_t::replace), "\n");
  }
  return text;
}

absl::StatusOr<std::vector<OpSample>> ReadSamples(absl::string_view text,
                                                  absl::string_view source) {
  SampleStore store(SIZE_MAX);
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    absl::StatusOr<OpSample> sample = ReadLine(line);
    absl::Status status = sample.status();
    if (status.ok()) status = store.Append(*std::move(sample));
    if (!status.ok()) return Annotate(status, absl::StrCat(source, ":", number));
  }
  return std::vector<OpSample>(store.samples().begin(), store.samples().end());
}

}  // namespace ebb::perfmodel
