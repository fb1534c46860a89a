// What losses and metrics share: the form of class scores and how their labels are read.
#pragma once

#include "device/cpu/common.h"

namespace ebb::device::cpu {

// Scores [N, C, S] with labels [N, S]; `inner` = product of S.
struct ClassForm {
  int64_t batch = 0;
  int64_t classes = 0;
  int64_t inner = 1;
  int64_t positions() const { return batch * inner; }
};

inline ClassForm ClassFormOf(const Shape& scores) {
  ClassForm form{scores[0], scores[1], 1};
  for (size_t d = 2; d < scores.size(); ++d) form.inner *= scores[d];
  return form;
}

enum class Reduction3 { kMean, kSum, kNone };

inline Reduction3 ReductionOf(const Node& node) {
  const std::string name = node.attrs.Str("reduction", "mean");
  return name == "none" ? Reduction3::kNone
                        : (name == "sum" ? Reduction3::kSum : Reduction3::kMean);
}

// The label at a position, or -1 when it is not counted.
class Labels {
 public:
  Labels(const void* data, DType dtype, int64_t classes, int64_t ignore)
      : data_(data), wide_(dtype == DType::kI64), classes_(classes), ignore_(ignore) {}
  int64_t operator[](int64_t i) const {
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

}  // namespace ebb::device::cpu
