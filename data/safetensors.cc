#include "data/safetensors.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

struct Row {
  absl::string_view dtype;
  RawElement element;
  int widened;  // bytes of an element of the tensor that graphs know
};
constexpr Row kRows[] = {{"F16", {'f', 2}, 4}, {"F32", {'f', 4}, 4}, {"F64", {'f', 8}, 8},
                         {"I8", {'i', 1}, 4},  {"I16", {'i', 2}, 4}, {"I32", {'i', 4}, 4},
                         {"I64", {'i', 8}, 8}, {"U8", {'u', 1}, 1},  {"U16", {'u', 2}, 4},
                         {"U32", {'u', 4}, 8}, {"BOOL", {'b', 1}, 1}};

absl::StatusOr<const Row*> RowOf(const SafetensorsEntry& entry) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& r) { return r.dtype == entry.dtype; });
  if (row != std::end(kRows)) return row;
  return absl::UnimplementedError(
      absl::StrCat("elements of ", Quoted(entry.dtype),
                   " are not supported; convert the tensor to float32, float64, int32, int64, "
                   "uint8 or bool"));
}

}  // namespace

absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseSafetensors(absl::string_view bytes,
                                                                          Bytes limit,
                                                                          const Reserve& reserve) {
  EBB_ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries, OpenSafetensors(bytes));
  std::map<std::string, graph::HostTensor> tensors;
  Bytes left = limit;
  for (const SafetensorsEntry& entry : entries) {
    const std::string context = absl::StrCat("safetensors: tensor ", Quoted(entry.name));
    const absl::StatusOr<const Row*> row = RowOf(entry);
    if (!row.ok()) return Annotate(row.status(), context);
    const auto elements = static_cast<int64_t>(entry.payload.size()) / (*row)->element.bytes;
    const Bytes unpacked = Bytes((*row)->widened) * elements;
    if (unpacked > left) {
      return absl::ResourceExhaustedError(
          absl::StrCat(context, ": unpacks to more than the limit of ", FormatBytes(limit)));
    }
    left -= unpacked;
    if (reserve) EBB_RETURN_IF_ERROR(reserve(unpacked));
    auto tensor = DecodeArray((*row)->element, graph::Shape(entry.shape.begin(), entry.shape.end()),
                              entry.payload);
    if (!tensor.ok()) return Annotate(tensor.status(), context);
    tensors[entry.name] = *std::move(tensor);
  }
  if (tensors.empty()) return absl::InvalidArgumentError("safetensors: there is no tensor in it");
  return tensors;
}

}  // namespace ebb::data
