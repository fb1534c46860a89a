// Tells formats apart and makes data sets and indices of what their parsers return.
#include "data/dataset.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "data/csv.h"
#include "data/decode.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "data/npy.h"
#include "data/parquet.h"
#include "data/safetensors.h"
#include "data/sparse.h"
#include "data/zip.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using Fields = std::map<std::string, HostTensor>;

constexpr absl::string_view kKnownFormats =
    ".npz, .npy, safetensors, Parquet, IDX and comma-separated text are, each also gzipped";

// Formats that people try, so that the message can name them.
struct Foreign {
  absl::string_view magic;
  absl::string_view name;
};
constexpr Foreign kForeign[] = {
    {"\x89HDF", "HDF5"},
    {"ARROW1", "Arrow"},
    {"\x89PNG", "PNG"},
    {"\xff\xd8\xff", "JPEG"},
    {"BZh", "bzip2"},
    {"\x28\xb5\x2f\xfd", "zstd"},
    {"\xfd"
     "7zXZ",
     "xz"},
    {"\x80\x02", "Python pickle"},
    {"\x80\x03", "Python pickle"},
    {"\x80\x04", "Python pickle"},
    {"\x80\x05", "Python pickle"},
};

absl::Status RefuseForeign(absl::string_view bytes) {
  for (const Foreign& foreign : kForeign) {
    if (absl::StartsWith(bytes, foreign.magic)) {
      return absl::UnimplementedError(
          absl::StrCat(foreign.name, " is not a supported data format; ", kKnownFormats));
    }
  }
  if (bytes.find('\0') != absl::string_view::npos) {
    return absl::UnimplementedError(
        absl::StrCat("the data are in no known format; ", kKnownFormats));
  }
  return absl::OkStatus();
}

bool IsFieldName(absl::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// The bytes themselves, or what was gzipped into them (kept in `storage`).
absl::StatusOr<absl::string_view> Unpack(absl::string_view bytes, Bytes limit,
                                         const Reserve& reserve, std::string* storage) {
  if (!IsGzip(bytes)) return bytes;
  EBB_ASSIGN_OR_RETURN(*storage, Gunzip(bytes, limit, reserve));
  if (IsGzip(*storage)) {
    return absl::InvalidArgumentError("gzip: the data are gzipped twice; gunzip them once");
  }
  return absl::string_view(*storage);
}

absl::StatusOr<Fields> OneField(absl::StatusOr<HostTensor> tensor) {
  if (!tensor.ok()) return std::move(tensor).status();
  Fields fields;
  fields.emplace("data", *std::move(tensor));
  return fields;
}

// What a text of numbers becomes: cells of four bytes, a label a line, in vectors that double.
Bytes TextFootprint(absl::string_view text) {
  const auto count = [&](char c) { return std::count(text.begin(), text.end(), c); };
  return Bytes(8) * count(',') + Bytes(40) * (count('\n') + 1);
}

absl::Status Ask(const Reserve& reserve, Bytes bytes) {
  return reserve ? reserve(bytes) : absl::OkStatus();
}

absl::StatusOr<Fields> ParseFields(absl::string_view bytes, const CsvOptions& csv, Bytes limit,
                                   const Reserve& reserve) {
  const bool text =
      !IsZip(bytes) && !IsNpy(bytes) && !IsIdx(bytes) && !IsSafetensors(bytes) && !IsParquet(bytes);
  if (!text && csv.label_column != CsvOptions().label_column) {
    return absl::InvalidArgumentError(
        "label_column is for CSV; arrays have names: bind the label to one of them");
  }
  if (IsZip(bytes)) return ParseNpz(bytes, limit, reserve);
  if (IsSafetensors(bytes)) return ParseSafetensors(bytes, limit, reserve);
  if (IsParquet(bytes)) return ParseParquet(bytes, limit, reserve);
  if (!text) {
    EBB_RETURN_IF_ERROR(Ask(reserve, Bytes(static_cast<int64_t>(bytes.size()))));
    return OneField(IsNpy(bytes) ? ParseNpy(bytes) : ParseIdx(bytes));
  }
  EBB_RETURN_IF_ERROR(RefuseForeign(bytes));
  EBB_RETURN_IF_ERROR(Ask(reserve, TextFootprint(bytes)));
  return ParseCsv(bytes, csv);
}

absl::StatusOr<std::vector<int64_t>> ToIndex(const HostTensor& tensor) {
  if (tensor.type.shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("index: the array has shape ",
                                                   graph::ToString(tensor.type.shape),
                                                   "; it must have one dimension"));
  }
  const auto copy = [](auto values) { return std::vector<int64_t>(values.begin(), values.end()); };
  switch (tensor.type.dtype) {
    case DType::kI64:
      return copy(tensor.as<int64_t>());
    case DType::kI32:
      return copy(tensor.as<int32_t>());
    case DType::kU8:
      return copy(tensor.as<uint8_t>());
    case DType::kBool:
      return absl::InvalidArgumentError(
          "index: the array is a mask of bool; save numpy.flatnonzero(mask)");
    case DType::kF32:
    case DType::kF64:
    case DType::kBF16:
    case DType::kF16:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "index: the array is of ", graph::Name(tensor.type.dtype), "; save it as int64"));
}

absl::StatusOr<std::vector<int64_t>> ParseIndexUnguarded(absl::string_view bytes, Bytes limit,
                                                         const Reserve& reserve) {
  std::string storage;
  EBB_ASSIGN_OR_RETURN(bytes, Unpack(bytes, limit, reserve, &storage));
  if (IsNpy(bytes)) {
    EBB_RETURN_IF_ERROR(Ask(reserve, Bytes(static_cast<int64_t>(bytes.size()))));
    EBB_ASSIGN_OR_RETURN(const HostTensor tensor, ParseNpy(bytes));
    return ToIndex(tensor);
  }
  if (IsZip(bytes)) {
    EBB_ASSIGN_OR_RETURN(const Fields arrays, ParseNpz(bytes, limit, reserve));
    if (arrays.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "index: the .npz has ", arrays.size(), " arrays; save the index alone with numpy.save"));
    }
    return ToIndex(arrays.begin()->second);
  }
  EBB_RETURN_IF_ERROR(RefuseForeign(bytes));
  EBB_RETURN_IF_ERROR(Ask(reserve, TextFootprint(bytes)));
  return ParseIntegerLines(bytes);
}

absl::Status OutOfHostMemory() {
  return absl::ResourceExhaustedError("the host has too little memory to unpack the data");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DataSet>> DataSet::Create(Fields fields, TokenOrigin origin) {
  if (fields.empty()) return absl::InvalidArgumentError("the data set has no field");
  auto set = std::make_shared<DataSet>();
  const auto& [first_name, first] = *fields.begin();
  for (const auto& [name, tensor] : fields) {
    if (!IsFieldName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("field name ", Quoted(name),
                       " has characters other than printable ASCII without spaces; rename it"));
    }
    if (tensor.type.shape.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field \"", name, "\" is a scalar; axis 0 of every field must count the rows"));
    }
    if (static_cast<int64_t>(tensor.data.size()) != tensor.type.bytes().count()) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", name, "\" of type ",
                                                     graph::ToString(tensor.type), " holds ",
                                                     tensor.data.size(), " bytes"));
    }
    const int64_t rows = tensor.type.shape[0];
    const int64_t first_rows = first.type.shape[0];
    if (rows != first_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("field \"", first_name, "\" has ", first_rows, " rows but field \"", name,
                       "\" has ", rows, "; axis 0 of every field must count the same rows"));
    }
    if (std::count(tensor.type.shape.begin(), tensor.type.shape.end(), 0) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", name, "\" of shape ",
                                                     graph::ToString(tensor.type.shape),
                                                     " has no elements; leave it out"));
    }
  }
  set->rows_ = first.type.shape[0];
  set->fields_ = std::move(fields);
  set->origin_ = origin;
  return set;
}

std::shared_ptr<const DataSet> DataSet::OfImages(std::shared_ptr<const ImageSet> images) {
  auto set = std::make_shared<DataSet>();
  set->rows_ = images->rows();
  set->fields_.emplace(
      "label", HostTensor::Of<int64_t>(DType::kI64, {images->rows()}, images->list().labels));
  set->images_ = std::move(images);
  return set;
}

std::string DataSet::Place(const std::string& field, int64_t row, int64_t element) const {
  if (IsTokens()) {
    return absl::StrCat("token ", origin_.first + row * origin_.window + element, " of the file");
  }
  const bool one = graph::NumElements(fields_.at(field).type.shape) == rows_;
  return absl::StrCat("field \"", field, "\", row ", row,
                      one ? std::string() : absl::StrCat(", element ", element));
}

Bytes DataSet::bytes() const {
  Bytes total;
  for (const auto& [name, tensor] : fields_) total += tensor.type.bytes();
  return images_ == nullptr ? total : total + images_->bytes();
}

absl::StatusOr<std::shared_ptr<const DataSet>> ParseDataSet(absl::string_view bytes,
                                                            const FileOptions& options, Bytes limit,
                                                            const Reserve& reserve) {
  if (bytes.empty()) return absl::InvalidArgumentError("the data set is empty (0 bytes)");
  try {
    std::string storage;
    EBB_ASSIGN_OR_RETURN(bytes, Unpack(bytes, limit, reserve, &storage));
    EBB_ASSIGN_OR_RETURN(Fields fields, ParseFields(bytes, options.csv, limit, reserve));
    EBB_ASSIGN_OR_RETURN(fields, PadSparse(std::move(fields), options.sparse, limit, reserve));
    return DataSet::Create(std::move(fields));
  } catch (const std::bad_alloc&) {
    return OutOfHostMemory();
  }
}

absl::StatusOr<std::vector<int64_t>> ParseIndex(absl::string_view bytes, Bytes limit,
                                                const Reserve& reserve) {
  try {
    absl::StatusOr<std::vector<int64_t>> index = ParseIndexUnguarded(bytes, limit, reserve);
    if (index.ok() && index->empty()) return absl::InvalidArgumentError("index: it lists no row");
    return index;
  } catch (const std::bad_alloc&) {
    return OutOfHostMemory();
  }
}

}  // namespace ebb::data
