// Weights back into the user's own ONNX file.
#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/import.h"
#include "model/onnx_node.h"
#include "model/onnx_survey.h"
#include "model/onnx_tensor.h"

namespace ebb::model {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

class Exporter {
 public:
  Exporter(onnx::ModelProto* model, const Survey& survey)
      : graph_(*model->mutable_graph()), survey_(survey), ir_version_(model->ir_version()) {}

  absl::Status Replace(const std::string& name, const HostTensor& tensor) {
    if (tensor.type.bytes() != Bytes(static_cast<int64_t>(tensor.data.size()))) {
      return Invalid(absl::StrCat("weight '", name, "' does not hold what its type says"));
    }
    const auto it = survey_.initializer.find(name);
    if (it != survey_.initializer.end()) return Fill(it->second, tensor);
    const size_t at = name.rfind('@');
    size_t number = 0;
    if (at != std::string::npos && absl::SimpleAtoi(name.substr(at + 1), &number)) {
      const auto weight = survey_.weights.find(name.substr(0, at));
      if (weight != survey_.weights.end() && number >= 2 && number <= weight->second.uses.size()) {
        const auto [node, input] = weight->second.uses[number - 1];
        EBB_RETURN_IF_ERROR(
            CheckType(name, graph_.initializer(survey_.initializer.at(weight->first)), tensor));
        graph_.mutable_node(node)->set_input(input, name);
        Append(name, tensor);
        return absl::OkStatus();
      }
    }
    const auto producer = survey_.producer.find(name);
    if (producer != survey_.producer.end() && IsConstant(producer->second)) {
      removed_.push_back(producer->second);
      Append(name, tensor);
      return absl::OkStatus();
    }
    return Invalid(absl::StrCat("the ONNX file has no weight '", name, "'"));
  }

  // Drops nodes whose outputs are initializers now.
  void RemoveNodes() {
    std::sort(removed_.begin(), removed_.end(), std::greater<>());
    for (int node : removed_) graph_.mutable_node()->DeleteSubrange(node, 1);
  }

 private:
  // A node of one output that depends on no input and no weight: importing can have computed it.
  bool IsConstant(int node) const {
    if (graph_.node(node).output_size() != 1) return false;
    absl::flat_hash_set<int> seen = {node};
    std::vector<int> work = {node};
    while (!work.empty()) {
      const onnx::NodeProto& visited = graph_.node(work.back());
      work.pop_back();
      for (const std::string& input : visited.input()) {
        const auto it = survey_.producer.find(input);
        if (it != survey_.producer.end()) {
          if (seen.insert(it->second).second) work.push_back(it->second);
        } else if (!input.empty() &&
                   (!survey_.initializer.contains(input) || survey_.weights.contains(input))) {
          return false;
        }
      }
    }
    return true;
  }

  static absl::Status CheckType(const std::string& name, const onnx::TensorProto& proto,
                                const HostTensor& tensor) {
    auto type = TensorTypeOf(proto);
    if (!type.ok()) return Annotate(type.status(), absl::StrCat("initializer '", name, "'"));
    if (*type != tensor.type) {
      return Invalid(absl::StrCat("weight '", name, "' is ", graph::ToString(tensor.type),
                                  ", in the file it is ", graph::ToString(*type)));
    }
    return absl::OkStatus();
  }

  absl::Status Fill(int index, const HostTensor& tensor) {
    onnx::TensorProto* proto = graph_.mutable_initializer(index);
    EBB_RETURN_IF_ERROR(CheckType(proto->name(), *proto, tensor));
    WriteTensor(tensor, proto);
    return absl::OkStatus();
  }

  void Append(const std::string& name, const HostTensor& tensor) {
    onnx::TensorProto* proto = graph_.add_initializer();
    proto->set_name(name);
    proto->set_data_type(OnnxFromDType(tensor.type.dtype));
    for (int64_t dim : tensor.type.shape) proto->add_dims(dim);
    WriteTensor(tensor, proto);
    if (ir_version_ >= 4) return;
    // Before IR version 4 every initializer is an input too.
    onnx::ValueInfoProto* input = graph_.add_input();
    input->set_name(name);
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(proto->data_type());
    for (int64_t dim : tensor.type.shape) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }

  onnx::GraphProto& graph_;
  const Survey& survey_;
  const int64_t ir_version_;
  std::vector<int> removed_;
};

}  // namespace

absl::StatusOr<std::string> ExportOnnx(absl::string_view original,
                                       const graph::TensorMap& weights) {
  EBB_ASSIGN_OR_RETURN(onnx::ModelProto model, ParseModel(original));
  EBB_ASSIGN_OR_RETURN(const int opset, StandardOpset(model));
  EBB_ASSIGN_OR_RETURN(const Survey survey, SurveyGraph(model.graph(), opset));
  std::vector<std::string> names;  // sorted, so that the same weights give the same bytes
  for (const auto& [name, tensor] : weights) names.push_back(name);
  std::sort(names.begin(), names.end());
  Exporter exporter(&model, survey);
  for (const std::string& name : names) {
    EBB_RETURN_IF_ERROR(exporter.Replace(name, weights.at(name)));
  }
  exporter.RemoveNodes();
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Invalid("the ONNX file would be larger than 2 GiB; take the weights as safetensors");
  }
  std::string bytes;
  if (!model.SerializeToString(&bytes)) return Invalid("the model cannot be serialised");
  return bytes;
}

}  // namespace ebb::model
