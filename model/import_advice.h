// What to tell the user whose ONNX file cannot be trained as it is: what, where, and the call of
// PyTorch's exporter that makes a file that can, with the names of this file's inputs. Pure.
// Private to model.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/onnx_proto.h"
#include "model/onnx_survey.h"

namespace ebb::model {

// "torch.onnx.export(model.train(), args, "model.onnx", dynamo=False, ...)"
std::string TorchScriptCall(const onnx::GraphProto& graph);
std::string DynamoCall(const onnx::GraphProto& graph);

// Unimplemented: the node's op, opset and domain, and what to use instead.
absl::Status UnsupportedNode(const onnx::GraphProto& graph, const onnx::NodeProto& node, int opset);
// A weight whose elements are all equal and that several places use.
absl::Status TiedWeight(const onnx::GraphProto& graph, const std::string& name,
                        const Survey::Weight& weight, int opset);
// Ok, or Unimplemented: a product or convolution whose weights are integers, or made of integers.
absl::Status CheckNoIntegerWeights(const onnx::GraphProto& graph, const Survey& survey, int opset);
// What may be wrong but cannot be seen for certain: folded batch norm, lost names, single numbers.
std::vector<std::string> ExportWarnings(const onnx::GraphProto& graph, const Survey& survey);

}  // namespace ebb::model
