// An OpModel as a text of JSON and back; what is read is not trusted.
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/op_model.h"

namespace ebb::perfmodel {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "ebb-op-model";
constexpr int64_t kVersion = 1;
constexpr size_t kLargestText = 256 << 20;

// The numbers of Hardware by name.
std::vector<std::pair<const char*, double Hardware::*>> HardwareNumbers() {
  return {{"multiprocessors", &Hardware::multiprocessors},
          {"fp32_tflops", &Hardware::fp32_tflops},
          {"tf32_tflops", &Hardware::tf32_tflops},
          {"half_tflops", &Hardware::half_tflops},
          {"bandwidth_gbs", &Hardware::bandwidth_gbs},
          {"l2_mib", &Hardware::l2_mib},
          {"memory_gib", &Hardware::memory_gib},
          {"link_gbs", &Hardware::link_gbs},
          {"bus_gbs", &Hardware::bus_gbs}};
}

json TreeJson(const Tree& tree) {
  json nodes = json::array();
  for (const TreeNode& node : tree) {
    nodes.push_back({node.feature, node.threshold, node.left, node.right, node.value});
  }
  return nodes;
}

json LawJson(const OpLaw& law) {
  json trees = json::array();
  for (const Tree& tree : law.residual.trees()) trees.push_back(TreeJson(tree));
  return {{"terms", law.terms == Terms::kShort ? "short" : "long"},
          {"coefficients", law.coefficients},
          {"start", law.residual.start()},
          {"trees", std::move(trees)},
          {"places", law.hull.places},
          {"usual", law.hull.usual},
          {"fade", law.fade},
          {"scatter", law.scatter},
          {"with_residual", {law.with_residual.low, law.with_residual.high}},
          {"base_alone", {law.base_alone.low, law.base_alone.high}},
          {"peak", {law.peak.flops_per_us, law.peak.bytes_per_us}},
          {"samples", law.samples},
          {"mape", law.mape}};
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

const json& Member(const json& object, const char* key) {
  static const json none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

absl::StatusOr<double> Number(const json& object, const char* key, double least = -1e300) {
  const json& value = Member(object, key);
  if (!value.is_number()) return Wrong(absl::StrCat(key, " must be a number"));
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < least) {
    return Wrong(absl::StrCat(key, " is out of range: ", number));
  }
  return number;
}

absl::StatusOr<std::vector<double>> Numbers(const json& value, absl::string_view key, size_t count,
                                            double least = -1e300) {
  if (!value.is_array() || value.size() != count) {
    return Wrong(absl::StrCat(key, " must be a list of ", count, " numbers"));
  }
  std::vector<double> numbers;
  for (const json& one : value) {
    if (!one.is_number() || !std::isfinite(one.get<double>()) || one.get<double>() < least) {
      return Wrong(absl::StrCat(key, " must be a list of ", count, " numbers in range"));
    }
    numbers.push_back(one.get<double>());
  }
  return numbers;
}

absl::StatusOr<Tree> ReadTree(const json& value, size_t features) {
  if (!value.is_array() || value.empty() || value.size() > 4096) {
    return Wrong("a tree must be a list of 1 to 4096 nodes");
  }
  Tree tree;
  const auto count = static_cast<double>(value.size());
  for (const json& one : value) {
    EBB_ASSIGN_OR_RETURN(const std::vector<double> row, Numbers(one, "a tree's node", 5));
    const auto at = static_cast<double>(tree.size());
    const auto child = [&](double to) { return to > at && to < count && std::floor(to) == to; };
    TreeNode node{.threshold = row[1], .value = row[4]};
    if (row[0] != -1) {
      if (row[0] < 0 || row[0] >= static_cast<double>(features) || std::floor(row[0]) != row[0] ||
          !child(row[2]) || !child(row[3])) {
        return Wrong("a tree's node points to what is not below it");
      }
      node.feature = static_cast<int32_t>(row[0]);
      node.left = static_cast<int32_t>(row[2]);
      node.right = static_cast<int32_t>(row[3]);
    }
    tree.push_back(node);
  }
  return tree;
}

absl::StatusOr<Spread> ReadSpread(const json& object, const char* key) {
  EBB_ASSIGN_OR_RETURN(const std::vector<double> pair, Numbers(Member(object, key), key, 2));
  if (pair[0] > 0 || pair[1] < 0 || pair[0] < -50 || pair[1] > 50) {
    return Wrong(absl::StrCat(key, " must hold 0"));
  }
  return Spread{pair[0], pair[1]};
}

absl::Status ReadHull(const json& object, size_t width, Hull* hull) {
  EBB_ASSIGN_OR_RETURN(hull->usual, Number(object, "usual", 1e-9));
  const json& places = Member(object, "places");
  if (!places.is_array() || places.empty()) return Wrong("places must be a list of lists");
  for (const json& place : places) {
    EBB_ASSIGN_OR_RETURN(std::vector<double> one, Numbers(place, "a place", width));
    hull->places.push_back(std::move(one));
  }
  return absl::OkStatus();
}

absl::StatusOr<OpLaw> ReadLaw(const json& object, const Work& like, const Hardware& hardware) {
  OpLaw law;
  const json& terms = Member(object, "terms");
  if (terms != "short" && terms != "long") return Wrong("terms must be short or long");
  law.terms = terms == "short" ? Terms::kShort : Terms::kLong;
  const size_t width = TermsOf(like, hardware, law.terms).size();
  EBB_ASSIGN_OR_RETURN(law.coefficients,
                       Numbers(Member(object, "coefficients"), "coefficients", width, 0));
  EBB_ASSIGN_OR_RETURN(const double start, Number(object, "start"));
  const json& listed = Member(object, "trees");
  if (!listed.is_array() || listed.size() > 10000) return Wrong("trees must be a list");
  std::vector<Tree> trees;
  for (const json& one : listed) {
    EBB_ASSIGN_OR_RETURN(Tree tree, ReadTree(one, FeaturesOf(like, hardware).size()));
    trees.push_back(std::move(tree));
  }
  law.residual = BoostedTrees(start, std::move(trees));
  EBB_RETURN_IF_ERROR(ReadHull(object, PlaceOf(like).size(), &law.hull));
  EBB_ASSIGN_OR_RETURN(law.fade, Number(object, "fade", 0));
  EBB_ASSIGN_OR_RETURN(law.scatter, Number(object, "scatter", 0));
  EBB_ASSIGN_OR_RETURN(law.mape, Number(object, "mape", 0));
  EBB_ASSIGN_OR_RETURN(law.with_residual, ReadSpread(object, "with_residual"));
  EBB_ASSIGN_OR_RETURN(law.base_alone, ReadSpread(object, "base_alone"));
  EBB_ASSIGN_OR_RETURN(const std::vector<double> peak,
                       Numbers(Member(object, "peak"), "peak", 2, 1e-9));
  law.peak = {peak[0], peak[1]};
  const json& samples = Member(object, "samples");
  if (!samples.is_number_integer() || samples.get<int64_t>() < 1) {
    return Wrong("samples must be a whole number from 1");
  }
  law.samples = samples.get<int64_t>();
  return law;
}

absl::StatusOr<Hardware> ReadHardware(const json& object) {
  if (!object.is_object()) return Wrong("hardware must be an object");
  Hardware hardware;
  for (const auto& [key, to] :
       {std::pair("key", &hardware.key), std::pair("name", &hardware.name)}) {
    const json& value = Member(object, key);
    if (!value.is_string()) return Wrong(absl::StrCat("hardware's ", key, " must be text"));
    *to = value.get<std::string>();
  }
  for (const auto& [key, member] : HardwareNumbers()) {
    EBB_ASSIGN_OR_RETURN(hardware.*member, Number(object, key, 0));
  }
  const json& bf16 = Member(object, "bf16");
  if (!bf16.is_boolean()) return Wrong("hardware's bf16 must be true or false");
  hardware.bf16 = bf16.get<bool>();
  return hardware;
}

absl::StatusOr<OpModel> Read(absl::string_view text) {
  if (text.size() > kLargestText) return Wrong("above 256 MiB");
  const json whole = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object()) return Wrong("not one whole JSON object; was the file cut off?");
  if (Member(whole, "format") != kFormat) return Wrong(absl::StrCat("format must be ", kFormat));
  if (Member(whole, "version") != kVersion) {
    return Wrong(absl::StrCat("version must be ", kVersion, ": calibrate again"));
  }
  EBB_ASSIGN_OR_RETURN(Hardware hardware, ReadHardware(Member(whole, "hardware")));
  EBB_ASSIGN_OR_RETURN(const OpModel empty, OpModel::Make(hardware));
  const json& listed = Member(whole, "laws");
  if (!listed.is_array() || listed.size() > 1000) return Wrong("laws must be a list");
  OpModel::Laws laws;
  for (const json& one : listed) {
    const json& family = Member(one, "family");
    const json& dtype = Member(one, "dtype");
    if (!family.is_string() || !dtype.is_string()) return Wrong("a law needs family and dtype");
    Work like;
    EBB_ASSIGN_OR_RETURN(like.family, ParseFamily(family.get<std::string>()));
    const std::optional<graph::DType> type = graph::ParseDType(dtype.get<std::string>());
    if (!type.has_value()) return Wrong("a law's dtype must be a type of elements, like f32");
    like.dtype = *type;
    absl::StatusOr<OpLaw> law = ReadLaw(one, like, hardware);
    if (!law.ok()) return Annotate(law.status(), absl::StrCat("law of ", Name(like.family)));
    laws[{like.family, like.dtype}] = *std::move(law);
  }
  return OpModel::Make(std::move(hardware), std::move(laws));
}

}  // namespace

std::string OpModel::Save() const {
  json hardware = {{"key", hardware_.key}, {"name", hardware_.name}, {"bf16", hardware_.bf16}};
  for (const auto& [key, member] : HardwareNumbers()) hardware[key] = hardware_.*member;
  json laws = json::array();
  for (const auto& [key, law] : laws_) {
    json one = LawJson(law);
    one["family"] = std::string(Name(key.first));
    one["dtype"] = std::string(graph::Name(key.second));
    laws.push_back(std::move(one));
  }
  const json whole = {
      {"format", kFormat}, {"version", kVersion}, {"hardware", hardware}, {"laws", laws}};
  return absl::StrCat(whole.dump(-1, ' ', false, json::error_handler_t::replace), "\n");
}

absl::StatusOr<OpModel> OpModel::Load(absl::string_view text, absl::string_view source) {
  absl::StatusOr<OpModel> model = Read(text);
  if (!model.ok()) return Annotate(model.status(), source);
  return model;
}

}  // namespace ebb::perfmodel
