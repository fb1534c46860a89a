// Reading and writing safetensors (https://github.com/huggingface/safetensors, "Format").
#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/host_tensor.h"
#include "nlohmann/json.hpp"

namespace ebb::model {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 16 << 20;  // some 100,000 tensors
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

struct Entry {
  std::string name;
  TensorType type;
  uint64_t begin = 0, end = 0;
};

absl::StatusOr<Entry> ReadEntry(const std::string& name, const json& item) {
  const std::string where = absl::StrCat("tensor '", name, "'");
  const bool shaped = item.is_object() && item.contains("dtype") && item["dtype"].is_string() &&
                      item.contains("shape") && item["shape"].is_array() &&
                      item.contains("data_offsets") && item["data_offsets"].is_array() &&
                      item["data_offsets"].size() == 2;
  if (!shaped) return Invalid(absl::StrCat(where, " lacks dtype, shape or data_offsets"));
  Entry entry;
  entry.name = name;
  const std::string dtype = item["dtype"].get<std::string>();
  const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const auto& pair) { return pair.first == dtype; });
  if (row == kDTypes.end()) {
    return Invalid(absl::StrCat(where, " has dtype ", dtype,
                                "; F32, F64, I32, I64, U8 and BOOL are supported"));
  }
  entry.type.dtype = row->second;
  for (const json& dim : item["shape"]) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > uint64_t{1} << 40) {
      return Invalid(absl::StrCat(where, " has a dimension that is no valid size"));
    }
    entry.type.shape.push_back(dim.get<int64_t>());
  }
  if (const absl::Status status = CheckHostType(entry.type); !status.ok()) {
    return Invalid(absl::StrCat(where, ": ", status.message()));
  }
  for (const json& offset : item["data_offsets"]) {
    if (!offset.is_number_unsigned()) {
      return Invalid(absl::StrCat(where, " has a data offset that is no unsigned number"));
    }
  }
  entry.begin = item["data_offsets"][0].get<uint64_t>();
  entry.end = item["data_offsets"][1].get<uint64_t>();
  if (entry.end < entry.begin ||
      entry.end - entry.begin != static_cast<uint64_t>(entry.type.bytes().count())) {
    return Invalid(absl::StrCat(where, ": offsets ", entry.begin, " to ", entry.end,
                                " do not hold ", graph::ToString(entry.type)));
  }
  return entry;
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
  if (bytes.size() < 8) return Invalid("the file is shorter than its 8-byte length");
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  if (length > kMaxHeader || length > bytes.size() - 8) {
    return Invalid(absl::StrCat("a header of ", length, " bytes does not fit the file of ",
                                bytes.size(), " bytes"));
  }
  const absl::string_view text = bytes.substr(8, length);
  const absl::string_view data = bytes.substr(8 + length);
  const json header = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Invalid("the header is no JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, item] : header.items()) {
    if (absl::string_view(name) == kMetadata) continue;
    EBB_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, item));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t at = 0;
  graph::TensorMap tensors;
  for (Entry& entry : entries) {
    if (entry.begin != at || entry.end > data.size()) {
      return Invalid(absl::StrCat("tensor '", entry.name, "' lies at ", entry.begin, " to ",
                                  entry.end, "; expected it at ", at, " within ", data.size(),
                                  " bytes of data"));
    }
    HostTensor tensor = HostTensor::Zeros(std::move(entry.type));
    if (!tensor.data.empty()) {
      std::memcpy(tensor.data.data(), data.data() + entry.begin, tensor.data.size());
    }
    if (tensor.type.dtype == DType::kBool) {
      for (uint8_t& flag : tensor.as<uint8_t>()) flag = flag != 0 ? 1 : 0;
    }
    tensors[entry.name] = std::move(tensor);
    at = entry.end;
  }
  if (at != data.size()) {
    return Invalid(absl::StrCat(data.size() - at, " bytes after the last tensor belong to none"));
  }
  return tensors;
}

}  // namespace ebb::model
