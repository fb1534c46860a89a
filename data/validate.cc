// Everything that could go wrong with a job's data, found before its first step.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/decode.h"
#include "data/image_rows.h"
#include "data/slice.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::NumElements;

absl::Span<const int64_t> WithoutOuterOnes(absl::Span<const int64_t> shape) {
  while (!shape.empty() && shape.front() == 1) shape.remove_prefix(1);
  while (!shape.empty() && shape.back() == 1) shape.remove_suffix(1);
  return shape;
}

int64_t Product(absl::Span<const int64_t> shape) {
  int64_t product = 1;
  for (int64_t dim : shape) product *= dim;
  return product;
}

absl::Span<const int64_t> RowOf(const graph::Shape& shape) {
  return absl::MakeConstSpan(shape).subspan(1);
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

bool Converts(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::kBool) return false;
  return IsFloat(to) || !IsFloat(from);
}

// Why a value cannot be used, or nullptr.
template <class From, class To>
const char* Problem(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(value) || std::isinf(value)) return "is not finite; clean the data";
    if (std::abs(value) > std::numeric_limits<To>::max()) {
      return "is too large for f32; scale the data";
    }
  } else if constexpr (std::is_integral_v<To>) {
    if (value < std::numeric_limits<To>::lowest() || value > std::numeric_limits<To>::max()) {
      return "does not fit the model input's type";
    }
  }
  return nullptr;
}

template <class From>
const char* ProblemTo(DType to, From value) {
  if constexpr (std::is_floating_point_v<From>) {
    return to == DType::kF32 ? Problem<From, float>(value) : Problem<From, double>(value);
  } else {
    // Compared as signed 64-bit numbers, which hold every integer type of graphs.
    const int64_t wide = value;
    switch (to) {
      case DType::kI32:
        return Problem<int64_t, int32_t>(wide);
      case DType::kU8:
        return wide < 0 || wide > 255 ? "does not fit the model input's type u8" : nullptr;
      default:
        return nullptr;
    }
  }
}

// The rows of the least table that element `at` of what a row feeds indexes; 0: none.
int64_t TableRows(const FieldBinding& binding, int64_t at) {
  int64_t rows = binding.table_rows;
  for (const ColumnTable& table : binding.columns) {
    if (at < table.from || at >= table.to) continue;
    rows = rows == 0 ? table.rows : std::min(rows, table.rows);
  }
  return rows;
}

template <class From>
absl::Status CheckRange(const FieldBinding& binding, From value, int64_t at,
                        absl::FunctionRef<std::string()> where) {
  const auto wide = static_cast<int64_t>(value);
  const int64_t classes = binding.label_classes;
  if (classes > 0 && wide != binding.ignore_index && (wide < 0 || wide >= classes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        where(), " is not a class of the model, which has ", classes, "; labels must be 0 to ",
        classes - 1, ", or ", binding.ignore_index, " to be ignored"));
  }
  const int64_t rows = TableRows(binding, at);
  if (rows > 0 && (wide < -rows || wide >= rows)) {
    return absl::InvalidArgumentError(absl::StrCat(
        where(), " is outside of the table that the model looks it up in, which has ", rows,
        " rows; give the model's embedding more rows, or data of its vocabulary (0 to ", rows - 1,
        ")"));
  }
  return absl::OkStatus();
}

template <class From>
absl::Status CheckValues(const BatchSource& source, const FieldBinding& binding,
                         const graph::HostTensor& field, const RowPart& part) {
  const int64_t row_elements = NumElements(field.type.shape) / source.data->rows();
  const absl::Span<const From> values = field.as<From>();
  for (int64_t row : source.rows) {
    for (int64_t i = part.first; i < part.first + part.elements; ++i) {
      const From value = values[static_cast<size_t>(row * row_elements + i)];
      const auto where = [&] {
        return absl::StrCat(source.data->Place(binding.field, row, i), ": ", +value);
      };
      if (const char* problem = ProblemTo(binding.type.dtype, value)) {
        return absl::InvalidArgumentError(absl::StrCat(where(), " ", problem));
      }
      if constexpr (std::is_integral_v<From>) {
        EBB_RETURN_IF_ERROR(CheckRange(binding, value, i - part.first, where));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckValues(const BatchSource& source, const FieldBinding& binding,
                         const graph::HostTensor& field, const RowPart& part) {
  switch (field.type.dtype) {
    case DType::kF32:
      return CheckValues<float>(source, binding, field, part);
    case DType::kF64:
      return CheckValues<double>(source, binding, field, part);
    case DType::kI32:
      return CheckValues<int32_t>(source, binding, field, part);
    case DType::kI64:
      return CheckValues<int64_t>(source, binding, field, part);
    case DType::kU8:
    case DType::kBool:
      return CheckValues<uint8_t>(source, binding, field, part);
    case DType::kBF16:
    case DType::kF16:
      break;  // data never is
  }
  return absl::OkStatus();
}

absl::Status CheckBatchAxis(const BatchSource& source, const FieldBinding& binding) {
  const graph::TensorType& type = binding.type;
  if (!type.shape.empty() && type.shape[0] == source.batch_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", binding.field, "\" feeds a model input of type ", ToString(type),
                   ", whose axis 0 is not the batch size ", source.batch_size,
                   "; export the model with a dynamic batch axis"));
}

absl::Status CheckBinding(const BatchSource& source, const FieldBinding& binding) {
  if (source.image && source.image->field == binding.field) {
    EBB_RETURN_IF_ERROR(CheckBatchAxis(source, binding));
    return CheckImages(source, binding);
  }
  const auto& fields = source.data->fields();
  const auto found = fields.find(binding.field);
  if (found == fields.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the data set has no field ", Quoted(binding.field), "; it has ",
        absl::StrJoin(fields, ", ",
                      [](std::string* out, const auto& field) {
                        absl::StrAppend(out, "\"", field.first, "\" ", ToString(field.second.type));
                      }),
        source.data->images() != nullptr ? ", \"image\"" : "",
        source.data->IsTokens()
            ? "; bind the model input to a part of it, as in \"tokens[:-1]\" and, "
              "for targets, \"tokens[1:]\""
            : "; bind the model input to one of them"));
  }
  const graph::HostTensor& field = found->second;
  const graph::TensorType& type = binding.type;
  EBB_RETURN_IF_ERROR(CheckBatchAxis(source, binding));
  const absl::StatusOr<RowPart> part = PartOf(binding.slice, field.type.shape);
  if (!part.ok()) return Annotate(part.status(), absl::StrCat("field \"", binding.field, "\""));
  if (!RowShapesFit(part->shape, RowOf(type.shape))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field \"", binding.field, "\" has rows of shape ", ShapeText(part->shape),
        binding.slice.from || binding.slice.to ? " after its slice" : "",
        " but the model input takes ", ShapeText(RowOf(type.shape)),
        source.data->IsTokens()
            ? "; change window, or bind a part of it, as in \"tokens[:-1]\""
            : "; reshape or transpose the data (a flat row feeds any shape of as many elements)"));
  }
  if (!Converts(field.type.dtype, type.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", binding.field, "\" is ", Name(field.type.dtype),
                     " but the model input is ", Name(type.dtype), ", and ", Name(field.type.dtype),
                     " is not converted to ", Name(type.dtype), "; save it as ", Name(type.dtype)));
  }
  if (binding.label_classes > 0 && IsFloat(field.type.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", binding.field, "\" is ", Name(field.type.dtype),
                     " but class labels are integers; save it as i64"));
  }
  return CheckValues(source, binding, field, *part);
}

}  // namespace

bool RowShapesFit(absl::Span<const int64_t> data, absl::Span<const int64_t> model) {
  if (Product(data) != Product(model)) return false;
  const absl::Span<const int64_t> a = WithoutOuterOnes(data);
  const absl::Span<const int64_t> b = WithoutOuterOnes(model);
  return a.size() <= 1 || b.size() <= 1 || a == b;
}

absl::Status Validate(const BatchSource& source) {
  if (source.data == nullptr) return absl::InvalidArgumentError("there is no data set");
  if (source.batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", source.batch_size, "; it must be at least 1"));
  }
  const auto count = static_cast<int64_t>(source.rows.size());
  if (count == 0) return absl::InvalidArgumentError("no row is selected; check the index");
  for (size_t i = 0; i < source.rows.size(); ++i) {
    if (source.rows[i] < 0 || source.rows[i] >= source.data->rows()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "index entry ", i, " is row ", source.rows[i], ", but the data set has rows 0 to ",
          source.data->rows() - 1, "; the index belongs to other data"));
    }
  }
  if (source.tail == BatchSource::Tail::kDrop && source.batch_size > count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch_size ", source.batch_size, " is larger than the ", count,
        " rows selected, so that no batch is ever full; set it to ", count, " or less"));
  }
  for (const FieldBinding& binding : source.bindings) {
    EBB_RETURN_IF_ERROR(CheckBinding(source, binding));
  }
  if (source.image) EBB_RETURN_IF_ERROR(CheckImageIsBound(source));
  return absl::OkStatus();
}

}  // namespace ebb::data
