// The device joined from its parts: memory, programs, streams, events.
#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/common/channels_last.h"
#include "device/cuda/cuda_events.h"
#include "device/cuda/cuda_granules.h"
#include "device/cuda/cuda_program.h"
#include "device/cuda/cuda_stream.h"

namespace ebb::device::cuda {
namespace {

constexpr Bytes kAlignment(256);
constexpr int kStepsAtOnce = 8;    // two a lane; more find no idle multiprocessors
constexpr int kLanesOfFp32 = 128;  // a multiprocessor, since sm_86 (64 on sm_80)
constexpr int kOperationsOfFma = 2;

DeviceSpec SpecOf(const Properties& gpu, Bytes pool, Bytes granule) {
  const int lanes = gpu.compute_major == 8 && gpu.compute_minor == 0 ? 64 : kLanesOfFp32;
  return {.kind = "cuda",
          .name = gpu.name,
          .memory = pool,
          .granule = granule,
          .alignment = kAlignment,
          .parallelism = kStepsAtOnce,
          .threads_per_stream = 1,
          .peak_flops = gpu.multiprocessors * gpu.clock_hz * lanes * kOperationsOfFma,
          .peak_bandwidth = gpu.bandwidth,
          .computes = true,
          .host_memory = false};
}

class CudaDevice final : public Device {
 public:
  CudaDevice(CudaConfig config, DeviceSpec spec, Stream clock_stream)
      : config_(std::move(config)),
        spec_(std::move(spec)),
        clock_stream_(clock_stream),
        granules_(config_.api),
        events_(config_.api, clock_stream) {}
  ~CudaDevice() override;

  const DeviceSpec& spec() const override { return spec_; }
  absl::Status Health() const override { return events_.health(); }
  Bytes Outside() const override { return config_.api->ForeignMemory().value_or(Bytes(0)); }
  memory::GranuleSource& granules() override { return granules_; }
  absl::StatusOr<char*> AllocateHost(Bytes bytes) override {
    return config_.api->AllocateHost(std::max(bytes, Bytes(1)));
  }
  void FreeHost(char* memory, Bytes) override { config_.api->FreeHost(memory); }

  absl::StatusOr<graph::Graph> Lower(graph::Graph graph) const override {
    return ToChannelsLast(std::move(graph));
  }
  absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const override {
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<CudaProgram> program, CudaProgram::Make(graph, config_));
    return program;
  }

  StreamId CreateStream() override;
  void DestroyStream(StreamId stream) override;
  void Launch(StreamId stream, const LaunchArgs& args) override { Find(stream)->Launch(args); }
  void Copy(StreamId stream, void* to, const void* from, Bytes bytes) override {
    Find(stream)->Copy(to, from, bytes);
  }
  void Write(StreamId stream, void* to, absl::Span<const char> bytes) override {
    Find(stream)->Write(to, bytes);
  }
  EventId Record(StreamId stream) override { return Find(stream)->Record(); }
  void Wait(StreamId stream, EventId event) override { Find(stream)->Wait(event); }
  EventState Query(EventId event) const override { return events_.Query(event); }
  void Release(EventId event) override { events_.Release(event); }
  void AwaitProgress(absl::Duration timeout) override { events_.Await(timeout); }
  void Wake() override { events_.Wake(); }
  void Synchronize(StreamId stream) override { Find(stream)->Synchronize(); }
  Micros Now() const override { return events_.Now(); }

 private:
  CudaStream* Find(StreamId stream) const {
    MutexLock lock(&mu_);
    const auto it = streams_.find(stream);
    EBB_CHECK(it != streams_.end());
    return it->second.get();
  }

  const CudaConfig config_;
  const DeviceSpec spec_;
  const Stream clock_stream_;
  CudaGranules granules_;
  mutable CudaEvents events_;  // Query() learns what is complete

  mutable Mutex mu_;
  int32_t next_stream_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<StreamId, std::unique_ptr<CudaStream>> streams_ ABSL_GUARDED_BY(mu_);
};

CudaDevice::~CudaDevice() {
  std::vector<StreamId> streams;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, stream] : streams_) streams.push_back(id);
  }
  for (const StreamId stream : streams) DestroyStream(stream);
  (void)config_.api->Synchronize(clock_stream_);
  config_.api->DestroyStream(clock_stream_);
}

StreamId CudaDevice::CreateStream() {
  StreamId id;
  {
    MutexLock lock(&mu_);
    id = StreamId(next_stream_++);
  }
  auto stream = std::make_unique<CudaStream>(id, config_.api, &events_);
  MutexLock lock(&mu_);
  streams_.emplace(id, std::move(stream));
  return id;
}

void CudaDevice::DestroyStream(StreamId id) {
  Find(id)->Synchronize();
  std::unique_ptr<CudaStream> stream;
  {
    MutexLock lock(&mu_);
    stream = std::move(streams_.extract(id).mapped());
  }
  events_.Forget(id);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(CudaConfig config) {
  Api& api = *config.api;
  if (!api.properties().managed_virtual_memory) {
    return absl::UnavailableError(absl::StrCat(
        api.properties().name, " or its driver lacks the virtual-memory calls that Ebb needs"));
  }
  EBB_ASSIGN_OR_RETURN(const Stream clock_stream, api.CreateStream());
  const absl::StatusOr<MemoryInfo> memory = api.Memory();
  if (!memory.ok()) {
    api.DestroyStream(clock_stream);
    return memory.status();
  }
  // What others hold, and what the context and the modules take, is not ours to give out.
  const int64_t granule = api.granule().count();
  const Bytes pool((memory->free - config.reserve).count() / granule * granule);
  if (pool < api.granule()) {
    api.DestroyStream(clock_stream);
    return absl::ResourceExhaustedError(absl::StrCat(
        api.properties().name, " has ", FormatBytes(memory->free), " of ",
        FormatBytes(memory->total), " free, no more than ", FormatBytes(config.reserve),
        " that is kept for modules; end what else uses it"));
  }
  DeviceSpec spec = SpecOf(api.properties(), pool, api.granule());
  return std::make_unique<CudaDevice>(std::move(config), std::move(spec), clock_stream);
}

}  // namespace ebb::device::cuda
