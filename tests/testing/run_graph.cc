// Memory, launching and reading back for tests.
#include "tests/testing/run_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
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

// Memory with a guard behind it.
struct GraphRunner::Allocation {
  Allocation(TestMemory& memory, Bytes bytes)
      : memory(memory),
        size(static_cast<size_t>(bytes.count())),
        address(memory.Allocate(size + kGuard)) {
    std::vector<unsigned char> fill(size + kGuard, kPoisonByte);
    std::fill(fill.end() - kGuard, fill.end(), kGuardByte);
    memory.Put(address, fill.data(), fill.size());
  }
  bool GuardIsIntact() const {
    const auto guard = memory.Read(reinterpret_cast<const unsigned char*>(address) + size, kGuard);
    return std::all_of(guard.begin(), guard.end(), [](unsigned char b) { return b == kGuardByte; });
  }
  TestMemory& memory;
  size_t size;
  char* address;
};

GraphRunner::GraphRunner(device::Device& device, const Graph& graph)
    : device_(device), graph_(graph), memory_(device) {}

GraphRunner::~GraphRunner() {
  if (stream_.valid()) device_.DestroyStream(stream_);
}

absl::StatusOr<std::unique_ptr<GraphRunner>> GraphRunner::Make(device::Device& device,
                                                               const Graph& graph,
                                                               Placement placement) {
  std::unique_ptr<GraphRunner> runner(new GraphRunner(device, graph));
  EBB_ASSIGN_OR_RETURN(runner->program_, device.Compile(graph));
  runner->stream_ = device.CreateStream();
  runner->Allocate(placement);
  return runner;
}

void GraphRunner::Allocate(Placement placement) {
  placement_ = placement;
  auto allocate = [&](Bytes bytes) {
    allocations_.emplace_back(memory_, bytes);
    return static_cast<void*>(allocations_.back().address);
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
    if (value.role == Role::kOptState) {
      memory_.Put(memory, std::vector<char>(bytes, 0).data(), bytes);
    }
    if (value.role == Role::kConstant) memory_.Put(memory, value.data->data.data(), bytes);
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
  memory_.Put(bindings_.values[id.index()], tensor.data.data(), tensor.data.size());
  return absl::OkStatus();
}

absl::Status GraphRunner::LaunchAndWait(int first, int last) {
  device_.Launch(stream_,
                 {.program = program_.get(), .bindings = &bindings_, .first = first, .last = last});
  const device::EventId event = device_.Record(stream_);
  device_.Synchronize(stream_);
  absl::Status status = device_.Query(event).status;
  device_.Release(event);
  return status;
}

std::vector<std::byte> GraphRunner::BytesOf(const Value& value) const {
  return memory_.Read(static_cast<const std::byte*>(bindings_.values[value.id.index()]),
                      static_cast<size_t>(value.type.bytes().count()));
}

void GraphRunner::Capture(const Node& node) {
  for (ValueId id : node.outputs) {
    const Value& value = graph_.value(id);
    captured_[id.index()] = {value.type, BytesOf(value)};
  }
}

absl::Status GraphRunner::CheckGuards() const {
  for (const Value& value : graph_.values) {
    for (const Allocation& allocation : allocations_) {
      if (allocation.address == bindings_.values[value.id.index()] && !allocation.GuardIsIntact()) {
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
    tensor.data = BytesOf(value);
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
    case DType::kBF16:
    case DType::kF16:
      EBB_CHECK(false && "a host tensor of 16-bit floats");
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

double RelativeL2(const HostTensor& got, const HostTensor& want) {
  const std::vector<double> a = ToDoubles(got);
  const std::vector<double> b = ToDoubles(want);
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (difference == 0) return 0;
  return norm == 0 ? INFINITY : std::sqrt(difference / norm);
}

}  // namespace ebb::testing
