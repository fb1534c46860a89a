// ebb-bench predict.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/predict/rows.h"

namespace ebb::bench {
namespace {

absl::StatusOr<std::vector<RowGroup>> Wanted(const Flags& flags) {
  const auto all = RowGroups();
  std::vector<RowGroup> wanted;
  for (const std::string& name : ListOf(flags, "only")) {
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const RowGroup& group) { return group.name == name; });
    if (it == all.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--only: there is no group '", name, "'; there are ",
                       absl::StrJoin(all, ", ", [](std::string* out, const RowGroup& group) {
                         absl::StrAppend(out, group.name);
                       })));
    }
    wanted.push_back(*it);
  }
  if (!wanted.empty()) return wanted;
  std::copy_if(all.begin(), all.end(), std::back_inserter(wanted),
               [](const RowGroup& group) { return !group.measures; });
  return wanted;
}

}  // namespace

absl::Status Predict(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(args, {"data", "only", "json"}));
  const std::string data = TextOf(flags, "data", "");
  if (data.empty()) {
    return absl::InvalidArgumentError(
        "--data is needed: the folder of measured figures (docs/benchmarks.md, `predict`)");
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<RowGroup> groups, Wanted(flags));
  std::vector<PredictRow> rows;
  for (const RowGroup& group : groups) {
    const auto begin = std::chrono::steady_clock::now();
    auto made = group.make(data);
    if (!made.ok()) return Annotate(made.status(), group.name);
    rows.insert(rows.end(), made->begin(), made->end());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::fprintf(stderr, "%s: %.1f s\n", std::string(group.name).c_str(), took.count());
  }
  std::fputs(PredictTable(rows).c_str(), stdout);
  EBB_RETURN_IF_ERROR(WriteJson(flags, PredictJson(rows)));
  std::vector<std::string> missed;
  for (const PredictRow& row : rows) {
    if (!row.passed()) missed.push_back(row.name);
  }
  if (missed.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("gates were missed: ", absl::StrJoin(missed, "; ")));
}

}  // namespace ebb::bench
