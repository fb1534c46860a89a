#include "perfmodel/fabric_file.h"

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/text.h"
#include "base/yaml.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kMaxText = size_t{64} << 20;
constexpr size_t kMaxCurves = 4096;
constexpr size_t kMaxPoints = size_t{1} << 20;  // of all curves: aliases could repeat one at will
constexpr double kUsable = 0.8;                 // of a link's rate

class Reader {
 public:
  explicit Reader(absl::string_view source) : source_(source) {}

  absl::StatusOr<Fabric> Read(const YAML::Node& node) {
    std::string name;
    std::optional<Topology> topology;
    std::vector<Curve> curves;
    YAML::Node topology_node;
    EBB_RETURN_IF_ERROR(ReadFields(
        node, "a fabric",
        {{"name", [&](const YAML::Node& value) { return ReadText(value, &name); }},
         {"preset",
          [&](const YAML::Node& value) -> absl::Status {
            std::string preset;
            EBB_RETURN_IF_ERROR(ReadText(value, &preset));
            const auto found = FindFabric(preset);
            if (!found.ok()) return Error(value, found.status().message());
            topology = found->topology();
            return absl::OkStatus();
          }},
         {"topology",
          [&](const YAML::Node& value) {
            topology_node = value;  // over the preset, wherever that stands
            return absl::OkStatus();
          }},
         {"curves", [&](const YAML::Node& value) { return ReadCurves(value, &curves); }}}));
    if (topology_node.IsDefined() && !topology_node.IsNull()) {
      EBB_RETURN_IF_ERROR(ReadTopology(topology_node, &topology));
    }
    if (name.empty()) return Error(node, "a fabric needs a name");
    auto fabric = Fabric::Make(std::move(name), std::move(curves), topology);
    if (!fabric.ok()) return Error(node, fabric.status().message());
    return fabric;
  }

  absl::Status Error(const YAML::Node& node, absl::string_view what) const {
    const YAML::Mark mark = node.Mark();
    const std::string place =
        mark.is_null() ? "" : absl::StrCat(":", mark.line + 1, ":", mark.column + 1);
    return absl::InvalidArgumentError(absl::StrCat(source_, place, ": ", what));
  }

 private:
  using ReadField = std::function<absl::Status(const YAML::Node&)>;

  absl::Status ReadFields(const YAML::Node& node, absl::string_view what,
                          const std::map<std::string, ReadField>& fields) {
    if (!node.IsMap()) return Error(node, absl::StrCat(what, " is a mapping"));
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return Error(entry.first, "a key must be a name");
      const std::string& key = entry.first.Scalar();
      const auto field = fields.find(key);
      if (field == fields.end()) {
        std::string known;
        for (const auto& [name, read] : fields) {
          absl::StrAppend(&known, known.empty() ? "" : ", ", name);
        }
        return Error(entry.first,
                     absl::StrCat(what, " has no field '", Escaped(key), "'; it has ", known));
      }
      if (!seen.insert(key).second) {
        return Error(entry.first, absl::StrCat("'", key, "' is given twice"));
      }
      EBB_RETURN_IF_ERROR(field->second(entry.second));
    }
    return absl::OkStatus();
  }

  absl::Status ReadText(const YAML::Node& node, std::string* text) const {
    if (!node.IsScalar()) return Error(node, "it must be a text");
    if (node.Scalar().size() > 256 || !IsPrintable(node.Scalar())) {
      return Error(node, "it must be a printable text of at most 256 bytes");
    }
    *text = node.Scalar();
    return absl::OkStatus();
  }

  absl::Status ReadNumber(const YAML::Node& node, double* number) const {
    if (!node.IsScalar() || !absl::SimpleAtod(node.Scalar(), number)) {
      return Error(node, "it must be a number");
    }
    return absl::OkStatus();
  }

  absl::Status ReadWhole(const YAML::Node& node, int64_t* number) const {
    if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), number)) {
      return Error(node, "it must be a whole number");
    }
    return absl::OkStatus();
  }

  absl::Status ReadSwitch(const YAML::Node& node, bool* on) const {
    if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false")) {
      return Error(node, "it must be true or false");
    }
    *on = node.Scalar() == "true";
    return absl::OkStatus();
  }

  absl::Status ReadTopology(const YAML::Node& node, std::optional<Topology>* into) {
    Topology topology = into->value_or(Topology{});
    if (!into->has_value()) topology.usable_gbs = 0;
    const auto number = [&](double* field) {
      return [this, field](const YAML::Node& value) { return ReadNumber(value, field); };
    };
    const auto whole = [&](int64_t* field) {
      return [this, field](const YAML::Node& value) { return ReadWhole(value, field); };
    };
    EBB_RETURN_IF_ERROR(ReadFields(
        node, "a topology",
        {{"link",
          [&](const YAML::Node& value) -> absl::Status {
            std::string name;
            EBB_RETURN_IF_ERROR(ReadText(value, &name));
            const auto kind = ParseLinkKind(name);
            if (!kind.ok()) return Error(value, kind.status().message());
            topology.link = *kind;
            return absl::OkStatus();
          }},
         {"gpus_per_node", whole(&topology.gpus_per_node)},
         {"nodes", whole(&topology.nodes)},
         {"link_gbs", number(&topology.link_gbs)},
         {"usable_gbs", number(&topology.usable_gbs)},
         {"low_latency_gbs",
          [&](const YAML::Node& value) -> absl::Status {
            if (!value.IsSequence() || value.size() != 3) {
              return Error(value, "it must be three numbers: on 1, 2, 4 and more nodes");
            }
            for (size_t i = 0; i < 3; ++i) {
              EBB_RETURN_IF_ERROR(ReadNumber(value[i], &topology.low_latency_gbs[i]));
            }
            return absl::OkStatus();
          }},
         {"switch_sums",
          [&](const YAML::Node& value) { return ReadSwitch(value, &topology.switch_sums); }},
         {"nics", whole(&topology.nics)},
         {"nic_gbs", number(&topology.nic_gbs)},
         {"nic_us", number(&topology.nic_us)}}));
    if (topology.usable_gbs == 0) topology.usable_gbs = kUsable * topology.link_gbs;
    if (const absl::Status fault = CheckTopology(topology); !fault.ok()) {
      return Error(node, fault.message());
    }
    *into = topology;
    return absl::OkStatus();
  }

  absl::Status ReadPoints(const YAML::Node& node, std::vector<CurvePoint>* points) {
    if (!node.IsSequence()) return Error(node, "points are a list of [bytes, microseconds]");
    for (const YAML::Node& pair : node) {
      if (!pair.IsSequence() || pair.size() != 2) {
        return Error(pair, "a point is [bytes, microseconds]");
      }
      if (++points_ > kMaxPoints) return Error(pair, "too many points");
      CurvePoint point;
      EBB_RETURN_IF_ERROR(ReadNumber(pair[0], &point.bytes));
      EBB_RETURN_IF_ERROR(ReadNumber(pair[1], &point.micros));
      points->push_back(point);
    }
    return absl::OkStatus();
  }

  absl::Status ReadCurves(const YAML::Node& node, std::vector<Curve>* curves) {
    if (!node.IsSequence()) return Error(node, "curves are a list");
    for (const YAML::Node& item : node) {
      if (curves->size() == kMaxCurves) return Error(item, "too many curves");
      Curve::Subject subject{.ranks = 0, .source = {}};
      std::vector<CurvePoint> points;
      EBB_RETURN_IF_ERROR(ReadFields(
          item, "a curve",
          {{"kind",
            [&](const YAML::Node& value) -> absl::Status {
              std::string name;
              EBB_RETURN_IF_ERROR(ReadText(value, &name));
              const auto kind = ParseCollective(name);
              if (!kind.ok()) return Error(value, kind.status().message());
              subject.kind = *kind;
              return absl::OkStatus();
            }},
           {"ranks", [&](const YAML::Node& value) { return ReadWhole(value, &subject.ranks); }},
           {"nodes", [&](const YAML::Node& value) { return ReadWhole(value, &subject.nodes); }},
           {"source", [&](const YAML::Node& value) { return ReadText(value, &subject.source); }},
           {"points", [&](const YAML::Node& value) { return ReadPoints(value, &points); }}}));
      if (!item["kind"].IsDefined()) return Error(item, "a curve needs its kind");
      auto curve = Curve::Make(std::move(subject), std::move(points));
      if (!curve.ok()) return Error(item, curve.status().message());
      curves->push_back(*std::move(curve));
    }
    return absl::OkStatus();
  }

  const absl::string_view source_;
  size_t points_ = 0;
};

// A text in double quotes, which holds what is printable.
std::string QuotedText(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

}  // namespace

absl::StatusOr<Fabric> ParseFabric(absl::string_view text, absl::string_view source) {
  const auto fault = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(source, what));
  };
  if (text.size() > kMaxText) return fault(": a fabric's file has at most 64 MiB");
  if (!IsUtf8(text)) return fault(": it is not UTF-8");
  try {
    const YamlText yaml = LoadYaml(std::string(text));
    if (yaml.has_more) return fault(": it holds more than one document (---)");
    return Reader(source).Read(yaml.document);
  } catch (const YAML::Exception& error) {
    const std::string place =
        error.mark.is_null() ? ""
                             : absl::StrCat(":", error.mark.line + 1, ":", error.mark.column + 1);
    return fault(absl::StrCat(place, ": ", error.msg));
  }
}

std::string FabricText(const Fabric& fabric) {
  // %.17g reads back as the same number; %g is easier to read where it does too.
  const auto number = [](double value) {
    const std::string brief = absl::StrFormat("%g", value);
    double back = 0;
    return absl::SimpleAtod(brief, &back) && back == value ? brief
                                                           : absl::StrFormat("%.17g", value);
  };
  std::string out = absl::StrCat("name: ", QuotedText(fabric.name()), "\n");
  if (const auto& topology = fabric.topology()) {
    absl::StrAppend(&out, "topology:\n  link: ", Name(topology->link),
                    "\n  gpus_per_node: ", topology->gpus_per_node, "\n  nodes: ", topology->nodes,
                    "\n  link_gbs: ", number(topology->link_gbs),
                    "\n  usable_gbs: ", number(topology->usable_gbs), "\n  low_latency_gbs: [",
                    number(topology->low_latency_gbs[0]), ", ",
                    number(topology->low_latency_gbs[1]), ", ",
                    number(topology->low_latency_gbs[2]),
                    "]\n  switch_sums: ", topology->switch_sums ? "true" : "false",
                    "\n  nics: ", topology->nics, "\n  nic_gbs: ", number(topology->nic_gbs),
                    "\n  nic_us: ", number(topology->nic_us), "\n");
  }
  if (!fabric.curves().empty()) out += "curves:\n";
  for (const Curve& curve : fabric.curves()) {
    absl::StrAppend(&out, "- kind: ", Name(curve.kind()), "\n  ranks: ", curve.ranks(),
                    "\n  nodes: ", curve.nodes(), "\n");
    if (!curve.subject().source.empty()) {
      absl::StrAppend(&out, "  source: ", QuotedText(curve.subject().source), "\n");
    }
    out += "  points:\n";
    for (const CurvePoint& point : curve.points()) {
      absl::StrAppend(&out, "  - [", number(point.bytes), ", ", number(point.micros), "]\n");
    }
  }
  return out;
}

}  // namespace ebb::perfmodel
