#include "perfmodel/training_step.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/liveness.h"
#include "graph/op.h"
#include "perfmodel/tensor_parallel.h"

namespace ebb::perfmodel {
namespace {

using graph::Buffer;
using graph::BufferClass;
using graph::Graph;
using graph::Liveness;
using graph::Node;
using graph::NumElements;
using graph::Phase;
using graph::Role;
using graph::Value;

class Maker {
 public:
  Maker(const Graph& graph, int64_t tensor)
      : graph_(graph), tensor_(tensor), split_(SplitTensors(graph, tensor)) {}

  absl::StatusOr<TrainingStep> Make(int64_t batch) {
    step_.batch = batch;
    while (static_cast<size_t>(step_.units) < graph_.nodes.size() && IsForward(step_.units)) {
      ++step_.units;
    }
    if (step_.units == 0) {
      return absl::InvalidArgumentError("a training graph begins with forward nodes");
    }
    Params();
    // Updates come last: they wait for what ranks exchange.
    for (const bool updates : {false, true}) {
      for (const Node& node : graph_.nodes) {
        if ((node.phase == Phase::kUpdate) == updates) EBB_RETURN_IF_ERROR(Add(node));
      }
    }
    for (const Node& node : graph_.nodes) Ready(node);
    Memory();
    return std::move(step_);
  }

 private:
  bool IsForward(int node) const {
    const Phase phase = graph_.nodes[static_cast<size_t>(node)].phase;
    return phase == Phase::kForward || phase == Phase::kLoss;
  }
  double BytesOf(const Value& value) const {
    const auto bytes = static_cast<double>(value.type.bytes().count());
    return split_.values[value.id.index()] ? bytes / static_cast<double>(tensor_) : bytes;
  }

  void Params() {
    for (const Value& value : graph_.values) {
      if (value.role == Role::kParam) {
        param_of_[value.id] = static_cast<int>(step_.params.size());
        step_.params.push_back({.name = value.name, .bytes = BytesOf(value)});
      } else if (value.role == Role::kBuffer || value.role == Role::kConstant) {
        step_.fixed_bytes += BytesOf(value);
      }
    }
    for (const Value& value : graph_.values) {
      if (value.role != Role::kOptState) continue;
      if (const auto it = param_of_.find(value.slot_of); it != param_of_.end()) {
        step_.params[static_cast<size_t>(it->second)].state_bytes += BytesOf(value);
      } else {
        step_.fixed_bytes += BytesOf(value);
      }
    }
    std::vector<bool> read(step_.params.size(), false);
    for (int unit = 0; unit < step_.units; ++unit) {
      for (const ValueId in : graph_.nodes[static_cast<size_t>(unit)].inputs) {
        const auto it = in.valid() ? param_of_.find(in) : param_of_.end();
        if (it == param_of_.end()) continue;
        StepParam& param = step_.params[static_cast<size_t>(it->second)];
        if (!read[static_cast<size_t>(it->second)]) param.unit = unit;
        read[static_cast<size_t>(it->second)] = true;
        param.last_unit = unit;
      }
    }
  }

  int ParamOf(const Node& node) const {
    for (const ValueId in : node.inputs) {
      const auto it = in.valid() ? param_of_.find(in) : param_of_.end();
      if (it != param_of_.end()) return it->second;
    }
    return -1;
  }

  absl::Status Add(const Node& node) {
    absl::StatusOr<Work> work = WorkOf(graph_, node);
    if (!work.ok()) return work.status();
    const TensorSplit::NodeCut& cut = split_.nodes[node.id.index()];
    if (cut.cut && cut.dimension > 0) {
      *work = CutProduct(*work, cut.dimension, tensor_);
    } else if (cut.cut) {
      *work = CutElements(*work, tensor_);
    }
    StepOp op{
        .name = node.name, .phase = node.phase, .work = *work, .reduce_bytes = cut.reduce_bytes};
    if (op.phase == Phase::kLoss) op.phase = Phase::kForward;
    op.unit = op.phase == Phase::kForward ? node.id.value()
              : node.mirror.valid()       ? node.mirror.value()
                                          : step_.units - 1;
    op.unit = std::clamp(op.unit, 0, step_.units - 1);
    if (op.phase == Phase::kUpdate) op.param = ParamOf(node);
    if (op.param >= 0) op.unit = step_.params[static_cast<size_t>(op.param)].unit;
    place_of_.resize(graph_.nodes.size(), -1);
    place_of_[node.id.index()] = static_cast<int>(step_.ops.size());
    step_.ops.push_back(std::move(op));
    return absl::OkStatus();
  }

  // The gradient of an update's parameter has its size; on its way there may be clipping.
  void Ready(const Node& update) {
    if (update.phase != Phase::kUpdate) return;
    const int index = ParamOf(update);
    if (index < 0) return;
    StepParam& param = step_.params[static_cast<size_t>(index)];
    int64_t elements = 0;
    for (const ValueId in : update.inputs) {
      if (in.valid() && param_of_.contains(in)) {
        elements = NumElements(graph_.value(in).type.shape);
      }
    }
    std::vector<const Node*> open = {&update};
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (node->phase != Phase::kUpdate) {
        param.ready = std::max(param.ready, place_of_[node->id.index()]);
        continue;
      }
      for (const ValueId in : node->inputs) {
        if (!in.valid()) continue;
        const Value& value = graph_.value(in);
        if (value.producer.valid() && NumElements(value.type.shape) == elements) {
          open.push_back(&graph_.node(value.producer));
        }
      }
    }
  }

  void Memory() {
    const Liveness liveness = ComputeLiveness(graph_);
    const auto units = static_cast<size_t>(step_.units);
    step_.saved_bytes.assign(units, 0);
    step_.crossing_bytes.assign(units, 0);
    std::vector<int> last_forward(liveness.buffers.size(), -1);
    for (int unit = 0; unit < step_.units; ++unit) {
      for (const ValueId in : graph_.nodes[static_cast<size_t>(unit)].inputs) {
        const int buffer = in.valid() ? liveness.buffer_of[in.index()] : -1;
        if (buffer >= 0) last_forward[static_cast<size_t>(buffer)] = unit;
      }
    }
    std::vector<double> change(graph_.nodes.size() + 1, 0);  // of what lives, by node
    for (size_t i = 0; i < liveness.buffers.size(); ++i) {
      const Buffer& buffer = liveness.buffers[i];
      double bytes = static_cast<double>(buffer.bytes.count());
      for (const ValueId value : buffer.values) {
        if (split_.values[value.index()]) {
          bytes = static_cast<double>(buffer.bytes.count()) / static_cast<double>(tensor_);
        }
      }
      if (buffer.cls == BufferClass::kInput) {
        step_.input_bytes += bytes;
        continue;
      }
      if (buffer.cls == BufferClass::kSaved) {
        const auto unit = static_cast<size_t>(std::min(buffer.first, step_.units - 1));
        step_.saved_bytes[unit] += bytes;
      } else {
        change[static_cast<size_t>(buffer.first)] += bytes;
        change[static_cast<size_t>(buffer.last) + 1] -= bytes;
      }
      for (int unit = buffer.first + 1; unit <= last_forward[i]; ++unit) {
        step_.crossing_bytes[static_cast<size_t>(unit)] += bytes;
      }
    }
    double alive = 0;
    for (const double by : change) {
      alive += by;
      step_.working_bytes = std::max(step_.working_bytes, alive);
    }
  }

  const Graph& graph_;
  const int64_t tensor_;
  const TensorSplit split_;
  TrainingStep step_;
  absl::flat_hash_map<ValueId, int> param_of_;
  std::vector<int> place_of_;  // of a node in step_.ops
};

absl::Status Fault(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("training step: ", what));
}

}  // namespace

absl::Status Verify(const TrainingStep& step) {
  const auto units = static_cast<size_t>(std::max(step.units, 0));
  if (step.batch < 1 || units < 1) return Fault("its batch and its units are 1 or more");
  if (step.saved_bytes.size() != units || step.crossing_bytes.size() != units) {
    return Fault("saved and crossing bytes are one number a unit");
  }
  const auto order = [](Phase phase) {
    return phase == Phase::kBackward ? 1 : phase == Phase::kUpdate ? 2 : 0;
  };
  int last = 0;
  for (const StepOp& op : step.ops) {
    if (order(op.phase) < last) return Fault("ops are forward, then backward, then updates");
    last = order(op.phase);
    if (op.unit < 0 || op.unit >= step.units) return Fault(absl::StrCat(op.name, ": no unit"));
    if (op.param < -1 || op.param >= static_cast<int>(step.params.size())) {
      return Fault(absl::StrCat(op.name, ": no parameter"));
    }
  }
  for (const StepParam& param : step.params) {
    if (param.ready >= static_cast<int>(step.ops.size()) || param.unit < 0 ||
        param.last_unit < param.unit || param.last_unit >= step.units) {
      return Fault(absl::StrCat(param.name, ": its ops do not exist"));
    }
    if (param.ready >= 0 && step.ops[static_cast<size_t>(param.ready)].phase != Phase::kBackward) {
      return Fault(absl::StrCat(param.name, ": its gradient is not of backward"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingStep> StepOf(const Graph& training, int64_t batch, int64_t tensor) {
  EBB_ASSIGN_OR_RETURN(TrainingStep step,
                       Maker(training, std::max<int64_t>(tensor, 1)).Make(batch));
  EBB_RETURN_IF_ERROR(Verify(step));
  return step;
}

StepMaker StepsOf(GraphMaker graphs) {
  return
      [graphs = std::move(graphs)](int64_t batch, int64_t tensor) -> absl::StatusOr<TrainingStep> {
        EBB_ASSIGN_OR_RETURN(const Graph graph, graphs(batch));
        return StepOf(graph, batch, tensor);
      };
}

}  // namespace ebb::perfmodel
