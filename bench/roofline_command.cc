#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/report.h"
#include "bench/roofline.h"

namespace ebb::bench {
namespace {

std::string DepthText(int64_t depth) { return depth == 0 ? "none" : absl::StrCat(depth); }

std::string FitText(const RooflineFit& fit) {
  if (fit.rows == 0) return "-";
  return absl::StrFormat("%.2f (%.2f)", fit.ratio, fit.off);
}

std::string GridTable(const RooflineReport& report) {
  std::string out = absl::StrFormat("by tiles of the output: rows, ratio (off)\n%-16s", "kernels");
  for (const int64_t tiles : kGridClasses)
    absl::StrAppendFormat(&out, " %19s", absl::StrCat("< ", tiles));
  absl::StrAppendFormat(&out, " %19s\n", "more");
  for (size_t s = 0; s < kKernelSets.size(); ++s) {
    absl::StrAppendFormat(&out, "%-16s", Name(kKernelSets[s]));
    for (const RooflineFit& fit : report.by_grid[s]) {
      absl::StrAppendFormat(&out, " %6d %12s", fit.rows, FitText(fit));
    }
    out += "\n";
  }
  return out;
}

std::string DepthTable(const RooflineReport& report, RooflineFits RooflineDepth::*rows) {
  std::string out = absl::StrFormat("%-8s", "depth");
  for (const KernelSet set : kKernelSets) absl::StrAppendFormat(&out, " %14s", Name(set));
  out += "\n";
  for (const RooflineDepth& depth : report.by_depth) {
    absl::StrAppendFormat(&out, "%-8s", DepthText(depth.depth));
    for (const RooflineFit& fit : depth.*rows) absl::StrAppendFormat(&out, " %14s", FitText(fit));
    out += "\n";
  }
  absl::StrAppendFormat(&out, "%-8s", "nearest");
  for (const KernelSet set : kKernelSets) {
    const auto depth = NearestDepth(report, rows, set);
    absl::StrAppendFormat(&out, " %14s", depth.has_value() ? DepthText(*depth) : "-");
  }
  absl::StrAppendFormat(&out, "\n%-8s", "rows");
  for (const RooflineFit& fit : report.by_depth[0].*rows) {
    absl::StrAppendFormat(&out, " %14d", fit.rows);
  }
  return out + "\n";
}

std::string Table(const RooflineOptions& options, const RooflineReport& report) {
  const device::SimProfile& profile = options.profile;
  std::string out = absl::StrFormat(
      "Simulated: %s (sim:%s), beside measured kernels of %s\nconstants sha256:%s\n"
      "split_depth %g, conv_split_depth %g\n"
      "ratio: median of simulated / measured time; off: half of the rows are within this "
      "factor\n\n",
      profile.name, profile.key, options.gpu, profile.sha256, profile.split_depth,
      profile.conv_split_depth);
  for (const RooflineTable& table : report.tables) {
    absl::StrAppendFormat(
        &out,
        "%-8s %6d rows, fixed part %.1f us (the smallest latency); compared: %d of twice that\n",
        Name(table.op), table.rows, table.fixed_us, table.compared);
  }
  absl::StrAppend(&out, "\n", GridTable(report));
  absl::StrAppend(&out, "\nby split depth, grids with fewer tiles than slots: ratio (off)\n",
                  DepthTable(report, &RooflineDepth::few_tiles));
  absl::StrAppend(&out, "\nby split depth, of these the rows that a depth of ", kLeastDepth,
                  " splits: ratio (off)\n", DepthTable(report, &RooflineDepth::reached));
  return out;
}

std::string FitJson(const RooflineFit& fit) {
  if (fit.rows == 0) return "{\"rows\": 0}";
  return absl::StrFormat("{\"rows\": %d, \"ratio\": %.4f, \"off\": %.4f}", fit.rows, fit.ratio,
                         fit.off);
}

std::string FitsJson(const RooflineFits& fits) {
  std::vector<std::string> sets;
  for (size_t s = 0; s < kKernelSets.size(); ++s) {
    sets.push_back(absl::StrCat(Quoted(std::string(Name(kKernelSets[s]))), ": ", FitJson(fits[s])));
  }
  return absl::StrCat("{", absl::StrJoin(sets, ", "), "}");
}

std::string Json(const RooflineOptions& options, const RooflineReport& report) {
  std::vector<std::string> tables, grids, depths;
  for (const RooflineTable& table : report.tables) {
    tables.push_back(
        absl::StrFormat("    {\"op\": \"%s\", \"rows\": %d, \"fixed_us\": %.3f, \"compared\": %d}",
                        Name(table.op), table.rows, table.fixed_us, table.compared));
  }
  for (size_t c = 0; c <= kGridClasses.size(); ++c) {
    RooflineFits fits;
    for (size_t s = 0; s < fits.size(); ++s) fits[s] = report.by_grid[s][c];
    grids.push_back(absl::StrFormat(
        "    {\"tiles_below\": %s, \"kernels\": %s}",
        c < kGridClasses.size() ? absl::StrCat(kGridClasses[c]) : "null", FitsJson(fits)));
  }
  for (const RooflineDepth& depth : report.by_depth) {
    depths.push_back(
        absl::StrFormat("    {\"depth\": %s,\n     \"few_tiles\": %s,\n     \"reached\": %s}",
                        depth.depth == 0 ? "null" : absl::StrCat(depth.depth),
                        FitsJson(depth.few_tiles), FitsJson(depth.reached)));
  }
  const device::SimProfile& profile = options.profile;
  return absl::StrFormat(
      "{\n  \"simulated\": true,\n  \"profile\": %s,\n  \"constants_sha256\": %s,\n  \"gpu\": %s,\n"
      "  \"split_depth\": %g,\n  \"conv_split_depth\": %g,\n  \"tables\": [\n%s\n  ],\n"
      "  \"by_grid\": [\n%s\n  ],\n  \"by_split_depth\": [\n%s\n  ]\n}\n",
      Quoted(profile.key), Quoted(profile.sha256), Quoted(options.gpu), profile.split_depth,
      profile.conv_split_depth, absl::StrJoin(tables, ",\n"), absl::StrJoin(grids, ",\n"),
      absl::StrJoin(depths, ",\n"));
}

absl::StatusOr<device::SimProfile> ProfileOf(const std::string& device) {
  absl::string_view name = device;
  if (!absl::ConsumePrefix(&name, "sim:") || name.find('+') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device: '", device, "' is not sim:PROFILE (a kernel alone has no overlap model)"));
  }
  return device::LoadSimProfile(std::string(name));
}

}  // namespace

absl::Status Roofline(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(args, {"data", "device", "gpu", "json"}));
  RooflineOptions options;
  options.folder = TextOf(flags, "data", "");
  options.gpu = TextOf(flags, "gpu", options.gpu);
  if (options.folder.empty()) {
    return absl::InvalidArgumentError(
        "--data is needed: the folder of measured kernels, with linear/GPU.csv, bmm/GPU.csv and "
        "conv/GPU.csv or .csv.gz (docs/benchmarks.md, `roofline`, has the columns)");
  }
  EBB_ASSIGN_OR_RETURN(options.profile, ProfileOf(TextOf(flags, "device", "sim:v100-16gb")));
  EBB_ASSIGN_OR_RETURN(const RooflineReport report, CompareRoofline(options));
  std::fputs(Table(options, report).c_str(), stdout);
  return WriteJson(flags, Json(options, report));
}

}  // namespace ebb::bench
