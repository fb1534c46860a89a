#include "runtime/resident.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "runtime/predictions.h"

namespace ebb::runtime {
namespace {

using graph::Graph;
using graph::Role;

std::optional<ResidentLayout::Kind> KindOf(Role role) {
  if (role == Role::kParam) return ResidentLayout::Kind::kParam;
  if (role == Role::kOptState) return ResidentLayout::Kind::kSlot;
  if (role == Role::kBuffer) return ResidentLayout::Kind::kBuffer;
  return std::nullopt;
}

class ResidentBuilder {
 public:
  explicit ResidentBuilder(Bytes alignment) : alignment_(alignment) {}

  void AddState(const Graph& graph, Role role, const char* cls) {
    for (const graph::Value& value : graph.values) {
      if (value.role != role) continue;
      const auto [it, added] = layout_.shared.emplace(value.name, end_);
      if (!added) continue;
      const Bytes begin = end_;
      Take(value.type.bytes(), cls);
      if (const auto kind = KindOf(role)) {
        layout_.state.push_back({value.name, *kind, begin, end_ - begin});
      }
    }
  }
  void EndState() { layout_.state_end = end_; }
  void AddConstants(const Graph& graph, int program) {
    for (const graph::Value& value : graph.values) {
      if (value.role != Role::kConstant) continue;
      layout_.own[program].emplace(value.name, end_);
      Take(value.type.bytes(), "constants");
    }
  }
  void AddMetrics(const StepProgram& step, int program) {
    layout_.metrics_begin[program] = end_;
    for (const ValueId id : step.metrics) {
      const graph::Value& value = step.graph.value(id);
      layout_.own[program].emplace(value.name, end_);
      layout_.metric_offsets[program].push_back(end_ - layout_.metrics_begin[program]);
      Take(std::max(value.type.bytes(), Bytes(8)), "metrics");
    }
    layout_.metrics_bytes[program] = end_ - layout_.metrics_begin[program];
  }
  ResidentLayout Finish() {
    layout_.bytes = end_;
    return std::move(layout_);
  }

 private:
  void Take(Bytes bytes, const char* cls) {
    end_ += AlignUp(bytes, alignment_);
    layout_.classes[cls] += AlignUp(bytes, alignment_);
  }
  Bytes alignment_;
  Bytes end_;
  ResidentLayout layout_;
};

}  // namespace

ResidentLayout LayOutResidents(const device::Device& device, const StepPrograms& programs) {
  ResidentBuilder builder(device.spec().alignment);
  for (const auto& [role, cls] : {std::pair{Role::kParam, "parameters"},
                                  {Role::kOptState, "optimizer state"},
                                  {Role::kBuffer, "buffers"}}) {
    for (const auto& step : programs) {
      if (step) builder.AddState(step->graph, role, cls);
    }
  }
  builder.EndState();
  for (int p = 0; p < 2; ++p) {
    const auto& step = programs[p];
    if (!step) continue;
    builder.AddState(step->graph, Role::kScalar, "scalars");
    builder.AddConstants(step->graph, p);
    builder.AddMetrics(*step, p);
  }
  return builder.Finish();
}

void LayOutSlots(Bytes alignment, PreparedJob* job) {
  for (int p = 0; p < 2; ++p) {
    if (!job->programs()[p]) continue;
    Bytes end;
    for (const data::FieldBinding& binding : job->sources[p].bindings) {
      job->slot_offsets[p].push_back(end);
      end += AlignUp(binding.type.bytes(), alignment);
    }
    job->slot_offsets[p].push_back(end);
    end += alignment;  // ebb.valid
    job->slot_bytes = std::max(job->slot_bytes, end);
  }
}

absl::Status AllocateHost(device::Device& device, PreparedJob* job) {
  const DeviceSpec& spec = device.spec();
  if (!job->stages_in_pool) {
    EBB_ASSIGN_OR_RETURN(job->host_slots, HostBuffer::Create(device, job->StagingOnHost()));
  }
  while (static_cast<int>(job->metric_rooms.size()) < kMetricRooms) {
    EBB_ASSIGN_OR_RETURN(job->metric_rooms.emplace_back(),
                         HostBuffer::Create(device, job->MetricBytes()));
  }
  if (spec.computes && job->spec.predict) job->predictions = RoomForPredictions(*job);
  if (spec.computes && job->spec.keep != Keep::kLast) {
    EBB_ASSIGN_OR_RETURN(job->best, HostBuffer::Create(device, job->resident.state_end));
  }
  if (job->NeedsImage(spec)) {
    EBB_ASSIGN_OR_RETURN(job->host_image, HostBuffer::Create(device, job->resident.bytes));
  }
  return absl::OkStatus();
}

void MakeInitialImage(const PreparedJob& job, char* image) {
  const auto put = [&](Bytes offset, const graph::HostTensor& tensor) {
    std::memcpy(image + offset.count(), tensor.data.data(), tensor.data.size());
  };
  for (const auto& [name, tensor] : job.weights) put(job.resident.shared.at(name), tensor);
  for (int p = 0; p < 2; ++p) {
    if (!job.programs()[p]) continue;
    for (const graph::Value& value : job.programs()[p]->graph.values) {
      if (value.role == Role::kConstant) put(job.resident.own[p].at(value.name), *value.data);
    }
  }
}

graph::TensorMap TensorsOf(const PreparedJob& job, absl::Span<const char> snapshot,
                           graph::Role role) {
  graph::TensorMap tensors;
  for (const auto& step : job.programs()) {
    if (!step) continue;
    for (const graph::Value& value : step->graph.values) {
      if (value.role != role) continue;
      graph::HostTensor tensor = graph::HostTensor::Zeros(value.type);
      const int64_t at = job.resident.shared.at(value.name).count();
      EBB_CHECK(at + static_cast<int64_t>(tensor.data.size()) <=
                static_cast<int64_t>(snapshot.size()));
      std::memcpy(tensor.data.data(), snapshot.data() + at, tensor.data.size());
      tensors.insert_or_assign(value.name, std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace ebb::runtime
