// Which rows make a batch, and their bytes.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/image_rows.h"
#include "data/slice.h"

namespace ebb::data {
namespace {

using graph::DType;
using graph::NumElements;

// A stream of words from Philox: key = seed, counter = (block, domain, epoch).
class ShuffleWords {
 public:
  ShuffleWords(uint64_t seed, int64_t epoch)
      : key_(PhiloxKeyFrom(seed)), epoch_(static_cast<uint64_t>(epoch)) {}

  // Uniform in [0, bound), bound > 0, without bias: words that would favour small values are
  // redrawn.
  uint64_t Below(uint64_t bound) {
    const uint64_t biased = (0 - bound) % bound;  // 2^64 mod bound
    uint64_t word = Next();
    while (word < biased) word = Next();
    return word % bound;
  }

 private:
  uint64_t Next() {
    if (used_ == 2) {
      constexpr uint32_t kDomain = 0x73687566;  // "shuf": apart from other uses of the same seed
      words_ = Philox({static_cast<uint32_t>(block_), kDomain + static_cast<uint32_t>(block_ >> 32),
                       static_cast<uint32_t>(epoch_), static_cast<uint32_t>(epoch_ >> 32)},
                      key_);
      ++block_;
      used_ = 0;
    }
    const uint64_t word = uint64_t{words_[2 * used_]} << 32 | words_[2 * used_ + 1];
    ++used_;
    return word;
  }

  PhiloxKey key_;
  uint64_t epoch_;
  uint64_t block_ = 0;
  PhiloxCounter words_ = {};
  size_t used_ = 2;
};

template <class From, class To>
void ConvertRow(const std::byte* from, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    const To converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

template <class From>
void ConvertRowTo(DType to_type, const std::byte* from, std::byte* to, int64_t count) {
  if (to_type == DType::kF32) return ConvertRow<From, float>(from, to, count);
  if (to_type == DType::kF64) return ConvertRow<From, double>(from, to, count);
  if constexpr (std::is_integral_v<From>) {
    if (to_type == DType::kI32) return ConvertRow<From, int32_t>(from, to, count);
    if (to_type == DType::kI64) return ConvertRow<From, int64_t>(from, to, count);
    if (to_type == DType::kU8) return ConvertRow<From, uint8_t>(from, to, count);
  }
  EBB_CHECK(false && "a conversion that Validate() refuses");
}

void CopyRow(DType from_type, DType to_type, const std::byte* from, std::byte* to, int64_t count) {
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>((SizeOf(to_type) * count).count()));
    return;
  }
  switch (from_type) {
    case DType::kF32:
      return ConvertRowTo<float>(to_type, from, to, count);
    case DType::kF64:
      return ConvertRowTo<double>(to_type, from, to, count);
    case DType::kI32:
      return ConvertRowTo<int32_t>(to_type, from, to, count);
    case DType::kI64:
      return ConvertRowTo<int64_t>(to_type, from, to, count);
    case DType::kU8:
    case DType::kBool:
      return ConvertRowTo<uint8_t>(to_type, from, to, count);
    case DType::kBF16:
    case DType::kF16:
      break;
  }
  EBB_CHECK(false && "data of a type that only graphs have");
}

// Rows of arrays; the last is repeated up to the batch size.
void FillField(const BatchSource& source, const FieldBinding& binding,
               absl::Span<const int64_t> rows, std::byte* to) {
  const graph::HostTensor& field = source.data->fields().at(binding.field);
  const absl::StatusOr<RowPart> part = PartOf(binding.slice, field.type.shape);
  EBB_CHECK(part.ok() && "a slice that Validate() refuses");
  const int64_t row_elements = NumElements(field.type.shape) / source.data->rows();
  const int64_t from_bytes = (SizeOf(field.type.dtype) * row_elements).count();
  const int64_t to_bytes = (SizeOf(binding.type.dtype) * part->elements).count();
  const std::byte* first_row = field.data.data() + (SizeOf(field.type.dtype) * part->first).count();
  for (int64_t row = 0; row < source.batch_size; ++row, to += to_bytes) {
    const auto last = static_cast<int64_t>(rows.size()) - 1;
    const int64_t from = rows[static_cast<size_t>(std::min(row, last))];
    CopyRow(field.type.dtype, binding.type.dtype, first_row + from * from_bytes, to,
            part->elements);
  }
}

}  // namespace

int64_t BatchSource::BatchesPerEpoch() const {
  const auto count = static_cast<int64_t>(rows.size());
  return tail == Tail::kDrop ? count / batch_size : (count + batch_size - 1) / batch_size;
}

std::vector<int64_t> EpochOrder(const BatchSource& source, int64_t epoch,
                                std::vector<int64_t> order) {
  order = source.rows;
  if (source.order == BatchSource::Order::kSequential) return order;
  ShuffleWords words(source.seed, epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[words.Below(i)]);
  return order;
}

absl::StatusOr<int64_t> FillBatch(const BatchSource& source, const std::vector<int64_t>& order,
                                  BatchPlace place, const std::vector<void*>& out) {
  EBB_CHECK(out.size() == source.bindings.size());
  EBB_CHECK(order.size() == source.rows.size());
  EBB_CHECK(place.batch >= 0 && place.batch < source.BatchesPerEpoch());
  const int64_t first = place.batch * source.batch_size;
  const int64_t valid = std::min(source.batch_size, static_cast<int64_t>(order.size()) - first);
  const auto rows =
      absl::MakeConstSpan(order).subspan(static_cast<size_t>(first), static_cast<size_t>(valid));
  for (size_t i = 0; i < out.size(); ++i) {
    const FieldBinding& binding = source.bindings[i];
    if (source.image && source.image->field == binding.field) {
      EBB_RETURN_IF_ERROR(FillImages(source, rows, place.epoch, static_cast<float*>(out[i])));
    } else {
      FillField(source, binding, rows, static_cast<std::byte*>(out[i]));
    }
  }
  return valid;
}

}  // namespace ebb::data
