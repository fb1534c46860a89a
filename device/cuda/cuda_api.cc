#include "device/cuda/cuda_api.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/nvml.h"
#include "device/cuda/write.h"

namespace ebb::device::cuda {
namespace {

size_t Size(Bytes bytes) { return static_cast<size_t>(bytes.count()); }

// What a destructor cannot return.
void Tell(const absl::Status& status) {
  if (!status.ok()) Log(LogLevel::kWarning, "%s", status.ToString());
}

absl::Status Attribute(int ordinal, cudaDeviceAttr attribute, int* value) {
  return StatusOf(cudaDeviceGetAttribute(value, attribute, ordinal), "cudaDeviceGetAttribute");
}

absl::StatusOr<Properties> PropertiesOf(int ordinal) {
  cudaDeviceProp raw;
  EBB_RETURN_IF_ERROR(StatusOf(cudaGetDeviceProperties(&raw, ordinal), "cudaGetDeviceProperties"));
  int clock_khz = 0, memory_khz = 0, memory_bits = 0;
  EBB_RETURN_IF_ERROR(Attribute(ordinal, cudaDevAttrClockRate, &clock_khz));
  EBB_RETURN_IF_ERROR(Attribute(ordinal, cudaDevAttrMemoryClockRate, &memory_khz));
  EBB_RETURN_IF_ERROR(Attribute(ordinal, cudaDevAttrGlobalMemoryBusWidth, &memory_bits));
  Properties properties;
  properties.name = raw.name;
  properties.compute_major = raw.major;
  properties.compute_minor = raw.minor;
  properties.multiprocessors = raw.multiProcessorCount;
  properties.max_threads_per_multiprocessor = raw.maxThreadsPerMultiProcessor;
  properties.memory = Bytes(static_cast<int64_t>(raw.totalGlobalMem));
  properties.shared_per_block = Bytes(static_cast<int64_t>(raw.sharedMemPerBlockOptin));
  properties.clock_hz = 1e3 * clock_khz;
  properties.bandwidth = 2 * 1e3 * memory_khz * (memory_bits / 8.0);  // two transfers a clock
  properties.managed_virtual_memory = true;                           // see OpenApi
  return properties;
}

class RuntimeApi final : public Api {
 public:
  RuntimeApi(int ordinal, Properties properties, std::unique_ptr<VirtualMemory> memory,
             std::unique_ptr<const Nvml> nvml)
      : ordinal_(ordinal),
        properties_(std::move(properties)),
        memory_(std::move(memory)),
        nvml_(std::move(nvml)) {}

  const Properties& properties() const override { return properties_; }
  absl::Status MakeCurrent() override { return StatusOf(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  absl::StatusOr<MemoryInfo> Memory() override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    size_t free = 0, total = 0;
    EBB_RETURN_IF_ERROR(StatusOf(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return MemoryInfo{Bytes(static_cast<int64_t>(free)), Bytes(static_cast<int64_t>(total))};
  }
  absl::StatusOr<Bytes> ForeignMemory() override {
    if (nvml_ != nullptr) {
      EBB_ASSIGN_OR_RETURN(const Bytes used, nvml_->Used());
      return used - memory_->taken();
    }
    EBB_ASSIGN_OR_RETURN(const MemoryInfo info, Memory());
    return info.total - info.free - memory_->taken();
  }

  Bytes granule() const override { return memory_->granule(); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return memory_->Reserve(bytes);
  }
  void Unreserve(char* base, Bytes bytes) override { Tell(memory_->Unreserve(base, bytes)); }
  absl::Status Map(char* address, Bytes bytes) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return memory_->Map(address, bytes);
  }
  absl::Status Unmap(char* address, Bytes bytes) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    // What is under way may be using it.
    EBB_RETURN_IF_ERROR(StatusOf(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
    return memory_->Unmap(address, bytes);
  }
  absl::StatusOr<char*> AllocateHost(Bytes bytes) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    void* address = nullptr;
    EBB_RETURN_IF_ERROR(
        StatusOf(cudaHostAlloc(&address, Size(bytes), cudaHostAllocPortable), "cudaHostAlloc"));
    std::memset(address, 0, Size(bytes));
    return static_cast<char*>(address);
  }
  void FreeHost(char* address) override { Tell(StatusOf(cudaFreeHost(address), "cudaFreeHost")); }

  absl::StatusOr<Stream> CreateStream() override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    Stream stream = nullptr;
    EBB_RETURN_IF_ERROR(StatusOf(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                 "cudaStreamCreateWithFlags"));
    return stream;
  }
  void DestroyStream(Stream stream) override {
    Tell(StatusOf(cudaStreamDestroy(stream), "cudaStreamDestroy"));
  }
  absl::Status Synchronize(Stream stream) override {
    return StatusOf(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  // The host sleeps while it waits for one, rather than spin.
  absl::StatusOr<Event> CreateEvent() override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    Event event = nullptr;
    EBB_RETURN_IF_ERROR(StatusOf(cudaEventCreateWithFlags(&event, cudaEventBlockingSync),
                                 "cudaEventCreateWithFlags"));
    return event;
  }
  void DestroyEvent(Event event) override {
    Tell(StatusOf(cudaEventDestroy(event), "cudaEventDestroy"));
  }
  absl::Status Record(Stream stream, Event event) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return StatusOf(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  absl::Status Wait(Stream stream, Event event) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return StatusOf(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  absl::StatusOr<bool> Query(Event event) override {
    const cudaError_t error = cudaEventQuery(event);
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    EBB_RETURN_IF_ERROR(StatusOf(error, "cudaEventQuery"));
    return true;
  }
  absl::Status Synchronize(Event event) override {
    return StatusOf(cudaEventSynchronize(event), "cudaEventSynchronize");
  }
  absl::StatusOr<Micros> Elapsed(Event from, Event to) override {
    float millis = 0;
    EBB_RETURN_IF_ERROR(StatusOf(cudaEventElapsedTime(&millis, from, to), "cudaEventElapsedTime"));
    return Micros(std::llround(1e3 * static_cast<double>(millis)));
  }

  absl::Status Copy(Stream stream, void* to, const void* from, Bytes bytes) override {
    if (bytes == Bytes(0)) return absl::OkStatus();
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return StatusOf(cudaMemcpyAsync(to, from, Size(bytes), cudaMemcpyDefault, stream),
                    "cudaMemcpyAsync");
  }
  absl::Status Fill(Stream stream, void* to, int byte, Bytes bytes) override {
    if (bytes == Bytes(0)) return absl::OkStatus();
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return StatusOf(cudaMemsetAsync(to, byte, Size(bytes), stream), "cudaMemsetAsync");
  }
  absl::Status Write(Stream stream, void* to, const std::array<char, 64>& data,
                     Bytes bytes) override {
    if (bytes < Bytes(0) || Size(bytes) > data.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("CUDA: a write of ", bytes.count(), " bytes; at most 64 can be"));
    }
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return WriteBytes(stream, to, data, bytes);
  }

  absl::Status BeginCapture(Stream stream) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return StatusOf(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                    "cudaStreamBeginCapture");
  }
  absl::StatusOr<CapturedGraph> EndCapture(Stream stream) override {
    CapturedGraph graph = nullptr;
    EBB_RETURN_IF_ERROR(StatusOf(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"));
    if (graph == nullptr) return absl::InternalError("CUDA: nothing was captured");
    return graph;
  }
  void Discard(CapturedGraph graph) override {
    Tell(StatusOf(cudaGraphDestroy(graph), "cudaGraphDestroy"));
  }
  absl::StatusOr<ExecutableGraph> Instantiate(CapturedGraph graph) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    ExecutableGraph executable = nullptr;
    absl::Status status =
        StatusOf(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    Discard(graph);
    EBB_RETURN_IF_ERROR(status);
    return executable;
  }
  absl::Status LaunchGraph(Stream stream, ExecutableGraph graph) override {
    EBB_RETURN_IF_ERROR(MakeCurrent());
    return StatusOf(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  }
  void DestroyGraph(ExecutableGraph graph) override {
    Tell(StatusOf(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy"));
  }

 private:
  const int ordinal_;
  const Properties properties_;
  const std::unique_ptr<VirtualMemory> memory_;
  const std::unique_ptr<const Nvml> nvml_;  // null: the runtime is asked
};

absl::Status CheckOrdinal(int ordinal) {
  int count = 0;
  if (absl::Status status = StatusOf(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
      !status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("there is no NVIDIA GPU, or no driver of it, on this machine (",
                     status.message(), "); use the device \"cpu\""));
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(absl::StrCat("there is no GPU ", ordinal, "; this machine has ",
                                               count, ", numbered from 0"));
  }
  return absl::OkStatus();
}

// Memory that the context would set aside for what no kernel here does: printing and allocating.
absl::Status LimitContext() {
  constexpr size_t kLeast = size_t{64} << 10;
  EBB_RETURN_IF_ERROR(
      StatusOf(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, kLeast), "cudaDeviceSetLimit"));
  return StatusOf(cudaDeviceSetLimit(cudaLimitMallocHeapSize, kLeast), "cudaDeviceSetLimit");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Api>> OpenApi(int ordinal) {
  EBB_RETURN_IF_ERROR(CheckOrdinal(ordinal));
  EBB_RETURN_IF_ERROR(StatusOf(cudaSetDevice(ordinal), "cudaSetDevice"));
  EBB_RETURN_IF_ERROR(StatusOf(cudaFree(nullptr), "cudaFree"));  // makes the context
  EBB_RETURN_IF_ERROR(LimitContext());
  EBB_ASSIGN_OR_RETURN(Properties properties, PropertiesOf(ordinal));
  // Refuses a GPU without virtual memory.
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<VirtualMemory> memory, VirtualMemory::Make(ordinal));
  std::array<char, 32> pci = {};
  EBB_RETURN_IF_ERROR(
      StatusOf(cudaDeviceGetPCIBusId(pci.data(), pci.size(), ordinal), "cudaDeviceGetPCIBusId"));
  absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(pci.data());
  if (!nvml.ok()) {
    Log(LogLevel::kInfo, "cuda: memory of others is told by the runtime: %s",
        nvml.status().message());
  }
  return std::shared_ptr<Api>(std::make_shared<RuntimeApi>(
      ordinal, std::move(properties), std::move(memory), nvml.ok() ? std::move(*nvml) : nullptr));
}

}  // namespace ebb::device::cuda
