// Reading profiles. The table of constants is the only place that knows their keys and ranges.
#include "device/sim/profile.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/yaml.h"
#include "device/sim/builtin_profiles.h"

namespace ebb::device {
namespace {

constexpr size_t kMaxText = 1 << 20;

enum class Kind { kReal, kWhole };
struct Constant {
  absl::string_view key;
  double SimProfile::*field;
  double low, high;
  Kind kind = Kind::kReal;
};

constexpr Constant kConstants[] = {
    {"memory_gib", &SimProfile::memory_gib, 1.0 / 1024, 1 << 16},
    {"multiprocessors", &SimProfile::multiprocessors, 1, 1 << 16, Kind::kWhole},
    {"peak_tflops", &SimProfile::peak_tflops, 1e-6, 1e6},
    {"bandwidth_gbs", &SimProfile::bandwidth_gbs, 1e-3, 1e6},
    {"bus_gbs", &SimProfile::bus_gbs, 1e-3, 1e6},
    {"copy_latency_us", &SimProfile::copy_latency_us, 0, 1e6},
    {"tile_rows", &SimProfile::tile_rows, 1, 1 << 16, Kind::kWhole},
    {"tile_columns", &SimProfile::tile_columns, 1, 1 << 16, Kind::kWhole},
    {"tiles_per_multiprocessor", &SimProfile::tiles_per_multiprocessor, 1, 1024, Kind::kWhole},
    {"split_depth", &SimProfile::split_depth, 1, 1 << 30, Kind::kWhole},
    {"conv_split_depth", &SimProfile::conv_split_depth, 1, 1 << 30, Kind::kWhole},
    {"block_elements", &SimProfile::block_elements, 1, 1 << 30, Kind::kWhole},
    {"blocks_per_multiprocessor", &SimProfile::blocks_per_multiprocessor, 1, 1024, Kind::kWhole},
    {"kernel_overhead_us", &SimProfile::kernel_overhead_us, 0, 1e6},
    {"kernel_gap_us", &SimProfile::kernel_gap_us, 0, 1e6},
    {"conv_workspace_mib", &SimProfile::conv_workspace_mib, 0, 1 << 20},
    {"launch_us", &SimProfile::launch_us, 0, 1e6},
    {"admission_us", &SimProfile::admission_us, 0, 1e6},
    {"step_us", &SimProfile::step_us, 0, 1e9},
    {"interference", &SimProfile::interference, 0, 100},
    {"steps_at_once", &SimProfile::steps_at_once, 1, 128, Kind::kWhole},
    {"granule_kib", &SimProfile::granule_kib, 4, 1 << 20, Kind::kWhole},
    {"alignment_bytes", &SimProfile::alignment_bytes, 64, 4096, Kind::kWhole},
};

const Constant* Find(absl::string_view key) {
  const auto* it = std::find_if(std::begin(kConstants), std::end(kConstants),
                                [&](const Constant& constant) { return constant.key == key; });
  return it == std::end(kConstants) ? nullptr : it;
}

bool IsPowerOfTwo(double value) { return std::exp2(std::round(std::log2(value))) == value; }

absl::Status ReadConstant(const Constant& constant, const YAML::Node& node, SimProfile* profile) {
  double value = 0;
  if (!node.IsScalar() || !absl::SimpleAtod(node.Scalar(), &value)) {
    return absl::InvalidArgumentError("it must be a number");
  }
  const bool whole = constant.kind == Kind::kWhole;
  if (!std::isfinite(value) || value < constant.low || value > constant.high ||
      (whole && value != std::floor(value))) {
    return absl::InvalidArgumentError(absl::StrCat(node.Scalar(), " is not a",
                                                   whole ? " whole" : "", " number from ",
                                                   constant.low, " to ", constant.high));
  }
  profile->*constant.field = value;
  return absl::OkStatus();
}

absl::Status ReadLike(const YAML::Node& node, SimProfile* profile) {
  if (!node.IsScalar() || node.Scalar().empty() || absl::StartsWith(node.Scalar(), "sim")) {
    return absl::InvalidArgumentError("it must name a device that is not simulated, as cpu");
  }
  profile->like = node.Scalar();
  return absl::OkStatus();
}

absl::Status ReadKernels(const YAML::Node& node, SimProfile* profile) {
  if (!node.IsMap()) {
    return absl::InvalidArgumentError(
        "it must be a mapping from kernels to [microseconds, bandwidth share]");
  }
  for (const auto& entry : node) {
    KernelTime time;
    const YAML::Node& pair = entry.second;
    if (!entry.first.IsScalar() || !pair.IsSequence() || pair.size() != 2 ||
        !absl::SimpleAtod(pair[0].as<std::string>(""), &time.micros) ||
        !absl::SimpleAtod(pair[1].as<std::string>(""), &time.bandwidth) ||
        !(time.micros > 0 && time.micros <= 1e9) || !(time.bandwidth >= 0 && time.bandwidth <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", entry.first.Mark().line + 1,
                       ": a kernel takes [microseconds above 0, bandwidth share from 0 to 1]"));
    }
    if (!profile->kernels.emplace(entry.first.Scalar(), time).second) {
      return absl::InvalidArgumentError(absl::StrCat("line ", entry.first.Mark().line + 1, ": ",
                                                     entry.first.Scalar(), " is given twice"));
    }
  }
  return absl::OkStatus();
}

// `set`: the keys so far.
absl::Status ReadEntry(const YAML::Node& key, const YAML::Node& value, std::set<std::string>* set,
                       SimProfile* profile) {
  if (!key.IsScalar()) return absl::InvalidArgumentError("a key must be a name");
  const std::string& name = key.Scalar();
  const Constant* constant = Find(name);
  absl::Status status;
  if (name == "name") {
    if (!value.IsScalar()) status = absl::InvalidArgumentError("it must be a text");
    if (status.ok()) profile->name = value.Scalar();
  } else if (name == "like") {
    status = ReadLike(value, profile);
  } else if (name == "kernels") {
    status = ReadKernels(value, profile);
  } else if (constant == nullptr) {
    status = absl::InvalidArgumentError("there is no such constant; docs/device_sim.md lists them");
  } else {
    status = ReadConstant(*constant, value, profile);
  }
  if (status.ok() && !set->insert(name).second) {
    status = absl::InvalidArgumentError("it is given twice");
  }
  return Annotate(status, name);
}

absl::Status CheckWhole(const SimProfile& profile) {
  if (!IsPowerOfTwo(profile.granule_kib)) {
    return absl::InvalidArgumentError("granule_kib must be a power of two");
  }
  if (!IsPowerOfTwo(profile.alignment_bytes)) {
    return absl::InvalidArgumentError("alignment_bytes must be a power of two");
  }
  if (profile.memory() < profile.granule()) {
    return absl::InvalidArgumentError("memory_gib is less than one granule (granule_kib)");
  }
  return absl::OkStatus();
}

// What a text must hold.
enum class Extent { kAll, kSome };

absl::Status ReadProfile(const YAML::Node& root, absl::string_view source, Extent extent,
                         SimProfile* profile) {
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":1: a profile is a mapping from constants to numbers"));
  }
  std::set<std::string> set;
  for (const auto& entry : root) {
    EBB_RETURN_IF_ERROR(Annotate(ReadEntry(entry.first, entry.second, &set, profile),
                                 absl::StrCat(source, ":", entry.first.Mark().line + 1)));
  }
  if (extent == Extent::kSome) return Annotate(CheckWhole(*profile), source);
  std::vector<absl::string_view> missing;
  if (!set.contains("name")) missing.emplace_back("name");
  for (const Constant& constant : kConstants) {
    if (!set.contains(std::string(constant.key))) missing.push_back(constant.key);
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": missing: ", absl::StrJoin(missing, ", "), "; a profile has every constant"));
  }
  return Annotate(CheckWhole(*profile), source);
}

absl::Status ReadText(absl::string_view text, absl::string_view source, Extent extent,
                      SimProfile* profile) {
  if (text.size() > kMaxText) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": a profile has at most ", kMaxText, " bytes"));
  }
  try {
    const YamlText yaml = LoadYaml(std::string(text));
    if (yaml.has_more || yaml.document.IsNull()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ":1: a profile is one mapping from constants to numbers"));
    }
    return ReadProfile(yaml.document, source, extent, profile);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<std::string> TextOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxText + 1, '\0');
  if (!file ||
      (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())) {
    return absl::NotFoundError(absl::StrCat("cannot read the device profile ", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace

absl::StatusOr<SimProfile> ParseSimProfile(absl::string_view text, absl::string_view source) {
  SimProfile profile;
  profile.key = std::string(source);
  profile.sha256 = Sha256Hex(text);
  EBB_RETURN_IF_ERROR(ReadText(text, source, Extent::kAll, &profile));
  return profile;
}

absl::StatusOr<SimProfile> OverrideSimProfile(SimProfile profile, absl::string_view text,
                                              absl::string_view source) {
  profile.key = absl::StrCat(profile.key, " with ", source);
  profile.sha256 = Sha256Hex(absl::StrCat(profile.sha256, "\n", text));
  EBB_RETURN_IF_ERROR(ReadText(text, source, Extent::kSome, &profile));
  return profile;
}

std::vector<std::pair<std::string, double>> ConstantsOf(const SimProfile& profile) {
  std::vector<std::pair<std::string, double>> constants;
  for (const Constant& constant : kConstants) {
    constants.emplace_back(constant.key, profile.*constant.field);
  }
  return constants;
}

std::string ToText(const SimProfile& profile) {
  std::string text = absl::StrCat("name: ", YAML::Dump(YAML::Node(profile.name)), "\n");
  for (const auto& [key, value] : ConstantsOf(profile)) {
    absl::StrAppendFormat(&text, "%s: %.17g\n", key, value);
  }
  if (!profile.like.empty()) absl::StrAppend(&text, "like: ", profile.like, "\n");
  if (!profile.kernels.empty()) text += "kernels:\n";
  for (const auto& [key, time] : profile.kernels) {
    absl::StrAppendFormat(&text, "  '%s': [%.9g, %.9g]\n", key, time.micros, time.bandwidth);
  }
  return text;
}

absl::StatusOr<SimProfile> LoadSimProfile(const std::string& name) {
  for (const BuiltinProfile& builtin : BuiltinProfiles()) {
    if (builtin.name == name) return ParseSimProfile(builtin.text, name);
  }
  if (!absl::EndsWith(name, ".yaml") && !absl::EndsWith(name, ".yml")) {
    return absl::NotFoundError(absl::StrCat("there is no device profile \"", name, "\"; there are ",
                                            absl::StrJoin(BuiltinSimProfiles(), ", "),
                                            ", and files that end in .yaml"));
  }
  EBB_ASSIGN_OR_RETURN(const std::string text, TextOfFile(name));
  return ParseSimProfile(text, name);
}

std::vector<std::string> BuiltinSimProfiles() {
  std::vector<std::string> names;
  for (const BuiltinProfile& builtin : BuiltinProfiles()) names.emplace_back(builtin.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ebb::device
