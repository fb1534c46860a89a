// Reading and writing TensorProto: typed fields, raw bytes, external files.
#include "model/onnx_tensor.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/host_tensor.h"

namespace ebb::model {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

struct TypeRow {
  int onnx;
  absl::string_view name;
};
constexpr TypeRow kTypeNames[] = {
    {0, "UNDEFINED"},   {1, "FLOAT"},    {2, "UINT8"},   {3, "INT8"},    {4, "UINT16"},
    {5, "INT16"},       {6, "INT32"},    {7, "INT64"},   {8, "STRING"},  {9, "BOOL"},
    {10, "FLOAT16"},    {11, "DOUBLE"},  {12, "UINT32"}, {13, "UINT64"}, {14, "COMPLEX64"},
    {15, "COMPLEX128"}, {16, "BFLOAT16"}};

constexpr std::pair<int, DType> kDTypes[] = {{1, DType::kF32}, {11, DType::kF64},
                                             {6, DType::kI32}, {7, DType::kI64},
                                             {2, DType::kU8},  {9, DType::kBool}};

// The file that `location` names, which must lie in `dir` even after symbolic links.
absl::StatusOr<std::filesystem::path> ResolveExternal(const std::string& dir,
                                                      const std::string& location) {
  namespace fs = std::filesystem;
  if (dir.empty()) {
    return Invalid(
        absl::StrCat("its data are in the file '", location,
                     "', which was not sent along: `ebb submit` does so where it lies beside the "
                     "model; else give it in model.external_data, or save the model with the "
                     "weights inside (onnx.save(model, path, save_as_external_data=False))"));
  }
  const fs::path relative(location);
  bool inside = !location.empty() && relative.is_relative();
  for (const auto& part : relative) inside = inside && part != "..";
  if (!inside || location.find('\0') != std::string::npos) {
    return Invalid(absl::StrCat("external data location '", location,
                                "' must be a relative path inside the model's directory"));
  }
  std::error_code error;
  const fs::path root = fs::canonical(dir, error);
  if (error) return Invalid(absl::StrCat("cannot open the directory '", dir, "' of external data"));
  const fs::path file = fs::canonical(root / relative, error);
  if (error) return Invalid(absl::StrCat("external data file '", location, "' is missing"));
  const auto [mismatch, unused] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (mismatch != root.end()) {
    return Invalid(
        absl::StrCat("external data file '", location, "' is a link out of '", dir, "'"));
  }
  if (!fs::is_regular_file(file, error)) {
    return Invalid(absl::StrCat("external data file '", location, "' is no regular file"));
  }
  return file;
}

absl::StatusOr<HostTensor> ReadExternal(const onnx::TensorProto& proto, TensorType type,
                                        const std::string& dir, const ExternalFiles& files) {
  std::string location;
  int64_t offset = 0;
  const int64_t bytes = type.bytes().count();
  int64_t length = bytes;
  for (const auto& item : proto.external_data()) {
    bool ok = true;
    if (item.key() == "location") location = item.value();
    if (item.key() == "offset") ok = absl::SimpleAtoi(item.value(), &offset) && offset >= 0;
    if (item.key() == "length") ok = absl::SimpleAtoi(item.value(), &length);
    if (!ok) {
      return Invalid(
          absl::StrCat("external data ", item.key(), " '", item.value(), "' is no valid number"));
    }
  }
  if (length != bytes) {
    return Invalid(absl::StrCat("external data of ", length, " bytes for ", graph::ToString(type),
                                ", which has ", bytes));
  }
  const auto too_short = [&](int64_t size) {
    return Invalid(absl::StrCat("external data file '", location, "' has ", size, " bytes; bytes ",
                                offset, " to ", offset, "+", bytes, " are needed"));
  };
  if (const auto given = files.find(location); given != files.end()) {
    const std::string& data = *given->second;
    const auto size = static_cast<int64_t>(data.size());
    if (offset > size || bytes > size - offset) return too_short(size);
    HostTensor tensor = HostTensor::Zeros(std::move(type));
    if (bytes > 0) {
      std::memcpy(tensor.data.data(), data.data() + offset, static_cast<size_t>(bytes));
    }
    return tensor;
  }
  EBB_ASSIGN_OR_RETURN(const std::filesystem::path file, ResolveExternal(dir, location));
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, error));
  if (error || offset > size || bytes > size - offset) return too_short(size);
  HostTensor tensor = HostTensor::Zeros(std::move(type));
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(offset);
  stream.read(reinterpret_cast<char*>(tensor.data.data()), bytes);
  if (!stream) return Invalid(absl::StrCat("cannot read external data file '", location, "'"));
  return tensor;
}

template <class T, class Field>
absl::StatusOr<HostTensor> FromField(const Field& field, TensorType type) {
  const int64_t count = graph::NumElements(type.shape);
  if (field.size() != count) {
    return Invalid(absl::StrCat("it holds ", field.size(), " elements; ", graph::ToString(type),
                                " needs ", count));
  }
  HostTensor tensor = HostTensor::Zeros(std::move(type));
  auto out = tensor.as<T>();
  for (int i = 0; i < field.size(); ++i) out[static_cast<size_t>(i)] = static_cast<T>(field[i]);
  return tensor;
}

absl::StatusOr<HostTensor> ReadTyped(const onnx::TensorProto& proto, TensorType type) {
  switch (type.dtype) {
    case DType::kF32:
      return FromField<float>(proto.float_data(), std::move(type));
    case DType::kF64:
      return FromField<double>(proto.double_data(), std::move(type));
    case DType::kI32:
      return FromField<int32_t>(proto.int32_data(), std::move(type));
    case DType::kI64:
      return FromField<int64_t>(proto.int64_data(), std::move(type));
    case DType::kU8:
    case DType::kBool:
    case DType::kBF16:
    case DType::kF16:  // initialisers never are
      break;
  }
  return FromField<uint8_t>(proto.int32_data(), std::move(type));
}

}  // namespace

std::string OnnxTypeName(int elem_type) {
  for (const TypeRow& row : kTypeNames) {
    if (row.onnx == elem_type) return std::string(row.name);
  }
  return absl::StrCat("type ", elem_type);
}

absl::StatusOr<DType> DTypeFromOnnx(int elem_type) {
  for (const auto& [onnx, dtype] : kDTypes) {
    if (onnx == elem_type) return dtype;
  }
  if (elem_type == 0) return Invalid("its element type is undefined");
  return absl::UnimplementedError(
      absl::StrCat("element type ", OnnxTypeName(elem_type),
                   " is not supported; export the model in float32 (model.float()) with int64, "
                   "int32, uint8 or bool indices"));
}

int OnnxFromDType(DType dtype) {
  for (const auto& [onnx, other] : kDTypes) {
    if (other == dtype) return onnx;
  }
  return 0;
}

absl::StatusOr<TensorType> TensorTypeOf(const onnx::TensorProto& proto) {
  TensorType type;
  EBB_ASSIGN_OR_RETURN(type.dtype, DTypeFromOnnx(proto.data_type()));
  type.shape.assign(proto.dims().begin(), proto.dims().end());
  EBB_RETURN_IF_ERROR(CheckHostType(type));
  return type;
}

absl::StatusOr<HostTensor> ReadTensor(const onnx::TensorProto& proto,
                                      const std::string& external_dir, const ExternalFiles& files) {
  EBB_ASSIGN_OR_RETURN(TensorType type, TensorTypeOf(proto));
  if (proto.has_segment()) return Invalid("segmented tensors are not supported");
  const bool is_bool = type.dtype == DType::kBool;
  absl::StatusOr<HostTensor> tensor = Invalid("");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    tensor = ReadExternal(proto, std::move(type), external_dir, files);
  } else if (proto.has_raw_data() && !(proto.raw_data().empty() && type.bytes().count() != 0)) {
    const std::string& raw = proto.raw_data();
    if (static_cast<int64_t>(raw.size()) != type.bytes().count()) {
      return Invalid(absl::StrCat("it holds ", raw.size(), " bytes; ", graph::ToString(type),
                                  " needs ", type.bytes().count()));
    }
    tensor = HostTensor::Zeros(std::move(type));
    if (!raw.empty()) std::memcpy(tensor->data.data(), raw.data(), raw.size());
  } else {
    tensor = ReadTyped(proto, std::move(type));
  }
  if (!tensor.ok()) return tensor;
  if (is_bool) {
    for (uint8_t& flag : tensor->as<uint8_t>()) flag = flag != 0 ? 1 : 0;
  }
  return tensor;
}

void WriteTensor(const HostTensor& tensor, onnx::TensorProto* proto) {
  proto->clear_float_data();
  proto->clear_double_data();
  proto->clear_int32_data();
  proto->clear_int64_data();
  proto->clear_uint64_data();
  proto->clear_external_data();
  proto->clear_data_location();
  proto->set_raw_data(tensor.data.data(), tensor.data.size());
}

}  // namespace ebb::model
