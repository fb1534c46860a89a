#include "runtime/engine.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/board.h"
#include "runtime/engine_loop.h"
#include "runtime/micro_batch_choice.h"
#include "runtime/needs.h"
#include "runtime/predict.h"
#include "runtime/prepare.h"
#include "runtime/resident.h"

namespace ebb::runtime {
namespace {

absl::Status Stopped() { return absl::UnavailableError("the engine is shutting down"); }

class EngineImpl final : public Engine {
 public:
  EngineImpl(std::unique_ptr<device::Device> device, const EngineOptions& options)
      : device_(std::move(device)), options_(options), loop_(device_.get(), options, &board_) {}

  ~EngineImpl() override {
    if (!thread_.joinable()) return;
    loop_.Stop();
    thread_.join();
  }

  absl::Status Start() {
    EBB_RETURN_IF_ERROR(loop_.Init());
    thread_ = std::thread([this] { loop_.Run(); });
    return absl::OkStatus();
  }

  absl::StatusOr<JobId> Submit(JobSpec spec) override {
    if (const absl::Status health = device_->Health(); !health.ok()) {
      return absl::UnavailableError(absl::StrCat("the device is lost: ", health.message()));
    }
    if (spec.batch_auto) {
      EBB_ASSIGN_OR_RETURN(spec.batch_size, AutoBatch(spec, Present(), *device_, options_.quantum));
    }
    const PrepareOptions prepare{.quantum = options_.quantum, .memory = options_.memory};
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<PreparedJob> prepared,
                         Prepare(std::move(spec), *device_, prepare));
    EBB_ASSIGN_OR_RETURN(prepared, InMicroBatches(std::move(prepared), Alone(), *device_, prepare));
    EBB_RETURN_IF_ERROR(MakeLevels(prepared.get()));
    EBB_RETURN_IF_ERROR(CheckFits(*prepared, Alone(), *device_, options_.quantum));
    prepared->predicted_step = PredictStep(
        *prepared, device_->spec(), options_.memory,
        prepared->spec.max_in_flight > 0 ? prepared->spec.max_in_flight : options_.max_in_flight);
    EBB_RETURN_IF_ERROR(TakeHost(prepared.get()));
    EBB_RETURN_IF_ERROR(AllocateHost(*device_, prepared.get()));
    prepared->spec.abandoned = nullptr;
    JobId id;
    if (!loop_.Call([&] { id = loop_.Submit(std::move(prepared)); })) return Stopped();
    return id;
  }

  absl::StatusOr<EstimateReport> Estimate(JobSpec spec) const override {
    return EstimateJob(std::move(spec), Present(), *device_,
                       {.quantum = options_.quantum, .max_in_flight = options_.max_in_flight});
  }

  absl::StatusOr<JobInfo> Get(JobId job) const override { return board_.Get(job); }
  std::vector<JobInfo> List() const override { return board_.List(); }
  absl::StatusOr<std::vector<MetricPoint>> Metrics(JobId job, size_t from) const override {
    return board_.Metrics(job, from);
  }
  absl::StatusOr<JobInfo> WaitForChange(JobId job, uint64_t seen,
                                        absl::Time deadline) const override {
    return board_.WaitForChange(job, seen, deadline);
  }
  absl::StatusOr<std::shared_ptr<Feed>> FeedOf(JobId job) const override {
    return board_.FeedOf(job);
  }
  absl::StatusOr<std::shared_ptr<const JobResult>> Result(JobId job) const override {
    return board_.Result(job);
  }

  absl::Status Update(JobId job, const JobUpdate& update, std::string* note) override {
    return OnLoop([&] { return loop_.Update(job, update, note); });
  }
  absl::Status Cancel(JobId job) override {
    return OnLoop([&] { return loop_.Cancel(job); });
  }
  absl::Status Pause(JobId job) override {
    return OnLoop([&] { return loop_.Pause(job); });
  }
  absl::Status Resume(JobId job) override {
    return OnLoop([&] { return loop_.Resume(job); });
  }
  absl::Status Forget(JobId job) override {
    EBB_ASSIGN_OR_RETURN(const JobInfo info, board_.Get(job));
    if (!IsFinal(info.state)) {
      return absl::FailedPreconditionError(
          absl::StrCat("job j-", job.value(), " is ", Name(info.state), "; cancel it first"));
    }
    board_.Remove(job);
    return absl::OkStatus();
  }

  MemoryReport Memory() const override {
    MemoryReport report;
    loop_.Call([&] { report = loop_.Memory(); });
    return report;
  }
  OverlapReport Overlap() const override {
    OverlapReport report;
    loop_.Call([&] { report = loop_.Overlap(); });
    return report;
  }
  absl::StatusOr<ExplainReport> Explain(JobId job) const override {
    absl::StatusOr<ExplainReport> report = Stopped();
    loop_.Call([&] { report = loop_.Explain(job); });
    return report;
  }
  DeviceReport Describe() const override {
    DeviceReport report;
    loop_.Call([&] { report = loop_.Describe(); });
    return report;
  }

 private:
  // The job keeps it until it has ended, its result as long as it exists.
  absl::Status TakeHost(PreparedJob* job) const {
    if (!options_.host_budget) return absl::OkStatus();
    job->host_share = std::make_shared<HostBudget::Share>(*options_.host_budget);
    EBB_RETURN_IF_ERROR(job->host_share->Grow(
        job->HostBytes(device_->spec()),
        job->feed == nullptr ? "what the job stages and leaves as its result"
                             : "what the job is fed, stages and leaves as its result"));
    // Where the host has no room for its state, the job may still run with all of it resident.
    if (device_->spec().computes && job->NeedsImage(device_->spec())) {
      const absl::Status status = job->host_share->Grow(job->resident.bytes, "its state");
      if (!status.ok()) job->ladder.resize(1);
      if (job->NeedsImage(device_->spec())) EBB_RETURN_IF_ERROR(status);
    }
    return CheckFits(*job, Alone(), *device_, options_.quantum);
  }

  template <class F>
  absl::Status OnLoop(F&& f) {
    absl::Status status = Stopped();
    loop_.Call([&] { status = f(); });
    return status;
  }

  AdmissionState Alone() const {
    AdmissionState state = EmptyPool(options_.memory, device_->granules().granule());
    if (options_.host_budget) state.host = options_.host_budget->limit();
    return state;
  }
  AdmissionState Present() const {
    AdmissionState state = Alone();
    loop_.Call([&] { state = loop_.Admission(); });
    return state;
  }

  // Levels of the memory ladder are made on the submitter's thread, and only as far as memory
  // binds: state goes to the host, of this job and of those that are here, when they do not fit at
  // once; tensors are made again when this job does not even fit alone. (With all state on the host
  // jobs that each fit alone hardly ever do not fit at once.)
  absl::Status MakeLevels(PreparedJob* job) {
    const StepOptions options{.quantum = options_.quantum, .memory = options_.memory};
    std::vector<EngineLoop::Behind> others;
    bool fits = true;
    loop_.Call([&] {
      fits = loop_.Fits(*job);
      if (!fits) others = loop_.BehindIn(LadderDepth::kStreamed);
    });
    if (fits) return absl::OkStatus();
    EBB_RETURN_IF_ERROR(DeepenUntil(job, *device_, options, [&](const AdmissionJob& needs) {
      return job->depth >= LadderDepth::kStreamed &&
             Ask(Alone(), needs).kind != Verdict::Kind::kNever;
    }));
    for (EngineLoop::Behind& other : others) {
      EBB_RETURN_IF_ERROR(
          Deepen(other.base, LadderDepth::kStreamed, *device_, options, &other.ladder));
      EBB_ASSIGN_OR_RETURN(std::shared_ptr<HostBuffer> image,
                           HostBuffer::Create(*device_, other.base.layout.bytes));
      loop_.Call([&] {
        loop_.AddLevels(other.id, LadderDepth::kStreamed, std::move(other.ladder),
                        std::move(image));
      });
    }
    return absl::OkStatus();
  }

  std::unique_ptr<device::Device> device_;
  EngineOptions options_;
  Board board_;
  mutable EngineLoop loop_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<device::Device> device,
                                                       const EngineOptions& options) {
  EngineOptions checked = options;
  const Bytes granule = device->granules().granule();
  if (checked.memory < granule) {
    return absl::InvalidArgumentError(absl::StrCat("memory: ", FormatBytes(checked.memory),
                                                   " is less than one granule of ",
                                                   FormatBytes(granule)));
  }
  // Host memory may be overcommitted, a device's own may not, nor what is only simulated.
  const DeviceSpec& spec = device->spec();
  if ((!spec.host_memory || !spec.computes) && checked.memory > spec.memory) {
    return absl::InvalidArgumentError(absl::StrCat("memory: ", FormatBytes(checked.memory),
                                                   " is more than the device's ",
                                                   FormatBytes(spec.memory)));
  }
  if (checked.max_in_flight < 1 || checked.max_in_flight > 64) {
    return absl::InvalidArgumentError("max_in_flight must be within [1, 64]");
  }
  if (checked.max_lanes < 0 || checked.max_lanes > 64) {
    return absl::InvalidArgumentError("max_lanes must be within [0, 64]; 0 lets the device decide");
  }
  if (checked.quantum == Bytes(0)) checked.quantum = partitioner::QuantumFor(checked.memory);
  auto engine = std::make_unique<EngineImpl>(std::move(device), checked);
  EBB_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace ebb::runtime
