// Weights in and out of safetensors files; base/safetensors.h says which tensor lies where.
#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "model/host_tensor.h"
#include "nlohmann/json.hpp"

namespace ebb::model {
namespace {

using nlohmann::json;

constexpr absl::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<absl::string_view, DType>, 6> kDTypes = {{{"F32", DType::kF32},
                                                                         {"F64", DType::kF64},
                                                                         {"I32", DType::kI32},
                                                                         {"I64", DType::kI64},
                                                                         {"U8", DType::kU8},
                                                                         {"BOOL", DType::kBool}}};

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what));
}

absl::StatusOr<TensorType> TypeOf(const SafetensorsEntry& entry) {
  const std::string where = absl::StrCat("tensor '", entry.name, "'");
  const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const auto& pair) { return pair.first == entry.dtype; });
  if (row == kDTypes.end()) {
    return Invalid(absl::StrCat(where, " has dtype ", entry.dtype,
                                "; F32, F64, I32, I64, U8 and BOOL are supported"));
  }
  TensorType type{row->second, graph::Shape(entry.shape.begin(), entry.shape.end())};
  if (const absl::Status status = CheckHostType(type); !status.ok()) {
    return Invalid(absl::StrCat(where, ": ", status.message()));
  }
  if (entry.payload.size() != static_cast<uint64_t>(type.bytes().count())) {
    return Invalid(absl::StrCat(where, ": offsets ", entry.begin, " to ",
                                entry.begin + entry.payload.size(), " do not hold ",
                                graph::ToString(type)));
  }
  return type;
}

}  // namespace

std::string WriteSafetensors(const graph::TensorMap& tensors,
                             const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::sort(names.begin(), names.end());
  json header = json::object();
  for (const auto& [key, value] : metadata) header[std::string(kMetadata)][key] = value;
  size_t offset = 0;
  for (const std::string& name : names) {
    const HostTensor& tensor = tensors.at(name);
    const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& pair) {
      return pair.second == tensor.type.dtype;
    });
    json shape = json::array();
    for (int64_t dim : tensor.type.shape) shape.push_back(static_cast<uint64_t>(dim));
    header[name] = {{"dtype", std::string(row->first)},
                    {"shape", shape},
                    {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begin at a multiple of 8
  std::string bytes;
  bytes.reserve(8 + text.size() + offset);
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i)));
  }
  bytes += text;
  for (const std::string& name : names) {
    const HostTensor& tensor = tensors.at(name);
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return bytes;
}

absl::StatusOr<graph::TensorMap> ReadSafetensors(absl::string_view bytes) {
  EBB_ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries, OpenSafetensors(bytes));
  graph::TensorMap tensors;
  for (const SafetensorsEntry& entry : entries) {
    EBB_ASSIGN_OR_RETURN(TensorType type, TypeOf(entry));
    HostTensor tensor = HostTensor::Zeros(std::move(type));
    if (!tensor.data.empty()) {
      std::memcpy(tensor.data.data(), entry.payload.data(), tensor.data.size());
    }
    if (tensor.type.dtype == DType::kBool) {
      for (uint8_t& flag : tensor.as<uint8_t>()) flag = flag != 0 ? 1 : 0;
    }
    tensors[entry.name] = std::move(tensor);
  }
  return tensors;
}

}  // namespace ebb::model
