// Memory, launching and reading back for tests.
#include "tests/testing/run_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "graph/liveness.h"

namespace ebb::testing {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Layout;
using graph::Node;
using graph::NumElements;
using graph::Role;
using graph::Value;

namespace {

constexpr size_t kGuard = 64;
constexpr unsigned char kGuardByte = 0xA5;
constexpr unsigned char kPoisonByte = 0xFF;  // makes every float a NaN

// N,S...,C in memory to N,C,S...
HostTensor FromChannelsLast(HostTensor tensor) {
  const auto& shape = tensor.type.shape;
  if (shape.size() < 3) return tensor;
  const auto size = static_cast<size_t>(SizeOf(tensor.type.dtype).count());
  const int64_t batch = shape[0];
  const int64_t channels = shape[1];
  const int64_t spatial = batch * channels == 0 ? 0 : NumElements(shape) / (batch * channels);
  HostTensor plain = HostTensor::Zeros(tensor.type);
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t s = 0; s < spatial; ++s) {
        const auto to = static_cast<size_t>((n * channels + c) * spatial + s);
        const auto from = static_cast<size_t>((n * spatial + s) * channels + c);
        std::memcpy(&plain.data[to * size], &tensor.data[from * size], size);
      }
    }
  }
  return plain;
}

}  // namespace

// 64-byte aligned memory with a guard behind it.
struct GraphRunner::Allocation {
  explicit Allocation(Bytes bytes) : size(static_cast<size_t>(bytes.count())) {
    memory.reset(static_cast<unsigned char*>(std::aligned_alloc(64, rounded())));
    std::memset(memory.get(), kPoisonByte, size);
    std::memset(memory.get() + size, kGuardByte, rounded() - size);
  }
  bool GuardIsIntact() const {
    const unsigned char* guard = memory.get() + size;
    return std::all_of(guard, guard + kGuard, [](unsigned char b) { return b == kGuardByte; });
  }
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  size_t rounded() const { return (size + kGuard + 63) / 64 * 64; }
  size_t size;
  std::unique_ptr<unsigned char, Free> memory;
  char* on_device = nullptr;
};

GraphRunner::GraphRunner(device::Device& device, const Graph& graph)
    : device_(device), graph_(graph) {}

GraphRunner::~GraphRunner() {
  if (stream_.valid()) device_.DestroyStream(stream_);
  if (on_device_ == nullptr) return;
  device_.granules().Decommit(on_device_, Bytes(0), device_bytes_);
  device_.granules().Unreserve(on_device_, device_bytes_);
}

absl::StatusOr<std::unique_ptr<GraphRunner>> GraphRunner::Make(device::Device& device,
                                                               const Graph& graph,
                                                               Placement placement) {
  std::unique_ptr<GraphRunner> runner(new GraphRunner(device, graph));
  EBB_ASSIGN_OR_RETURN(runner->program_, device.Compile(graph));
  runner->stream_ = device.CreateStream();
  runner->Allocate(placement);
  if (!device.spec().host_memory) EBB_RETURN_IF_ERROR(runner->AllocateOnDevice());
  return runner;
}

absl::Status GraphRunner::AllocateOnDevice() {
  const Bytes alignment = device_.spec().alignment;
  const auto room = [&](const Allocation& allocation) {
    return AlignUp(Bytes(static_cast<int64_t>(allocation.rounded())), alignment);
  };
  Bytes bytes;
  for (const Allocation& allocation : allocations_) bytes += room(allocation);
  memory::GranuleSource& granules = device_.granules();
  bytes = AlignUp(std::max(bytes, Bytes(1)), granules.granule());
  EBB_ASSIGN_OR_RETURN(char* const base, granules.Reserve(bytes));
  if (absl::Status status = granules.Commit(base, Bytes(0), bytes); !status.ok()) {
    granules.Unreserve(base, bytes);
    return status;
  }
  on_device_ = base;
  device_bytes_ = bytes;
  std::map<const void*, char*> places;
  Bytes at;
  for (Allocation& allocation : allocations_) {
    allocation.on_device = base + at.count();
    places.emplace(allocation.memory.get(), allocation.on_device);
    at += room(allocation);
  }
  const auto place = [&](void* host) { return host == nullptr ? nullptr : places.at(host); };
  for (void* value : bindings_.values) device_bindings_.values.push_back(place(value));
  for (void* scratch : bindings_.workspaces) {
    device_bindings_.workspaces.push_back(place(scratch));
  }
  return absl::OkStatus();
}

void GraphRunner::Allocate(Placement placement) {
  placement_ = placement;
  auto allocate = [&](Bytes bytes) {
    allocations_.emplace_back(bytes);
    return static_cast<void*>(allocations_.back().memory.get());
  };
  graph::Liveness liveness;
  liveness.buffer_of.assign(graph_.values.size(), -1);
  liveness.alias_of.assign(graph_.values.size(), ValueId());
  if (placement == Placement::kShared) {
    liveness = ComputeLiveness(graph_);
    captured_.resize(graph_.values.size());
  }
  std::vector<void*> buffers;
  for (const graph::Buffer& buffer : liveness.buffers) buffers.push_back(allocate(buffer.bytes));
  for (const Value& value : graph_.values) {
    const int buffer = liveness.buffer_of[value.id.index()];
    const ValueId alias = liveness.alias_of[value.id.index()];
    void* memory = buffer >= 0     ? buffers[static_cast<size_t>(buffer)]
                   : alias.valid() ? bindings_.values[alias.index()]
                                   : allocate(value.type.bytes());
    bindings_.values.push_back(memory);
    const auto bytes = static_cast<size_t>(value.type.bytes().count());
    if (alias.valid() || bytes == 0) continue;
    if (value.role == Role::kOptState) std::memset(memory, 0, bytes);
    if (value.role == Role::kConstant) std::memcpy(memory, value.data->data.data(), bytes);
  }
  for (const Node& node : graph_.nodes) {
    const Bytes workspace = program_->Workspace(node.id);
    bindings_.workspaces.push_back(workspace > Bytes(0) ? allocate(workspace) : nullptr);
  }
}

absl::Status GraphRunner::Set(absl::string_view name, const HostTensor& tensor) {
  const ValueId id = graph_.Find(name);
  if (!id.valid()) return absl::NotFoundError(absl::StrCat("the graph has no value '", name, "'"));
  const Value& value = graph_.value(id);
  if (value.type != tensor.type) {
    return absl::InvalidArgumentError(absl::StrCat("value '", name, "' is ", ToString(value.type),
                                                   ", not ", ToString(tensor.type)));
  }
  if (!tensor.data.empty()) {
    std::memcpy(bindings_.values[id.index()], tensor.data.data(), tensor.data.size());
  }
  return absl::OkStatus();
}

absl::Status GraphRunner::LaunchAndWait(int first, int last) {
  const bool copies = on_device_ != nullptr;
  for (const Allocation& allocation : allocations_) {
    if (!copies) break;
    device_.Copy(stream_, allocation.on_device, allocation.memory.get(),
                 Bytes(static_cast<int64_t>(allocation.rounded())));
  }
  device_.Launch(stream_, {.program = program_.get(),
                           .bindings = copies ? &device_bindings_ : &bindings_,
                           .first = first,
                           .last = last});
  for (const Allocation& allocation : allocations_) {
    if (!copies) break;
    device_.Copy(stream_, allocation.memory.get(), allocation.on_device,
                 Bytes(static_cast<int64_t>(allocation.rounded())));
  }
  const device::EventId event = device_.Record(stream_);
  device_.Synchronize(stream_);
  absl::Status status = device_.Query(event).status;
  device_.Release(event);
  return status;
}

void GraphRunner::Capture(const Node& node) {
  for (ValueId id : node.outputs) {
    const Value& value = graph_.value(id);
    const auto* bytes = static_cast<const std::byte*>(bindings_.values[id.index()]);
    captured_[id.index()] = {value.type, {bytes, bytes + value.type.bytes().count()}};
  }
}

absl::Status GraphRunner::CheckGuards() const {
  for (const Value& value : graph_.values) {
    for (const Allocation& allocation : allocations_) {
      if (allocation.memory.get() == bindings_.values[value.id.index()] &&
          !allocation.GuardIsIntact()) {
        return absl::InternalError(
            absl::StrCat("a kernel wrote behind the value '", value.name, "'"));
      }
    }
  }
  const bool intact = std::all_of(allocations_.begin(), allocations_.end(),
                                  [](const Allocation& a) { return a.GuardIsIntact(); });
  return intact ? absl::OkStatus() : absl::InternalError("a kernel wrote behind a workspace");
}

absl::Status GraphRunner::Run() {
  const int last = static_cast<int>(graph_.nodes.size()) - 1;
  if (placement_ == Placement::kSeparate) {
    EBB_RETURN_IF_ERROR(LaunchAndWait(0, last));
  } else {
    for (int i = 0; i <= last; ++i) {
      EBB_RETURN_IF_ERROR(LaunchAndWait(i, i));
      Capture(graph_.nodes[static_cast<size_t>(i)]);
    }
  }
  return CheckGuards();
}

absl::StatusOr<HostTensor> GraphRunner::Get(absl::string_view name) const {
  const ValueId id = graph_.Find(name);
  if (!id.valid()) return absl::NotFoundError(absl::StrCat("the graph has no value '", name, "'"));
  return Get(id);
}

HostTensor GraphRunner::Get(ValueId id) const {
  const Value& value = graph_.value(id);
  HostTensor tensor{value.type, {}};
  if (id.index() < captured_.size() && !captured_[id.index()].data.empty()) {
    tensor = captured_[id.index()];
  } else {
    const auto* bytes = static_cast<const std::byte*>(bindings_.values[id.index()]);
    tensor.data.assign(bytes, bytes + value.type.bytes().count());
  }
  return value.layout == Layout::kChannelsLast ? FromChannelsLast(std::move(tensor)) : tensor;
}

absl::StatusOr<graph::TensorMap> RunGraph(device::Device& device, const Graph& graph,
                                          const graph::TensorMap& feeds, Placement placement) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<GraphRunner> runner,
                       GraphRunner::Make(device, graph, placement));
  for (const auto& [name, tensor] : feeds) EBB_RETURN_IF_ERROR(runner->Set(name, tensor));
  EBB_RETURN_IF_ERROR(runner->Run());
  graph::TensorMap results;
  for (const Value& value : graph.values) results[value.name] = runner->Get(value.id);
  return results;
}

HostTensor RandomTensor(graph::TensorType type, uint64_t seed, double min, double max) {
  std::vector<double> values(static_cast<size_t>(NumElements(type.shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    const PhiloxCounter words = Philox({static_cast<uint32_t>(i), 0, 0, 0}, PhiloxKeyFrom(seed));
    const double uniform = UniformFloat(words[0]) + UniformFloat(words[1]) / 16777216.0;
    values[i] = min + (max - min) * uniform;
  }
  return FromDoubles(std::move(type), values);
}

namespace {

// body(T()) with the C++ type of the elements.
template <class Body>
void ForType(DType dtype, Body body) {
  switch (dtype) {
    case DType::kF32:
      return body(float());
    case DType::kF64:
      return body(double());
    case DType::kI32:
      return body(int32_t());
    case DType::kI64:
      return body(int64_t());
    case DType::kU8:
      return body(uint8_t());
    case DType::kBool:
      return body(uint8_t());
  }
}

}  // namespace

std::vector<double> ToDoubles(const HostTensor& tensor) {
  std::vector<double> values;
  ForType(tensor.type.dtype, [&](auto zero) {
    for (auto element : tensor.as<decltype(zero)>()) values.push_back(static_cast<double>(element));
  });
  return values;
}

HostTensor FromDoubles(graph::TensorType type, const std::vector<double>& values) {
  HostTensor tensor = HostTensor::Zeros(std::move(type));
  ForType(tensor.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(values.begin(), values.end(), tensor.as<T>().begin(), [](double value) {
      return static_cast<T>(std::is_integral_v<T> ? std::floor(value) : value);
    });
  });
  return tensor;
}

}  // namespace ebb::testing
