#include "device/common/recurrence.h"

#include <string>

namespace ebb::device {

RecurrenceForm RecurrenceForm::Of(const Graph& graph, const Node& node, absl::string_view gates) {
  const Shape& shape = In(graph, node).type.shape;
  const std::string order = node.attrs.Str("gates");
  RecurrenceForm s;
  s.steps = shape[0];
  s.batch = shape[1];
  s.wide = shape[2];
  s.hidden = s.wide / static_cast<int64_t>(gates.size());
  s.reverse = node.attrs.Int("reverse", 0) != 0;
  for (size_t i = 0; i < gates.size(); ++i) {
    s.at[i] = static_cast<int64_t>(order.find(gates[i])) * s.hidden;
  }
  return s;
}

}  // namespace ebb::device
