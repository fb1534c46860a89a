// ONNX's tensors and element types <-> host tensors. Sizes are checked against the bytes that are
// really there before anything is allocated.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types.h"
#include "model/import.h"
#include "model/onnx_proto.h"

namespace ebb::model {

// "FLOAT16", "BFLOAT16", ... for messages; "type 77" when unknown.
std::string OnnxTypeName(int elem_type);
// Unimplemented names the type and says what to do.
absl::StatusOr<graph::DType> DTypeFromOnnx(int elem_type);
int OnnxFromDType(graph::DType dtype);

absl::StatusOr<graph::TensorType> TensorTypeOf(const onnx::TensorProto& proto);

// External data are those of `files`, or lie in `external_dir` ("" = nowhere).
absl::StatusOr<graph::HostTensor> ReadTensor(const onnx::TensorProto& proto,
                                             const std::string& external_dir,
                                             const ExternalFiles& files = {});
// Replaces the data of `proto` by `tensor`, whose type must be the proto's: raw and in the file.
void WriteTensor(const graph::HostTensor& tensor, onnx::TensorProto* proto);

}  // namespace ebb::model
