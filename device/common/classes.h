// What losses and metrics over classes share: the form of class scores, how their labels are read,
// and how a loss is reduced.
#pragma once

#include <string>

#include "device/common/operands.h"
#include "device/math/divisor.h"

namespace ebb::device {

// Scores [N, C, S] with labels [N, S]; `inner` = product of S.
struct ClassForm {
  int64_t batch = 0;
  Divisor classes = 0;
  Divisor inner = 1;
  EBB_INLINE int64_t positions() const { return batch * inner; }
  // Where the score of a class at a position is.
  EBB_INLINE int64_t At(int64_t position, int64_t c) const {
    if (inner == 1) return position * classes + c;
    const int64_t n = position / inner;
    return (n * classes + c) * inner + (position - n * inner);
  }
};

inline ClassForm ClassFormOf(const Shape& scores) {
  int64_t inner = 1;
  for (size_t d = 2; d < scores.size(); ++d) inner *= scores[d];
  return {scores[0], scores[1], inner};
}

enum class LossReduction { kMean, kSum, kNone };

inline LossReduction LossReductionOf(const Node& node) {
  const std::string name = node.attrs.Str("reduction", "mean");
  return name == "none" ? LossReduction::kNone
                        : (name == "sum" ? LossReduction::kSum : LossReduction::kMean);
}

// The label at a position, or -1 when it is not counted.
class Labels {
 public:
  Labels(const void* data, DType dtype, int64_t classes, int64_t ignore)
      : data_(data), wide_(dtype == DType::kI64), classes_(classes), ignore_(ignore) {}
  EBB_INLINE int64_t operator[](int64_t i) const {
    const int64_t label =
        wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
    return label == ignore_ || label < 0 || label >= classes_ ? -1 : label;
  }

 private:
  const void* data_;
  bool wide_;
  int64_t classes_;
  int64_t ignore_;
};

}  // namespace ebb::device
