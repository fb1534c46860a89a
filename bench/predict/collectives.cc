// Collectives: curves at sizes and numbers of ranks that they do not hold, and topologies, beside
// what others measured.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/predict/groups.h"
#include "bench/predict/sigmoid.h"
#include "bench/tables.h"
#include "perfmodel/curve_import.h"
#include "perfmodel/fabric.h"
#include "perfmodel/quantile.h"

namespace ebb::bench {
namespace {

using perfmodel::Collective;
using perfmodel::CollectiveKind;
using perfmodel::Curve;
using perfmodel::CurvePoint;
using perfmodel::Estimate;
using perfmodel::Fabric;
using Rows = std::vector<PredictRow>;

absl::StatusOr<std::vector<Curve>> CurvesOf(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadTable(path));
  return perfmodel::ReadCurves(text, path);
}

absl::StatusOr<Curve> OneCurve(absl::StatusOr<std::vector<Curve>> curves, int64_t ranks,
                               int64_t nodes, const std::string& path) {
  if (!curves.ok()) return curves.status();
  for (Curve& curve : *curves) {
    if (curve.ranks() == ranks && curve.nodes() == nodes) return std::move(curve);
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": no curve of ", ranks, " ranks on ", nodes, " nodes"));
}

absl::StatusOr<Curve> VTrain(const std::string& data, absl::string_view gpu, int64_t ranks) {
  const std::string path =
      absl::StrCat(data, "/collectives/vtrain/", gpu, "/AR_GPU", ranks, "_1M_1024M_LUT");
  return OneCurve(CurvesOf(path), ranks, 1, path);
}

std::string Vidur(const std::string& data, absl::string_view fabric, absl::string_view kind) {
  return absl::StrCat(data, "/collectives/vidur/", fabric, "/", kind, ".csv.gz");
}

// The measured sizes nearest to powers of two, and all others.
struct Split {
  std::vector<CurvePoint> seen, unseen;
};
Split AtPowersOfTwo(const std::vector<CurvePoint>& points) {
  std::vector<bool> taken(points.size());
  for (double power = std::exp2(std::floor(std::log2(points.front().bytes)));
       power <= 1.01 * points.back().bytes; power *= 2) {
    const auto nearest =
        std::min_element(points.begin(), points.end(), [&](const auto& a, const auto& b) {
          return std::abs(a.bytes - power) < std::abs(b.bytes - power);
        });
    taken[static_cast<size_t>(nearest - points.begin())] = true;
  }
  Split split;
  for (size_t i = 0; i < points.size(); ++i) {
    (taken[i] ? split.seen : split.unseen).push_back(points[i]);
  }
  return split;
}

std::vector<Predicted> Tested(const std::vector<CurvePoint>& points,
                              const std::function<Estimate(double)>& at) {
  std::vector<Predicted> tested;
  for (const CurvePoint& point : points) {
    const Estimate estimate = at(point.bytes);
    tested.push_back({point.micros, estimate.median, estimate.low, estimate.high});
  }
  return tested;
}

// One way of filling a curve from few sizes.
struct Way {
  std::string name;
  std::function<absl::StatusOr<std::function<Estimate(double)>>(const Curve&, const Split&)> fit;
};

std::vector<Way> Ways() {
  const auto plain = [](auto model) {
    return [model](double bytes) { return Estimate{.median = model.At(bytes), .source = {}}; };
  };
  return {
      {"curve",
       [](const Curve& curve,
          const Split& split) -> absl::StatusOr<std::function<Estimate(double)>> {
         EBB_ASSIGN_OR_RETURN(const Curve seen, Curve::Make(curve.subject(), split.seen));
         return [seen](double bytes) { return seen.At(bytes); };
       }},
      {"alpha-beta",
       [plain](const Curve&,
               const Split& split) -> absl::StatusOr<std::function<Estimate(double)>> {
         return plain(perfmodel::FitAlphaBeta(split.seen));
       }},
      {"sigmoid",
       [plain](const Curve& curve,
               const Split& split) -> absl::StatusOr<std::function<Estimate(double)>> {
         return plain(Sigmoid(split.seen, BusFactor(curve.kind(), curve.ranks())));
       }},
  };
}

// A curve's name and mape, and the worst of several.
struct OfCurves {
  std::vector<Predicted> all;
  std::vector<double> mapes, single_node_mapes;

  absl::Status Add(const Curve& curve, const Way& way) {
    const Split split = AtPowersOfTwo(curve.points());
    EBB_ASSIGN_OR_RETURN(const auto at, way.fit(curve, split));
    const std::vector<Predicted> tested = Tested(split.unseen, at);
    mapes.push_back(RowOf("", tested).mape);
    if (curve.nodes() == 1) single_node_mapes.push_back(mapes.back());
    all.insert(all.end(), tested.begin(), tested.end());
    return absl::OkStatus();
  }
};

PredictRow WithValue(PredictRow row, double value, std::optional<double> gate,
                     std::optional<double> baseline) {
  row.value = value;
  row.gate = gate;
  row.baseline = baseline;
  return row;
}

// The same number of ranks, other sizes.
absl::Status AddSameRanks(const std::string& data, Rows* rows) {
  std::vector<Curve> all_reduce, send_recv, large;
  for (const char* fabric :
       {"a100_dgx", "a100_pairwise_nvlink", "h100_dgx", "h100_pairwise_nvlink"}) {
    EBB_ASSIGN_OR_RETURN(auto curves, CurvesOf(Vidur(data, fabric, "all_reduce")));
    std::move(curves.begin(), curves.end(), std::back_inserter(all_reduce));
  }
  for (const char* fabric :
       {"a100_dgx", "a100_pairwise_nvlink", "a40_pairwise_nvlink", "h100_dgx"}) {
    EBB_ASSIGN_OR_RETURN(auto curves, CurvesOf(Vidur(data, fabric, "send_recv")));
    std::move(curves.begin(), curves.end(), std::back_inserter(send_recv));
  }
  for (int64_t ranks = 2; ranks <= 8; ++ranks) {
    EBB_ASSIGN_OR_RETURN(Curve curve, VTrain(data, "a100", ranks));
    large.push_back(std::move(curve));
  }
  for (const Way& way : Ways()) {
    const bool ours = way.name == "curve";
    const std::string with = absl::StrCat(", ", way.name);
    OfCurves of;
    for (const Curve& curve : all_reduce) EBB_RETURN_IF_ERROR(of.Add(curve, way));
    const PredictRow all = RowOf(absl::StrCat("all-reduce same n", with, ": median curve"), of.all);
    rows->push_back(WithValue(all, perfmodel::MedianOf(of.mapes),
                              ours ? std::optional(7.5) : std::nullopt,
                              ours ? std::optional(6.5) : std::nullopt));
    rows->push_back(WithValue(
        all, *std::max_element(of.single_node_mapes.begin(), of.single_node_mapes.end()),
        ours ? std::optional(13.0) : std::nullopt, ours ? std::optional(10.3) : std::nullopt));
    rows->back().name = absl::StrCat("all-reduce same n", with, ": worst single-node curve");
    if (ours) {
      rows->push_back(WithValue(all, all.coverage80.value_or(0), 72, {}));
      rows->back().name = "all-reduce same n, curve: coverage of 80 % intervals";
      rows->back().at_least = true;
      rows->back().high_gate = 90;
    }
    OfCurves sends, above;
    for (const Curve& curve : send_recv) EBB_RETURN_IF_ERROR(sends.Add(curve, way));
    rows->push_back(
        WithValue(RowOf(absl::StrCat("send-recv same n", with, ": median curve"), sends.all),
                  perfmodel::MedianOf(sends.mapes), {}, {}));
    for (const Curve& curve : large) EBB_RETURN_IF_ERROR(above.Add(curve, way));
    rows->push_back(
        WithValue(RowOf(absl::StrCat("all-reduce a100 from 1 MiB, n=2..8", with, ": median curve"),
                        above.all),
                  perfmodel::MedianOf(above.mapes), {}, {}));
  }
  return absl::OkStatus();
}

absl::StatusOr<PredictRow> Against(const std::string& name, const Fabric& fabric,
                                   const Curve& truth, std::optional<double> gate = {},
                                   std::optional<double> baseline = {}) {
  std::vector<Predicted> tested;
  for (const CurvePoint& point : truth.points()) {
    EBB_ASSIGN_OR_RETURN(
        const Estimate estimate,
        fabric.Predict({.kind = truth.kind(), .ranks = truth.ranks(), .bytes = point.bytes}));
    tested.push_back({point.micros, estimate.median, estimate.low, estimate.high});
  }
  return RowOf(name, tested, gate, baseline);
}

absl::StatusOr<Fabric> FabricOf(absl::string_view preset, std::vector<Curve> curves) {
  EBB_ASSIGN_OR_RETURN(const Fabric known, perfmodel::FindFabric(preset));
  return Fabric::Make(std::string(preset), std::move(curves), known.topology());
}

// Other numbers of ranks.
absl::Status AddOtherRanks(const std::string& data, Rows* rows) {
  const auto add = [&](const std::string& name, absl::string_view preset, std::vector<Curve> seen,
                       absl::StatusOr<Curve> truth, std::optional<double> gate = {},
                       std::optional<double> baseline = {}) -> absl::Status {
    if (!truth.ok()) return truth.status();
    EBB_ASSIGN_OR_RETURN(const Fabric fabric, FabricOf(preset, std::move(seen)));
    EBB_ASSIGN_OR_RETURN(PredictRow row, Against(name, fabric, *truth, gate, baseline));
    rows->push_back(std::move(row));
    return absl::OkStatus();
  };
  std::vector<Curve> a100, v100;
  for (const int64_t ranks : {2, 4}) {
    EBB_ASSIGN_OR_RETURN(Curve a, VTrain(data, "a100", ranks));
    EBB_ASSIGN_OR_RETURN(Curve v, VTrain(data, "v100", ranks));
    a100.push_back(std::move(a));
    v100.push_back(std::move(v));
  }
  EBB_RETURN_IF_ERROR(add("all-reduce a100 NVSwitch, n=2,4 -> 8", "a100-nvswitch", a100,
                          VTrain(data, "a100", 8), 6, 3.6));
  EBB_RETURN_IF_ERROR(add("all-reduce a100 NVSwitch, n=4 -> 8", "a100-nvswitch", {a100[1]},
                          VTrain(data, "a100", 8)));
  EBB_RETURN_IF_ERROR(
      add("all-reduce a100 NVSwitch, n=2,4 -> 3", "a100-nvswitch", a100, VTrain(data, "a100", 3)));
  for (const int64_t ranks : {3, 5}) {
    EBB_RETURN_IF_ERROR(add(absl::StrCat("all-reduce v100 cube mesh, n=2,4 -> ", ranks),
                            "v100-nvmesh", v100, VTrain(data, "v100", ranks)));
  }
  for (const auto& [fabric, preset] :
       {std::pair("a100_dgx", "a100-nvswitch"), std::pair("h100_dgx", "h100-nvswitch")}) {
    const std::string path = Vidur(data, fabric, "all_reduce");
    const auto curves = CurvesOf(path);
    std::vector<Curve> seen;
    for (const int64_t ranks : {2, 4}) {
      EBB_ASSIGN_OR_RETURN(Curve curve, OneCurve(curves, ranks, 1, path));
      seen.push_back(std::move(curve));
    }
    EBB_RETURN_IF_ERROR(add(absl::StrCat("all-reduce ", fabric, ", n=2,4 -> 8"), preset, seen,
                            OneCurve(curves, 8, 1, path)));
  }
  return absl::OkStatus();
}

// A preset; where it says so, with the adapters of Google's a3-mega machines in place of its own.
absl::StatusOr<Fabric> DataSheet(absl::string_view name) {
  const size_t end = name.find(' ');
  EBB_ASSIGN_OR_RETURN(const Fabric known, perfmodel::FindFabric(name.substr(0, end)));
  if (end == absl::string_view::npos) return known;
  EBB_ASSIGN_OR_RETURN(const Fabric tcp, perfmodel::FindFabric("h100-ethernet100"));
  perfmodel::Topology topology = *known.topology();
  topology.nic_gbs = 25;
  topology.nic_us = tcp.topology()->nic_us;
  return Fabric::Make(std::string(name), {}, topology);
}

// No measurement at all.
absl::Status AddTopologies(const std::string& data, Rows* rows) {
  struct Log {
    std::string name, preset;
    absl::StatusOr<Curve> truth;
  };
  const auto log = [&](absl::string_view file, int64_t ranks, int64_t nodes) {
    const std::string path = absl::StrCat(data, "/collectives/nccl-tests/", file);
    return OneCurve(CurvesOf(path), ranks, nodes, path);
  };
  const auto vidur = [&](absl::string_view fabric) {
    const std::string path = Vidur(data, fabric, "all_reduce");
    return OneCurve(CurvesOf(path), 8, 1, path);
  };
  const Log logs[] = {
      {"2x8 a100 oci", "a100-ib200", log("a100_2x8_oci_allreduce.csv", 16, 2)},
      {"2x8 h100 gcp", "h100-ib400 with 8 x 200 Gb/s Ethernet",
       log("h100_2x8_gcp_a3mega_allreduce.csv", 16, 2)},
      {"8 a100 (vTrain)", "a100-nvswitch", VTrain(data, "a100", 8)},
      {"8 a100 (Vidur)", "a100-nvswitch", vidur("a100_dgx")},
      {"8 h100 (Vidur)", "h100-nvswitch", vidur("h100_dgx")},
  };
  for (const Log& one : logs) {
    if (!one.truth.ok()) return one.truth.status();
    EBB_ASSIGN_OR_RETURN(const Fabric fabric, DataSheet(one.preset));
    const std::string name = absl::StrCat("all-reduce ", one.name, " from topology ", one.preset);
    EBB_ASSIGN_OR_RETURN(PredictRow row, Against(name, fabric, *one.truth));
    rows->push_back(std::move(row));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Rows> CollectiveRows(const std::string& data) {
  Rows rows;
  EBB_RETURN_IF_ERROR(AddSameRanks(data, &rows));
  EBB_RETURN_IF_ERROR(AddOtherRanks(data, &rows));
  EBB_RETURN_IF_ERROR(AddTopologies(data, &rows));
  return rows;
}

}  // namespace ebb::bench
