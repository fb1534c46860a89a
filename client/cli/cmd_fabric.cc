// fabric: what joins GPUs, for predictions of collectives (docs/perfmodel.md).
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "base/units.h"
#include "client/cli/commands.h"
#include "client/cli/measure_fabric.h"
#include "client/cli/render.h"
#include "client/local_file.h"
#include "data/gzip.h"
#include "perfmodel/curve_import.h"
#include "perfmodel/fabric_file.h"

namespace ebb::cli {
namespace {

using perfmodel::CollectiveKind;
using perfmodel::Curve;
using perfmodel::Estimate;
using perfmodel::Fabric;

struct Call {
  const Args& args;
  OutputStyle style;
};

constexpr size_t kMany = std::numeric_limits<size_t>::max();
constexpr Bytes kMostText = MiB(256);
constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                                     CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                                     CollectiveKind::kBroadcast,     CollectiveKind::kSendRecv};
constexpr Bytes kSizes[] = {KiB(1), KiB(32), MiB(1), MiB(32), GiB(1)};

absl::StatusOr<std::string> TextOf(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(std::string bytes, client::ReadRegularFile(path));
  if (!data::IsGzip(bytes)) return bytes;
  auto text = data::Gunzip(bytes, kMostText);
  return text.ok() ? std::move(text) : Annotate(text.status(), path);
}

// A preset's name, or a file's.
absl::StatusOr<Fabric> FabricOf(const std::string& name) {
  auto preset = perfmodel::FindFabric(name);
  if (preset.ok()) return preset;
  const auto text = TextOf(name);
  if (text.ok()) return perfmodel::ParseFabric(*text, name);
  if (!absl::IsNotFound(text.status())) return text.status();
  return absl::NotFoundError(
      absl::StrCat("there is no file ", Escaped(name), ", and ", preset.status().message()));
}

absl::StatusOr<std::vector<int64_t>> NumbersOf(const Args& args, const std::string& flag) {
  std::vector<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(args.Get(flag), ',', absl::SkipEmpty())) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 2 || number > Curve::kMaxRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": '", part, "' is no number from 2 to ", Curve::kMaxRanks));
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<int64_t> RanksOf(const Fabric& fabric) {
  if (fabric.curves().empty()) return Sweeps(std::min<int64_t>(fabric.topology()->gpus(), 64));
  std::vector<int64_t> ranks;
  for (const Curve& curve : fabric.curves()) ranks.push_back(curve.ranks());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

double Busbw(CollectiveKind kind, int64_t ranks, Bytes bytes, const Estimate& estimate) {
  return static_cast<double>(bytes.count()) * perfmodel::BusFactor(kind, ranks) /
         (estimate.median * 1e3);
}

std::string About(const Fabric& fabric) {
  std::string text = absl::StrCat("fabric ", fabric.name(), "\n");
  if (const auto& topology = fabric.topology()) {
    absl::StrAppendFormat(&text, "  %s, %d x %d GPUs, %g GB/s a link (%g of use)%s",
                          perfmodel::Name(topology->link), topology->nodes, topology->gpus_per_node,
                          topology->link_gbs, topology->usable_gbs,
                          topology->switch_sums ? ", switches that add" : "");
    if (topology->nodes > 1) {
      absl::StrAppendFormat(&text, ", %d adapters of %g GB/s a node", topology->nics,
                            topology->nic_gbs);
    }
    text += "\n";
  }
  for (const Curve& curve : fabric.curves()) {
    absl::StrAppendFormat(
        &text, "  measured: %s of %d ranks on %d node(s), %d sizes from %s to %s%s\n",
        perfmodel::Name(curve.kind()), curve.ranks(), curve.nodes(), curve.points().size(),
        FormatBytes(Bytes(static_cast<int64_t>(curve.points().front().bytes))),
        FormatBytes(Bytes(static_cast<int64_t>(curve.points().back().bytes))),
        curve.subject().source.empty() ? "" : absl::StrCat(" (", curve.subject().source, ")"));
  }
  return text;
}

int Show(const Call& call, const std::vector<std::string>& names) {
  if (names.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& preset : perfmodel::KnownFabrics())
      rows.push_back({preset.name, preset.about});
    std::fputs(Table(rows).c_str(), stdout);
    return kOk;
  }
  if (names.size() > 1) return Fail(absl::InvalidArgumentError("show takes one fabric"));
  const auto fabric = FabricOf(names[0]);
  if (!fabric.ok()) return Fail(fabric.status());
  auto ranks = NumbersOf(call.args, "ranks");
  if (!ranks.ok()) return Fail(ranks.status());
  if (ranks->empty()) *ranks = RanksOf(*fabric);
  std::vector<std::vector<std::string>> table = {{"busbw, GB/s", "ranks"}};
  for (const Bytes bytes : kSizes) table[0].push_back(FormatBytes(bytes));
  table[0].push_back("from");
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const CollectiveKind kind : kKinds) {
    for (const int64_t of : *ranks) {
      std::vector<std::string> row = {std::string(perfmodel::Name(kind)), absl::StrCat(of)};
      std::string source;
      for (const Bytes bytes : kSizes) {
        const auto estimate = fabric->Predict(
            {.kind = kind, .ranks = of, .bytes = static_cast<double>(bytes.count())});
        source = estimate.ok() ? estimate->source : std::string(estimate.status().message());
        row.push_back(estimate.ok() ? absl::StrFormat("%.4g", Busbw(kind, of, bytes, *estimate))
                                    : "-");
        if (!estimate.ok()) continue;
        cells.push_back({{"kind", perfmodel::Name(kind)},
                         {"ranks", of},
                         {"bytes", bytes.count()},
                         {"median_us", estimate->median},
                         {"low_us", estimate->low},
                         {"high_us", estimate->high},
                         {"in_hull", estimate->in_hull},
                         {"busbw_gbs", Busbw(kind, of, bytes, *estimate)},
                         {"source", estimate->source}});
      }
      row.push_back(source);
      table.push_back(std::move(row));
    }
  }
  if (call.style == OutputStyle::kJson) {
    const nlohmann::ordered_json json = {{"name", fabric->name()}, {"predictions", cells}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s%s", About(*fabric).c_str(), Table(table).c_str());
  }
  return kOk;
}

// Names, checks and writes the fabric of these curves.
int Write(const Call& call, std::vector<Curve> curves) {
  std::optional<perfmodel::Topology> topology;
  if (call.args.Has("preset")) {
    const auto preset = perfmodel::FindFabric(call.args.Get("preset"));
    if (!preset.ok()) return Fail(Annotate(preset.status(), "--preset"));
    topology = preset->topology();
  }
  const std::string name = call.args.Get("name", "measured");
  if (name.empty() || !IsPrintable(name) || name.size() > 256) {
    return Fail(absl::InvalidArgumentError("--name must be 1 to 256 printable bytes"));
  }
  const auto fabric = Fabric::Make(name, std::move(curves), topology);
  if (!fabric.ok()) return Fail(fabric.status());
  const std::string path = call.args.Get("o", absl::StrCat(name, ".yaml"));
  const auto file = client::OutputFile::Create(path);
  if (!file.ok()) return Fail(file.status());
  absl::Status written = (*file)->Write(perfmodel::FabricText(*fabric));
  if (written.ok()) written = (*file)->Commit();
  if (!written.ok()) return Fail(written);
  if (call.style == OutputStyle::kJson) {
    const nlohmann::ordered_json json = {
        {"name", name}, {"file", path}, {"curves", fabric->curves().size()}};
    std::printf("%s\n",
                json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s  %d curves\n", path.c_str(), static_cast<int>(fabric->curves().size()));
  }
  return kOk;
}

int Import(const Call& call, const std::vector<std::string>& paths) {
  if (paths.empty()) {
    return Fail(absl::InvalidArgumentError("import needs a file: ebb fabric import FILE..."));
  }
  perfmodel::CurveHints hints;
  if (call.args.Has("kind")) {
    const auto kind = perfmodel::ParseCollective(call.args.Get("kind"));
    if (!kind.ok()) return Fail(Annotate(kind.status(), "--kind"));
    hints.kind = *kind;
  }
  const auto ranks = NumbersOf(call.args, "ranks");
  if (!ranks.ok()) return Fail(ranks.status());
  if (ranks->size() > 1)
    return Fail(absl::InvalidArgumentError("--ranks: import takes one number"));
  if (!ranks->empty()) hints.ranks = ranks->front();
  std::vector<Curve> curves;
  for (const std::string& path : paths) {
    const auto text = TextOf(path);
    if (!text.ok()) return Fail(text.status());
    auto read = perfmodel::ReadCurves(*text, path, hints);
    if (!read.ok()) return Fail(read.status());
    std::move(read->begin(), read->end(), std::back_inserter(curves));
  }
  return Write(call, std::move(curves));
}

int Measure(const Call& call, const std::vector<std::string>& rest) {
  if (!rest.empty()) return Fail(absl::InvalidArgumentError("measure takes flags alone"));
  NcclTests tests;
  tests.directory = call.args.Get("nccl-tests");
  tests.least = call.args.Get("least", tests.least);
  tests.most = call.args.Get("most", tests.most);
  const auto gpus = NumbersOf(call.args, "ranks");
  if (!gpus.ok()) return Fail(gpus.status());
  tests.gpus = gpus->empty() ? Sweeps(GpusHere()) : *gpus;
  if (tests.gpus.empty()) {
    return Fail(absl::NotFoundError(absl::StrCat(
        "there are ", GpusHere(),
        " GPUs here, and collectives need two; run nccl-tests where they are and `ebb fabric "
        "import` what they print, or use one of `ebb fabric show`")));
  }
  auto curves = MeasureCurves(tests, [](const std::string& line) {
    std::fprintf(stderr, "ebb: %s\n", Escaped(line).c_str());
  });
  if (!curves.ok()) return Fail(curves.status());
  return Write(call, *std::move(curves));
}

int FabricCommand(const Args& args, OutputStyle style) {
  const Call call{args, style};
  const std::string& what = call.args.positional()[0];
  const std::vector<std::string> rest(call.args.positional().begin() + 1,
                                      call.args.positional().end());
  if (what == "show") return Show(call, rest);
  if (what == "import") return Import(call, rest);
  if (what == "measure") return Measure(call, rest);
  return Fail(absl::InvalidArgumentError(
      absl::StrCat("'fabric ", what, "' is none of fabric measure, show, import")));
}

}  // namespace

std::vector<Command> FabricCommands() {
  return {
      {"fabric",
       "fabric show [FABRIC] | fabric import FILE... | fabric measure [flags]",
       "What joins GPUs: show a fabric's collectives, make one of logs of nccl-tests or by running "
       "them. Needs no daemon.",
       "  ebb fabric show                          # the fabrics that are known\n"
       "  ebb fabric show h100-ib400 --ranks 8,16\n"
       "  ebb fabric import all_reduce.log alltoall.log --name lab -o lab.yaml\n"
       "  ebb fabric measure --nccl-tests ~/nccl-tests/build --name lab --preset a100-nvswitch\n",
       1,
       kMany,
       {{"name", "NAME", "of the fabric that is made (default: measured)"},
        {"o", "FILE", "where to write it (default: NAME.yaml)"},
        {"preset", "FABRIC", "give it the topology of a known one, for what was not measured"},
        {"ranks", "N,...", "show and measure: numbers of ranks; import: where a log has none"},
        {"kind", "KIND", "import: all_reduce, all_gather, ... where a log does not say"},
        {"nccl-tests", "DIR", "measure: the folder of the programs (default: $PATH)"},
        {"least", "SIZE", "measure: the least size (default: 8)"},
        {"most", "SIZE", "measure: the largest size (default: 1G)"}},
       nullptr,
       FabricCommand},
  };
}

}  // namespace ebb::cli
