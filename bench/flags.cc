#include "bench/flags.h"

#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace ebb::bench {
namespace {

absl::StatusOr<int64_t> Number(const std::string& flag, absl::string_view text, int64_t low,
                               int64_t high) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < low || number > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": '", text, "' is no number from ", low, " to ", high));
  }
  return number;
}

}  // namespace

absl::Status CheckWritable(const Flags& flags, const std::string& flag) {
  const auto it = flags.find(flag);
  if (it == flags.end() || std::ofstream(it->second, std::ios::app).good()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": cannot write '", it->second,
                                                 "'; is it a file, and does its folder exist?"));
}

absl::StatusOr<Flags> ParseFlags(const Args& args, const std::set<std::string>& known) {
  Flags flags;
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (!absl::ConsumePrefix(&arg, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", args[i], "' is not a flag; ebb-bench --help lists them"));
    }
    const std::pair<std::string, std::string> parts = absl::StrSplit(arg, absl::MaxSplits('=', 1));
    if (!known.contains(parts.first)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", parts.first, ": no flag of this command; ebb-bench --help lists them"));
    }
    std::string value = parts.second;
    if (arg.find('=') == absl::string_view::npos) {
      if (++i == args.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", parts.first, " needs a value"));
      }
      value = args[i];
    }
    if (!flags.emplace(parts.first, value).second) {
      return absl::InvalidArgumentError(absl::StrCat("--", parts.first, " is given twice"));
    }
  }
  EBB_RETURN_IF_ERROR(CheckWritable(flags, "json"));
  return flags;
}

std::string TextOf(const Flags& flags, const std::string& flag, const std::string& fallback) {
  const auto it = flags.find(flag);
  return it == flags.end() ? fallback : it->second;
}

std::vector<std::string> ListOf(const Flags& flags, const std::string& flag) {
  const auto it = flags.find(flag);
  if (it == flags.end()) return {};
  return absl::StrSplit(it->second, ',');
}

absl::StatusOr<int64_t> NumberOf(const Flags& flags, const std::string& flag, int64_t fallback,
                                 int64_t low, int64_t high) {
  const auto it = flags.find(flag);
  return it == flags.end() ? fallback : Number(flag, it->second, low, high);
}

absl::StatusOr<std::vector<int64_t>> NumbersOf(const Flags& flags, const std::string& flag,
                                               std::vector<int64_t> fallback, int64_t low,
                                               int64_t high) {
  if (!flags.contains(flag)) return fallback;
  std::vector<int64_t> numbers;
  for (const std::string& text : ListOf(flags, flag)) {
    EBB_ASSIGN_OR_RETURN(numbers.emplace_back(), Number(flag, text, low, high));
  }
  return numbers;
}

absl::StatusOr<double> RealOf(const Flags& flags, const std::string& flag, double fallback,
                              double low, double high) {
  const auto it = flags.find(flag);
  double value = 0;
  if (it == flags.end()) return fallback;
  if (!absl::SimpleAtod(it->second, &value) || !(value >= low) || !(value <= high)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": '", it->second, "' is no number from ", low, " to ", high));
  }
  return value;
}

absl::Status WriteJson(const Flags& flags, const std::string& json) {
  const auto it = flags.find("json");
  if (it == flags.end()) return absl::OkStatus();
  std::ofstream file(it->second, std::ios::binary);
  file << json;
  file.close();
  if (file.fail()) {
    return absl::UnavailableError(
        absl::StrCat("--json: cannot write '", it->second, "'; is there room for it?"));
  }
  return absl::OkStatus();
}

}  // namespace ebb::bench
