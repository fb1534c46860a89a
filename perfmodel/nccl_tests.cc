// What nccl-tests prints.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/curve_import.h"
#include "perfmodel/log_lines.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kMaxCurves = 4096;
constexpr double kTolerance = 0.06;  // of busbw over algbw: both are printed rounded
constexpr double kTrusted = 1;       // GB/s, above which the ratio says something

// The program that a line or path names: what stands before the last "_perf".
absl::string_view ProgramIn(absl::string_view line) {
  const size_t end = line.rfind("_perf");
  if (end == absl::string_view::npos) return {};
  size_t begin = end;
  while (begin > 0 &&
         ((line[begin - 1] >= 'a' && line[begin - 1] <= 'z') || line[begin - 1] == '_')) {
    --begin;
  }
  return line.substr(begin, end - begin);
}

// Programs of nccl-tests that measure what is no Collective.
constexpr absl::string_view kOthers[] = {"gather", "hypercube", "reduce", "scatter"};

bool IsProgram(absl::string_view name) {
  return KindOfProgram(name).ok() ||
         std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

// One run of one program.
struct Run {
  int64_t first_line = 0, last_line = 0;
  std::set<int64_t> ranks;
  std::set<std::string> hosts;
  std::vector<CurvePoint> points;
  std::vector<double> bus_ratios;
};

class Reader {
 public:
  Reader(absl::string_view source, const CurveHints& hints) : source_(source), hints_(hints) {
    if (IsProgram(ProgramIn(source))) program_ = std::string(ProgramIn(source));
  }

  absl::Status Line(absl::string_view line) {
    ++number_;
    line = WithoutPrefix(line);
    if (const absl::string_view program = ProgramIn(line); IsProgram(program)) {
      if (!run_.points.empty()) EBB_RETURN_IF_ERROR(End());
      program_ = std::string(program);
    }
    const std::vector<absl::string_view> words = Words(line);
    if (words.empty()) return absl::OkStatus();
    if (words[0][0] == '#') return Comment(words);
    // Rows of data: a size, a count, a type. Anything else is another program's.
    if (words.size() < 3 || !IsWhole(words[0]) || !IsWhole(words[1]) || IsWhole(words[2])) {
      return absl::OkStatus();
    }
    return Row(words);
  }

  absl::StatusOr<std::vector<Curve>> Done() {
    if (!run_.points.empty()) EBB_RETURN_IF_ERROR(End());
    if (!curves_.empty()) return std::move(curves_);
    return absl::InvalidArgumentError(absl::StrCat(source_, ": no line of it is a measurement"));
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ":", number_, ": ", what));
  }

  absl::Status Comment(const std::vector<absl::string_view>& words) {
    // "# nThread 1 nGpus 8 ..." begins a run; "# Rank 0 Group 0 Pid 1 on HOST device 0 ...".
    const auto is = [&](size_t i, absl::string_view word) {
      return i < words.size() && words[i] == word;
    };
    if (is(1, "nThread") && !run_.points.empty()) return End();
    if (!is(1, "Rank") || words.size() < 3) return absl::OkStatus();
    if (!run_.points.empty()) EBB_RETURN_IF_ERROR(End());
    int64_t rank = 0;
    if (!absl::SimpleAtoi(words[2], &rank) || rank < 0 || rank >= Curve::kMaxRanks) {
      return Error(absl::StrCat("'", Escaped(words[2]), "' is no rank"));
    }
    run_.ranks.insert(rank);
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on != words.end() && on + 1 != words.end()) run_.hosts.insert(std::string(*(on + 1)));
    return absl::OkStatus();
  }

  // Type, at most redop and root, then once or twice: time, algbw, busbw, faults.
  absl::Status Row(const std::vector<absl::string_view>& words) {
    const size_t fours = words.size() >= 11 && words.size() <= 13 ? 2
                         : words.size() >= 7 && words.size() <= 9 ? 1
                                                                  : 0;
    if (fours == 0) {
      return Error(
          absl::StrCat("a measurement of ", words.size(), " columns; is the line cut short?"));
    }
    double bytes = 0;
    if (!absl::SimpleAtod(words[0], &bytes)) return Error("the size is no number");
    if (run_.points.empty()) run_.first_line = number_;
    run_.last_line = number_;
    for (size_t i = words.size() - 4 * fours; i < words.size(); i += 4) {
      if (words[i] == "N/A") continue;
      EBB_RETURN_IF_ERROR(Measurement(bytes, {words[i], words[i + 1], words[i + 2], words[i + 3]}));
    }
    if (run_.points.size() > Curve::kMaxPoints) return Error("too many measurements in one run");
    return absl::OkStatus();
  }

  absl::Status Measurement(double bytes, const std::array<absl::string_view, 4>& words) {
    double numbers[3] = {};
    for (int i = 0; i < 3; ++i) {
      if (!absl::SimpleAtod(words[i], &numbers[i]) || !std::isfinite(numbers[i]) ||
          numbers[i] < 0) {
        return Error(absl::StrCat("'", Escaped(words[i]), "' is no time or bandwidth"));
      }
    }
    // "#wrong" counts; the older "error" is a distance, written as 1e-07.
    if (IsWhole(words[3]) && words[3].find_first_not_of('0') != absl::string_view::npos) {
      return Error(absl::StrCat(words[3], " results were wrong: not a measurement to go by"));
    }
    if (bytes == 0) return absl::OkStatus();
    if (numbers[0] <= 0) return Error("a time of 0");
    run_.points.push_back({bytes, numbers[0]});
    if (numbers[1] >= kTrusted) run_.bus_ratios.push_back(numbers[2] / numbers[1]);
    return absl::OkStatus();
  }

  absl::Status End() {
    Curve::Subject subject;
    subject.source = absl::StrCat(source_, ":", run_.first_line, "-", run_.last_line);
    const auto fault = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(subject.source, ": ", what));
    };
    if (!program_.empty()) {
      const auto kind = KindOfProgram(program_);
      if (!kind.ok()) return fault(kind.status().message());
      subject.kind = *kind;
    } else if (hints_.kind.has_value()) {
      subject.kind = *hints_.kind;
    } else {
      return fault("which collective it is stands nowhere (--kind)");
    }
    if (run_.ranks.empty() && !hints_.ranks.has_value()) {
      return fault("the number of ranks is missing (--ranks)");
    }
    subject.ranks = run_.ranks.empty() ? *hints_.ranks : static_cast<int64_t>(run_.ranks.size());
    subject.nodes =
        run_.hosts.empty() ? hints_.nodes.value_or(1) : static_cast<int64_t>(run_.hosts.size());
    if (subject.ranks < 2) return fault("one rank alone has nothing to send");
    if (!run_.bus_ratios.empty()) {
      auto middle = run_.bus_ratios.begin() + static_cast<ptrdiff_t>(run_.bus_ratios.size() / 2);
      std::nth_element(run_.bus_ratios.begin(), middle, run_.bus_ratios.end());
      const double factor = BusFactor(subject.kind, subject.ranks);
      if (std::abs(*middle / factor - 1) > kTolerance) {
        return fault(absl::StrCat("busbw is ", *middle, " of algbw, where ", Name(subject.kind),
                                  " of ", subject.ranks, " ranks has ", factor,
                                  "; are they the right ones?"));
      }
    }
    EBB_ASSIGN_OR_RETURN(Curve curve, Curve::Make(std::move(subject), std::move(run_.points)));
    curves_.push_back(std::move(curve));
    run_ = {};
    if (curves_.size() > kMaxCurves) return Error("too many runs in one text");
    return absl::OkStatus();
  }

  const absl::string_view source_;
  const CurveHints hints_;
  std::string program_;
  int64_t number_ = 0;
  Run run_;
  std::vector<Curve> curves_;
};

}  // namespace

absl::StatusOr<std::vector<Curve>> ReadNcclTests(absl::string_view text, absl::string_view source,
                                                 const CurveHints& hints) {
  Reader reader(source, hints);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EBB_RETURN_IF_ERROR(reader.Line(line));
  }
  return reader.Done();
}

}  // namespace ebb::perfmodel
