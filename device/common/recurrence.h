// The sizes of a recurrence (Lstm, Gru) and its steps in the order in which they are computed.
#pragma once

#include "absl/strings/string_view.h"
#include "device/common/operands.h"

namespace ebb::device {

// T steps of N sequences, H hidden units. Gates are blocks of H of a row of `wide` = G H.
struct RecurrenceForm {
  int64_t steps = 0, batch = 0, hidden = 0, wide = 0;
  bool reverse = false;
  int64_t at[4] = {};  // where in a row the gates i, o, f, c (or z, r, h) begin

  // `gates` names the gates, a letter each; input 0 of the node is [T,N,G H].
  static RecurrenceForm Of(const Graph& graph, const Node& node, absl::string_view gates);

  int64_t Step(int64_t k) const { return reverse ? steps - 1 - k : k; }  // the k-th computed
  int64_t StateSize() const { return batch * hidden; }
  int64_t WideSize() const { return batch * wide; }
  // The states before the k-th step: those of the step before, or `initial`, which may be null.
  const float* Before(const float* states, const float* initial, int64_t k) const {
    return k > 0 ? states + Step(k - 1) * StateSize() : initial;
  }
};

}  // namespace ebb::device
