#include "model/import_advice.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/onnx_node.h"
#include "model/onnx_ops.h"
#include "model/onnx_tensor.h"

namespace ebb::model {
namespace {

// The names of the inputs that a user gives, which initializers may be among.
std::vector<std::string> InputNames(const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::vector<std::string> names;
  for (const auto& input : graph.input()) {
    if (!initializers.contains(input.name()))
      names.push_back(absl::StrCat("\"", input.name(), "\""));
    if (names.size() == 8) break;  // the pattern is clear
  }
  return names;
}

std::string InputArguments(const std::vector<std::string>& names) {
  return absl::StrCat("input_names=[", absl::StrJoin(names, ", "), "]");
}

bool IsInteger(int type) {
  using onnx::TensorProto;
  switch (type) {
    case TensorProto::UINT8:
    case TensorProto::INT8:
    case TensorProto::UINT16:
    case TensorProto::INT16:
    case TensorProto::INT32:
    case TensorProto::INT64:
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return true;
    default:
      return false;
  }
}

// The integer initializer that `name` is or is made of, by steps that leave what an element is;
// null if there is none.
const onnx::TensorProto* IntegerSource(const onnx::GraphProto& graph, const Survey& survey,
                                       std::string name) {
  constexpr absl::string_view kSteps[] = {
      "Cast", "CastLike", "DequantizeLinear", "Identity", "Transpose", "Reshape", "Mul", "Sub"};
  while (true) {
    if (const auto it = survey.initializer.find(name); it != survey.initializer.end()) {
      const onnx::TensorProto& tensor = graph.initializer(it->second);
      return IsInteger(tensor.data_type()) && tensor.dims_size() >= 2 ? &tensor : nullptr;
    }
    const auto it = survey.producer.find(name);
    if (it == survey.producer.end()) return nullptr;
    const onnx::NodeProto& node = graph.node(it->second);
    if (!absl::c_linear_search(kSteps, node.op_type()) || node.input_size() == 0) return nullptr;
    name = node.input(0);
  }
}

// Ops that another way of writing the model avoids, which then needs another export.
bool IsFlow(absl::string_view op) {
  return op == "Loop" || op == "If" || op == "Scan" || absl::StrContains(op, "Sequence") ||
         absl::StartsWith(op, "Optional");
}

bool HasNoBatchNorm(const onnx::GraphProto& graph, const Survey& survey) {
  int convolutions = 0, biased = 0, batch_norms = 0;
  for (int index : survey.order) {
    const onnx::NodeProto& node = graph.node(index);
    if (node.op_type() == "BatchNormalization") ++batch_norms;
    if (node.op_type() != "Conv") continue;
    ++convolutions;
    if (node.input_size() > 2) ++biased;
  }
  return convolutions > 1 && biased == convolutions && batch_norms == 0;
}

}  // namespace

std::string TorchScriptCall(const onnx::GraphProto& graph) {
  const std::vector<std::string> names = InputNames(graph);
  const std::string axes =
      absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
        absl::StrAppend(out, name, ": {0: \"N\"}");
      });
  return absl::StrCat(
      "torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=False, opset_version=17, "
      "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, ",
      InputArguments(names), ", dynamic_axes={", axes, "})");
}

std::string DynamoCall(const onnx::GraphProto& graph) {
  const std::vector<std::string> names = InputNames(graph);
  const std::string shapes = absl::StrJoin(names, ", ", [](std::string* out, const std::string&) {
    absl::StrAppend(out, "{0: torch.export.Dim(\"N\", min=2)}");
  });
  return absl::StrCat(
      "torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False, "
      "opset_version=18, ",
      InputArguments(names), ", dynamic_shapes=(", shapes, names.size() == 1 ? ",))" : "))");
}

absl::Status UnsupportedNode(const onnx::GraphProto& graph, const onnx::NodeProto& node,
                             int opset) {
  const std::string name = node.name().empty() ? node.output(0) : node.name();
  const bool standard = IsStandardDomain(node.domain());
  const std::string again =
      IsFlow(node.op_type()) ? absl::StrCat(". Then export by ", TorchScriptCall(graph)) : "";
  return absl::UnimplementedError(absl::StrCat(
      "node '", name, "' uses op ", node.op_type(), " (opset ", opset, ", domain ",
      standard ? "ai.onnx" : node.domain(), "), which Ebb does not support. ",
      standard ? absl::StrCat(AdviceFor(node.op_type()), again)
               : absl::StrCat("Only the standard domain is read: export the PyTorch model itself, "
                              "not a file that a runtime has optimised or quantised, by ",
                              TorchScriptCall(graph),
                              ". Functions of the file itself become standard ops by "
                              "onnx.inliner.inline_local_functions(model)")));
}

absl::Status TiedWeight(const onnx::GraphProto& graph, const std::string& name,
                        const Survey::Weight& weight, int opset) {
  std::vector<std::string> users;
  for (const auto& use : weight.uses) {
    if (users.size() == 3) {
      users.push_back("...");
      break;
    }
    users.push_back(NodeLabel(graph.node(use.first), opset));
  }
  const bool statistic = weight.kind == Survey::Kind::kBuffer;
  return absl::InvalidArgumentError(absl::StrCat(
      "initializer '", name, "' is shared by ", weight.uses.size(), " places (",
      absl::StrJoin(users, ", "),
      ") and all its elements are equal: the exporter has merged weights that only happened to "
      "start with the same values, and they would be trained as one. Export with ",
      TorchScriptCall(graph), " or ", DynamoCall(graph),
      ", or set model.overrides.untie_uniform to split them",
      statistic ? "" : " (model.overrides.keep_tied if the model itself shares them)"));
}

absl::Status CheckNoIntegerWeights(const onnx::GraphProto& graph, const Survey& survey, int opset) {
  for (int index : survey.order) {
    const onnx::NodeProto& node = graph.node(index);
    const bool matmul = node.op_type() == "MatMul";
    const bool weighs = matmul || node.op_type() == "Gemm" || node.op_type() == "Conv" ||
                        node.op_type() == "ConvTranspose";
    if (!weighs || !IsStandardDomain(node.domain())) continue;
    for (int i = matmul ? 0 : 1; i < std::min(node.input_size(), 2); ++i) {
      const onnx::TensorProto* source = IntegerSource(graph, survey, node.input(i));
      if (source == nullptr) continue;
      return absl::UnimplementedError(absl::StrCat(
          NodeLabel(node, opset), ": its weights '", source->name(), "' are stored as ",
          OnnxTypeName(source->data_type()),
          "; integers cannot be trained. Export the float model, before any quantisation: "
          "model.float(), then ",
          TorchScriptCall(graph)));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> ExportWarnings(const onnx::GraphProto& graph, const Survey& survey) {
  std::vector<std::string> warnings;
  std::string renamed;
  for (const auto& [name, weight] : survey.weights) {
    if (renamed.empty() && absl::StartsWith(name, "onnx::")) renamed = name;
    if (weight.kind == Survey::Kind::kParam &&
        graph.initializer(survey.initializer.at(name)).dims_size() == 0) {
      warnings.push_back(absl::StrCat("'", name,
                                      "' is a single number and will be trained; freeze it if it "
                                      "is a constant of the model"));
    }
  }
  if (!renamed.empty()) {
    warnings.push_back(absl::StrCat(
        "'", renamed,
        "' and perhaps others have lost their names: constants were folded. To keep state_dict "
        "names and tied weights, export with ",
        TorchScriptCall(graph)));
  }
  if (HasNoBatchNorm(graph, survey)) {
    warnings.push_back(
        absl::StrCat("every convolution has a bias and there is no BatchNormalization: if the "
                     "network has batch norm, the exporter has folded it away. Export with ",
                     TorchScriptCall(graph)));
  }
  return warnings;
}

}  // namespace ebb::model
