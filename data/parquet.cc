#include "data/parquet.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::HostTensor;
using Fields = std::map<std::string, HostTensor>;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("Parquet: ", what));
}

absl::Status Checked(const arrow::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.IsOutOfMemory()) {
    return absl::ResourceExhaustedError("Parquet: it unpacks to more than the limit");
  }
  return Damaged(status.message());
}

// How an element type of Arrow's lies in memory.
absl::StatusOr<RawElement> ElementOf(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::FLOAT:
      return RawElement{'f', 4};
    case arrow::Type::DOUBLE:
      return RawElement{'f', 8};
    case arrow::Type::HALF_FLOAT:
      return RawElement{'f', 2};
    case arrow::Type::INT8:
      return RawElement{'i', 1};
    case arrow::Type::INT16:
      return RawElement{'i', 2};
    case arrow::Type::INT32:
      return RawElement{'i', 4};
    case arrow::Type::INT64:
      return RawElement{'i', 8};
    case arrow::Type::UINT8:
      return RawElement{'u', 1};
    case arrow::Type::UINT16:
      return RawElement{'u', 2};
    case arrow::Type::UINT32:
      return RawElement{'u', 4};
    case arrow::Type::BOOL:
      return RawElement{'b', 1};
    default:
      return absl::UnimplementedError(
          absl::StrCat("elements of ", type.ToString(),
                       " are not read; convert them to numbers, or leave the column out"));
  }
}

// Bytes of values without a null, and where rows of a list end.
struct Column {
  RawElement element;
  std::string payload;
  std::vector<int64_t> offsets = {0};  // lists only
  int64_t list_size = 0;               // fixed lists only
};

// `row` is of the first element.
absl::Status CheckNulls(const arrow::Array& array, int64_t row) {
  if (array.null_count() == 0) return absl::OkStatus();
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      return Damaged(absl::StrCat("row ", row + i, " is null; fill it in, or drop the row"));
    }
  }
  return absl::OkStatus();
}

absl::Status AppendValues(const arrow::Array& array, Column* column) {
  if (array.type_id() == arrow::Type::BOOL) {
    const auto& flags = static_cast<const arrow::BooleanArray&>(array);
    for (int64_t i = 0; i < flags.length(); ++i) {
      column->payload.push_back(flags.Value(i) ? '\1' : '\0');
    }
    return absl::OkStatus();
  }
  const auto& values = static_cast<const arrow::PrimitiveArray&>(array);
  if (values.length() == 0) return absl::OkStatus();
  const auto width = static_cast<int64_t>(column->element.bytes);
  const auto* data = reinterpret_cast<const char*>(values.values()->data());
  column->payload.append(data + array.offset() * width,
                         static_cast<size_t>(array.length() * width));
  return absl::OkStatus();
}

// Values of `lists`, one after the other; a null among them is said to be in its row.
template <class Lists>
absl::Status AppendLists(const Lists& lists, int64_t row, Column* column) {
  const int64_t first = lists.length() == 0 ? 0 : lists.value_offset(0);
  const int64_t end = lists.length() == 0 ? 0 : lists.value_offset(lists.length());
  const std::shared_ptr<arrow::Array> values = lists.values()->Slice(first, end - first);
  const int64_t before = column->offsets.back();
  for (int64_t i = 0; i < lists.length(); ++i) {
    column->offsets.push_back(before + lists.value_offset(i + 1) - first);
    for (int64_t v = lists.value_offset(i);
         values->null_count() > 0 && v < lists.value_offset(i + 1); ++v) {
      if (values->IsNull(v - first)) {
        return Damaged(absl::StrCat("row ", row + i,
                                    " has a null in its list; fill it in, or drop "
                                    "the row"));
      }
    }
  }
  return AppendValues(*values, column);
}

absl::Status Append(const arrow::Array& array, int64_t row, Column* column) {
  EBB_RETURN_IF_ERROR(CheckNulls(array, row));
  switch (array.type_id()) {
    case arrow::Type::LIST:
      return AppendLists(static_cast<const arrow::ListArray&>(array), row, column);
    case arrow::Type::LARGE_LIST:
      return AppendLists(static_cast<const arrow::LargeListArray&>(array), row, column);
    case arrow::Type::FIXED_SIZE_LIST:
      return AppendLists(static_cast<const arrow::FixedSizeListArray&>(array), row, column);
    default:
      return AppendValues(array, column);
  }
}

bool IsList(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

absl::StatusOr<Column> ColumnOf(const arrow::DataType& type) {
  Column column;
  const arrow::DataType* element = &type;
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& fixed = static_cast<const arrow::FixedSizeListType&>(type);
    column.list_size = fixed.list_size();
    element = fixed.value_type().get();
  } else if (IsList(type)) {
    element = static_cast<const arrow::BaseListType&>(type).value_type().get();
  }
  EBB_ASSIGN_OR_RETURN(column.element, ElementOf(*element));
  if (IsList(type) && column.element.kind != 'i' && column.element.kind != 'u') {
    return absl::UnimplementedError(
        "lists that are not of integers must be of a fixed size (pyarrow.list_(type, size)), or be "
        "left out");
  }
  return column;
}

// Puts the fields that a column becomes into `fields`.
absl::Status Finish(const std::string& name, int64_t rows, bool list, Column column,
                    Fields* fields) {
  graph::Shape shape = {rows};
  if (column.list_size > 0) shape.push_back(column.list_size);
  if (list) shape = {column.offsets.back()};
  EBB_ASSIGN_OR_RETURN(HostTensor values, DecodeArray(column.element, shape, column.payload));
  if (!list) {
    (*fields)[name] = std::move(values);
    return absl::OkStatus();
  }
  const auto count = static_cast<int64_t>(column.offsets.size());
  (*fields)[absl::StrCat(name, ".indices")] = std::move(values);
  (*fields)[absl::StrCat(name, ".offsets")] =
      HostTensor::Of<int64_t>(DType::kI64, {count}, column.offsets);
  return absl::OkStatus();
}

absl::Status ReadColumn(const arrow::Field& field, const arrow::ChunkedArray& chunks,
                        Fields* fields) {
  EBB_ASSIGN_OR_RETURN(Column column, ColumnOf(*field.type()));
  int64_t row = 0;
  for (const std::shared_ptr<arrow::Array>& chunk : chunks.chunks()) {
    EBB_RETURN_IF_ERROR(Checked(chunk->ValidateFull()));
    EBB_RETURN_IF_ERROR(Append(*chunk, row, &column));
    row += chunk->length();
  }
  return Finish(field.name(), row, IsList(*field.type()), std::move(column), fields);
}

// What the file says it unpacks to, at eight bytes a value: as Arrow's, as it is gathered, and as a
// tensor. Checked before anything is unpacked; Arrow's memory has the same cap, should it lie.
absl::StatusOr<Bytes> ClaimOf(const parquet::FileMetaData& metadata, Bytes limit) {
  int64_t values = metadata.num_rows();
  for (int g = 0; g < metadata.num_row_groups(); ++g) {
    const auto group = metadata.RowGroup(g);
    for (int c = 0; c < group->num_columns(); ++c) {
      const int64_t count = group->ColumnChunk(c)->num_values();
      if (count < 0) return Damaged("a column has fewer than no values");
      values += std::min(count, limit.count());
      if (values > limit.count() / 8) {
        return absl::ResourceExhaustedError(
            absl::StrCat("Parquet: unpacks to more than the limit of ", FormatBytes(limit)));
      }
    }
  }
  return Bytes(3 * 8) * values;
}

absl::StatusOr<Fields> Parse(absl::string_view bytes, Bytes limit, const Reserve& reserve) {
  auto file = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(
      reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size())));
  arrow::CappedMemoryPool pool(arrow::default_memory_pool(), limit.count());
  parquet::arrow::FileReaderBuilder builder;
  EBB_RETURN_IF_ERROR(Checked(builder.Open(file, parquet::ReaderProperties(&pool))));
  EBB_ASSIGN_OR_RETURN(const Bytes claim, ClaimOf(*builder.raw_reader()->metadata(), limit));
  if (reserve) EBB_RETURN_IF_ERROR(reserve(claim));
  std::unique_ptr<parquet::arrow::FileReader> reader;
  EBB_RETURN_IF_ERROR(Checked(builder.memory_pool(&pool)->Build(&reader)));
  reader->set_use_threads(false);
  std::shared_ptr<arrow::Schema> schema;
  EBB_RETURN_IF_ERROR(Checked(reader->GetSchema(&schema)));
  Fields fields;
  for (int i = 0; i < schema->num_fields(); ++i) {
    const arrow::Field& field = *schema->field(i);
    const std::string context = absl::StrCat("column ", Quoted(field.name()));
    if (schema->GetAllFieldIndices(field.name()).size() != 1) {
      return Annotate(Damaged("it is there twice"), context);
    }
    EBB_RETURN_IF_ERROR(Annotate(ColumnOf(*field.type()).status(), context));
    std::shared_ptr<arrow::ChunkedArray> chunks;
    EBB_RETURN_IF_ERROR(Annotate(Checked(reader->ReadColumn(i, &chunks)), context));
    EBB_RETURN_IF_ERROR(Annotate(ReadColumn(field, *chunks, &fields), context));
  }
  if (fields.empty()) return Damaged("there is no column in it");
  return fields;
}

}  // namespace

bool IsParquet(absl::string_view bytes) { return absl::StartsWith(bytes, "PAR1"); }

bool ReadsParquet() { return true; }

absl::StatusOr<Fields> ParseParquet(absl::string_view bytes, Bytes limit, const Reserve& reserve) {
  try {
    return Parse(bytes, limit, reserve);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host has too little memory to unpack the data");
  } catch (const std::exception& error) {  // parquet::ParquetException
    return Damaged(error.what());
  }
}

}  // namespace ebb::data
