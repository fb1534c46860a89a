#include "runtime/stream_order.h"

#include <algorithm>
#include <limits>

#include "graph/streaming.h"
#include "runtime/node_cost.h"

namespace ebb::runtime {
namespace {

// How long the copies of each sub-model take, beside its kernels and on their own.
class Bus {
 public:
  Bus(const StepProgram& step, const DeviceSpec& device)
      : sub_models_(static_cast<int>(step.partition.sub_models.size())),
        rate_(BusBytesPerMicro(device)) {
    for (const partitioner::SubModel& sub : step.partition.sub_models) {
      Load& load = loads_.emplace_back();
      for (int n = sub.first; n <= sub.last; ++n) {
        load.kernels += NodeMicros(device, step.graph, step.graph.nodes[static_cast<size_t>(n)]);
      }
    }
  }

  // What one more value adds.
  double Add(const std::vector<graph::UseInterval>& uses, Bytes bytes) {
    return Change(uses, static_cast<double>(bytes.count()) / rate_);
  }
  double WouldAdd(const std::vector<graph::UseInterval>& uses, Bytes bytes) {
    const double added = Add(uses, bytes);
    Change(uses, -static_cast<double>(bytes.count()) / rate_);
    return added;
  }

 private:
  struct Load {
    double kernels = 0, in = 0, out = 0, alone = 0;
    double Exposed() const { return alone + std::max(0.0, std::max(in, out) - kernels); }
  };
  double Change(const std::vector<graph::UseInterval>& uses, double micros) {
    double added = 0;
    for (const graph::UseInterval& interval : uses) {
      Load& fetched = loads_[static_cast<size_t>(interval.FetchedIn())];
      added -= fetched.Exposed();
      (interval.first == 0 ? fetched.alone : fetched.in) += micros;
      added += fetched.Exposed();
      if (!interval.writes) continue;
      Load& stored = loads_[static_cast<size_t>(interval.StoredIn(sub_models_))];
      added -= stored.Exposed();
      (interval.last + 1 == sub_models_ ? stored.alone : stored.out) += micros;
      added += stored.Exposed();
    }
    return added;
  }

  const int sub_models_;
  const double rate_;  // bytes a microsecond, each way
  std::vector<Load> loads_;
};

}  // namespace

std::vector<StreamedPart> StreamOrder(const StepProgram& training, const DeviceSpec& device,
                                      const std::vector<ResidentLayout::StateValue>& candidates,
                                      int parts) {
  std::vector<graph::NodeRange> cuts;
  for (const partitioner::SubModel& sub : training.partition.sub_models) {
    cuts.push_back({sub.first, sub.last});
  }
  struct Candidate {
    const ResidentLayout::StateValue* value;
    std::vector<graph::UseInterval> uses;
  };
  std::vector<Candidate> left;
  std::vector<bool> chosen(training.graph.values.size());
  Bytes total;
  for (const auto& value : candidates) {
    const ValueId id = training.graph.Find(value.name);
    if (!id.valid()) continue;
    chosen[id.index()] = true;
    left.push_back({&value, graph::FindIntervals(training.graph, cuts, chosen)});
    chosen[id.index()] = false;
    total += value.bytes;
  }
  Bus bus(training, device);
  std::vector<StreamedPart> result;
  StreamedPart part;
  while (!left.empty()) {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < left.size(); ++c) {
      const Bytes bytes = left[c].value->bytes;
      // Among those that add nothing, what is copied once before what is copied often.
      const double added = bus.WouldAdd(left[c].uses, bytes) / static_cast<double>(bytes.count());
      const double cost = added + 1e-12 * static_cast<double>(left[c].uses.size());
      if (cost >= least) continue;
      least = cost;
      best = c;
    }
    part.exposed_us += bus.Add(left[best].uses, left[best].value->bytes);
    part.bytes += left[best].value->bytes;
    part.names.push_back(left[best].value->name);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    const auto due = static_cast<int64_t>(result.size()) + 1;
    if (left.empty() || part.bytes * parts >= total * due) result.push_back(part);
  }
  return result;
}

}  // namespace ebb::runtime
