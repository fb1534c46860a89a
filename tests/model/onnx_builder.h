// Builds small ONNX files in memory for tests, right or wrong on purpose. One thread.
#pragma once

#include <string>
#include <vector>

#include "graph/types.h"
#include "model/import.h"
#include "model/onnx_proto.h"

namespace ebb::testing {

inline constexpr int64_t kDynamic = -1;  // a dimension named "N"

class OnnxBuilder {
 public:
  explicit OnnxBuilder(int opset = 17);

  // All return *this, so that a model reads as one expression.
  OnnxBuilder& Input(const std::string& name, const std::vector<int64_t>& dims,
                     graph::DType dtype = graph::DType::kF32);
  OnnxBuilder& Weight(const std::string& name, const graph::HostTensor& tensor);
  // f32 weights: all `value`, or 0.1, 0.2, ... when they should differ.
  OnnxBuilder& Uniform(const std::string& name, const std::vector<int64_t>& dims, float value);
  OnnxBuilder& Ramp(const std::string& name, const std::vector<int64_t>& dims);
  OnnxBuilder& Ints(const std::string& name, const std::vector<int64_t>& values);
  OnnxBuilder& Node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::string& name = "");
  // Attributes of the node added last.
  OnnxBuilder& With(const std::string& attr, int64_t value);
  OnnxBuilder& With(const std::string& attr, int value);
  OnnxBuilder& With(const std::string& attr, double value);
  OnnxBuilder& With(const std::string& attr, const std::vector<int64_t>& values);
  OnnxBuilder& With(const std::string& attr, const char* value);
  OnnxBuilder& Output(const std::string& name);

  model::onnx::ModelProto& proto() { return proto_; }
  std::string Bytes() const;
  absl::StatusOr<model::ImportedModel> Import(const model::ImportOptions& options = {}) const;
  // The message of the error that importing must give; fails the test when there is none.
  std::string Error(const model::ImportOptions& options = {}) const;

 private:
  model::onnx::AttributeProto* Attr(const std::string& name, int type);
  model::onnx::ModelProto proto_;
};

graph::HostTensor Floats(graph::Shape shape, const std::vector<float>& values);

// The names of the graph's ops in order, joined by spaces.
std::string OpsOf(const graph::Graph& graph);
// The only node of that op; fails the test (and the program) when there is none.
const graph::Node& NodeOf(const graph::Graph& graph, absl::string_view op);

std::string ReadBinary(const std::string& path);

}  // namespace ebb::testing
