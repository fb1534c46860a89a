#include "runtime/predictions.h"

#include <cstring>
#include <string>

#include "absl/strings/strip.h"
#include "base/check.h"

namespace ebb::runtime {
namespace {

std::string OutputOf(const graph::Value& metric) {
  return std::string(absl::StripPrefix(metric.name, "metric/"));
}

// Of all rows.
graph::TensorType TypeOf(const PreparedJob& job, const graph::Value& metric) {
  graph::TensorType type = metric.type;
  type.shape[0] = static_cast<int64_t>(job.sources[0].rows.size());
  return type;
}

}  // namespace

Bytes PreparedJob::PredictionBytes() const {
  Bytes bytes;
  for (const ValueId id : programs()[0]->metrics) {
    bytes += TypeOf(*this, programs()[0]->graph.value(id)).bytes();
  }
  return bytes;
}

graph::TensorMap RoomForPredictions(const PreparedJob& job) {
  graph::TensorMap room;
  const StepProgram& step = *job.programs()[0];
  for (const ValueId id : step.metrics) {
    const graph::Value& value = step.graph.value(id);
    room.emplace(OutputOf(value), graph::HostTensor::Zeros(TypeOf(job, value)));
  }
  return room;
}

void KeepPredictions(absl::Span<const char> values, const std::vector<Bytes>& offsets,
                     int64_t batch, int64_t valid, PreparedJob* job) {
  const StepProgram& step = *job->programs()[0];
  for (size_t m = 0; m < step.metrics.size(); ++m) {
    const graph::Value& value = step.graph.value(step.metrics[m]);
    const auto it = job->predictions.find(OutputOf(value));
    EBB_CHECK(it != job->predictions.end());
    graph::HostTensor& all = it->second;
    const int64_t row = value.type.bytes().count() / value.type.shape[0];
    const int64_t begin = batch * value.type.shape[0] * row;
    EBB_CHECK(begin + valid * row <= static_cast<int64_t>(all.data.size()));
    std::memcpy(all.data.data() + begin, values.data() + offsets[m].count(),
                static_cast<size_t>(valid * row));
  }
}

}  // namespace ebb::runtime
