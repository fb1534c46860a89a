#include "bench/predict/training_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "bench/tables.h"
#include "perfmodel/csv.h"

namespace ebb::bench {

using perfmodel::Curve;
using perfmodel::CurvePoint;
using perfmodel::MeasuredRun;

absl::StatusOr<std::vector<MeasuredRun>> VtrainRuns(const std::string& data) {
  const std::string path = data + "/training/vtrain/ground_truth_single.csv";
  EBB_ASSIGN_OR_RETURN(std::string text, ReadTable(path));
  // Its header begins with '#', as comments do elsewhere.
  absl::string_view body = text;
  absl::ConsumePrefix(&body, "\xef\xbb\xbf");
  absl::ConsumePrefix(&body, "# ");
  EBB_ASSIGN_OR_RETURN(const auto table, perfmodel::CsvTable::Parse(body, path));
  std::vector<MeasuredRun> runs;
  for (const perfmodel::CsvRow& row : table.rows()) {
    MeasuredRun one;
    const std::pair<absl::string_view, int64_t*> columns[] = {
        {"global batch", &one.run.batch},
        {"micro batch", &one.run.micro_batch},
        {"hidden size", &one.run.hidden},
        {"attention heads", &one.run.heads},
        {"# layers", &one.run.layers},
        {"sequence length", &one.run.sequence},
        {"tensor parallelism", &one.run.tensor},
        {"data parallelism", &one.run.data},
        {"pipeline parallelism", &one.run.pipeline}};
    for (const auto& [name, number] : columns) {
      EBB_ASSIGN_OR_RETURN(*number, row.Whole(name, 1, int64_t{1} << 30));
    }
    EBB_ASSIGN_OR_RETURN(const double ms, row.Positive("iteration time (ms)"));
    one.micros = ms * 1e3;
    EBB_RETURN_IF_ERROR(CheckRun(one.run));
    runs.push_back(one);
  }
  return runs;
}

absl::StatusOr<perfmodel::Fabric> VtrainFabric(const std::string& data) {
  std::vector<Curve> curves;
  for (int64_t ranks = 2; ranks <= 8; ++ranks) {
    const std::string path =
        absl::StrCat(data, "/collectives/vtrain/a100/AR_GPU", ranks, "_1M_1024M_LUT");
    EBB_ASSIGN_OR_RETURN(const std::string text, ReadTable(path));
    EBB_ASSIGN_OR_RETURN(const auto table, perfmodel::CsvTable::Parse(text, path));
    std::vector<CurvePoint> points;
    for (const perfmodel::CsvRow& row : table.rows()) {
      EBB_ASSIGN_OR_RETURN(const double bytes, row.Positive("size(B)"));
      EBB_ASSIGN_OR_RETURN(const double nanos, row.Positive("time(ns)"));
      points.push_back({bytes, nanos / 1e3});
    }
    EBB_ASSIGN_OR_RETURN(Curve curve, Curve::Make({.ranks = ranks, .source = path}, points));
    curves.push_back(std::move(curve));
  }
  return perfmodel::Fabric::Make("vtrain-a100", std::move(curves));
}

}  // namespace ebb::bench
