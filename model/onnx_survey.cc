// Order, liveness and differentiability of an ONNX graph.
#include "model/onnx_survey.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_node.h"
#include "model/onnx_ops.h"

namespace ebb::model {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

class Surveyor {
 public:
  Surveyor(const onnx::GraphProto& graph, int opset) : graph_(graph), opset_(opset) {}

  absl::StatusOr<Survey> Run() {
    EBB_RETURN_IF_ERROR(CollectNames());
    EBB_RETURN_IF_ERROR(FindLive());
    EBB_RETURN_IF_ERROR(Sort());
    EBB_RETURN_IF_ERROR(FindWeights());
    return std::move(survey_);
  }

 private:
  std::string Label(int node) const { return NodeLabel(graph_.node(node), opset_); }

  absl::Status CollectNames() {
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      const std::string& name = graph_.initializer(i).name();
      if (name.empty()) return Invalid(absl::StrCat("initializer ", i, " has no name"));
      if (!survey_.initializer.emplace(name, i).second) {
        return Invalid(absl::StrCat("two initializers are named '", name, "'"));
      }
      given_.insert(name);
    }
    absl::flat_hash_set<std::string> inputs;
    for (const onnx::ValueInfoProto& input : graph_.input()) {
      if (!inputs.insert(input.name()).second) {
        return Invalid(absl::StrCat("two inputs are named '", input.name(), "'"));
      }
      given_.insert(input.name());
    }
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (graph_.node(i).output_size() == 0) return Invalid(Label(i) + " has no outputs");
      for (const std::string& output : graph_.node(i).output()) {
        if (output.empty()) continue;
        if (given_.contains(output) || !survey_.producer.emplace(output, i).second) {
          return Invalid(absl::StrCat(Label(i), " makes '", output, "', which already exists"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status FindLive() {
    live_.assign(static_cast<size_t>(graph_.node_size()), false);
    std::vector<int> work;
    const auto visit = [&](const std::string& name) {
      const auto it = survey_.producer.find(name);
      if (it == survey_.producer.end() || live_[static_cast<size_t>(it->second)]) return;
      live_[static_cast<size_t>(it->second)] = true;
      work.push_back(it->second);
    };
    if (graph_.output_size() == 0) return Invalid("the graph has no outputs");
    absl::flat_hash_set<std::string> outputs;
    for (const onnx::ValueInfoProto& output : graph_.output()) {
      if (!Exists(output.name())) {
        return Invalid(absl::StrCat("nothing makes the graph's output '", output.name(), "'"));
      }
      if (!outputs.insert(output.name()).second) {
        return Invalid(absl::StrCat("two outputs are named '", output.name(), "'"));
      }
      visit(output.name());
    }
    while (!work.empty()) {
      const int node = work.back();
      work.pop_back();
      for (const std::string& input : graph_.node(node).input()) {
        if (!input.empty() && !Exists(input)) {
          return Invalid(absl::StrCat(Label(node), " reads '", input, "', which nothing makes"));
        }
        visit(input);
      }
    }
    return absl::OkStatus();
  }

  bool Exists(const std::string& name) const {
    return given_.contains(name) || survey_.producer.contains(name);
  }

  // Kahn's algorithm; among ready nodes the first of the file goes first.
  absl::Status Sort() {
    const auto count = static_cast<size_t>(graph_.node_size());
    std::vector<int> missing(count, 0);
    std::vector<std::vector<int>> readers(count);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    int num_live = 0;
    for (int i = 0; i < graph_.node_size(); ++i) {
      const auto index = static_cast<size_t>(i);
      if (!live_[index]) continue;
      ++num_live;
      for (const std::string& input : graph_.node(i).input()) {
        const auto it = survey_.producer.find(input);
        if (it == survey_.producer.end()) continue;
        ++missing[index];
        readers[static_cast<size_t>(it->second)].push_back(i);
      }
      if (missing[index] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const int node = ready.top();
      ready.pop();
      survey_.order.push_back(node);
      for (int reader : readers[static_cast<size_t>(node)]) {
        if (--missing[static_cast<size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (static_cast<int>(survey_.order.size()) == num_live) return absl::OkStatus();
    for (size_t i = 0; i < count; ++i) {
      if (live_[i] && missing[i] > 0) {
        return Invalid(Label(static_cast<int>(i)) + " depends on its own output: a cycle");
      }
    }
    return absl::OkStatus();
  }

  // Bit i: a gradient flows from the node's outputs to its input i.
  uint32_t DifferentiableInputs(const onnx::NodeProto& node) const {
    if (node.op_type() == "Cast") {
      const NodeView view(node, opset_, {});
      const int64_t to = view.Int("to", 0);
      const bool to_float = to == onnx::TensorProto::FLOAT || to == onnx::TensorProto::DOUBLE;
      return to_float ? kAllInputs : kNoInputs;
    }
    const OnnxOp* op = FindOnnxOp(node.op_type());
    return op == nullptr ? kNoInputs : op->differentiable;
  }

  // The value that `name` is a copy of, through Identity nodes. The nodes are sorted by now, so the
  // walk ends.
  std::string Root(std::string name) const {
    while (true) {
      const auto it = survey_.producer.find(name);
      if (it == survey_.producer.end()) return name;
      const onnx::NodeProto& node = graph_.node(it->second);
      if (node.op_type() != "Identity" || node.input_size() != 1) return name;
      name = node.input(0);
    }
  }

  absl::Status FindWeights() {
    absl::flat_hash_set<std::string> wanted;
    for (const onnx::ValueInfoProto& output : graph_.output()) wanted.insert(output.name());
    std::vector<std::pair<Survey::Use, Survey::Kind>> uses;
    for (size_t at = survey_.order.size(); at-- > 0;) {
      const int index = survey_.order[at];
      const onnx::NodeProto& node = graph_.node(index);
      const auto& outputs = node.output();
      if (std::none_of(outputs.begin(), outputs.end(),
                       [&](const std::string& name) { return wanted.contains(name); })) {
        continue;
      }
      const uint32_t mask = DifferentiableInputs(node);
      const bool batch_norm = node.op_type() == "BatchNormalization";
      for (int i = 0; i < node.input_size(); ++i) {
        const bool statistic = batch_norm && (i == 3 || i == 4);
        const bool flows = ((mask >> std::min(i, 31)) & 1) != 0;
        if (flows) wanted.insert(node.input(i));
        if ((flows && node.op_type() != "Identity") || statistic) {
          uses.push_back({{index, i}, statistic ? Survey::Kind::kBuffer : Survey::Kind::kParam});
        }
      }
    }
    std::sort(uses.begin(), uses.end());
    for (const auto& [use, kind] : uses) {
      const std::string root = Root(graph_.node(use.first).input(use.second));
      const auto it = survey_.initializer.find(root);
      if (it == survey_.initializer.end()) continue;
      const int type = graph_.initializer(it->second).data_type();
      if (type != onnx::TensorProto::FLOAT && type != onnx::TensorProto::DOUBLE) continue;
      auto [weight, is_new] = survey_.weights.try_emplace(root);
      if (is_new) weight->second.kind = kind;
      if (weight->second.kind != kind) {
        return Invalid(absl::StrCat(Label(use.first), " uses '", root,
                                    "' both as a weight and as a running statistic"));
      }
      weight->second.uses.push_back(use);
    }
    return absl::OkStatus();
  }

  const onnx::GraphProto& graph_;
  const int opset_;
  Survey survey_;
  absl::flat_hash_set<std::string> given_;  // inputs and initializers
  std::vector<bool> live_;
};

}  // namespace

absl::StatusOr<onnx::ModelProto> ParseModel(absl::string_view bytes) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Invalid(
        "the ONNX file is larger than 2 GiB; save it with external data "
        "(onnx.save(model, path, save_as_external_data=True))");
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Invalid("the bytes are no ONNX model (the protobuf is damaged or cut short)");
  }
  if (!model.has_graph()) return Invalid("the bytes are no ONNX model: there is no graph");
  return model;
}

absl::StatusOr<int> StandardOpset(const onnx::ModelProto& model) {
  int64_t opset = 0;
  for (const auto& import : model.opset_import()) {
    if (IsStandardDomain(import.domain())) opset = std::max(opset, import.version());
  }
  if (opset == 0) return Invalid("the model does not say which opset of ai.onnx it uses");
  if (opset < kMinOpset || opset > kMaxOpset) {
    return absl::UnimplementedError(absl::StrCat(
        "the model uses opset ", opset, "; Ebb reads opsets ", kMinOpset, " to ", kMaxOpset,
        ". Export it again with opset_version=17, or convert it with onnx.version_converter"));
  }
  return static_cast<int>(opset);
}

absl::StatusOr<Survey> SurveyGraph(const onnx::GraphProto& graph, int opset) {
  return Surveyor(graph, opset).Run();
}

std::string SplitName(absl::string_view weight, size_t index) {
  return index == 0 ? std::string(weight) : absl::StrCat(weight, "@", index + 1);
}

}  // namespace ebb::model
