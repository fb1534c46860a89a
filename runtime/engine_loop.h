// The engine's thread: everything that touches the pool, the lanes, the scheduler and the device's
// streams happens here, in one order. Loop() runs until Stop(); other threads hand it closures by
// Post() and Call().
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "device/device.h"
#include "memory/pool.h"
#include "runtime/active_job.h"
#include "runtime/admission.h"
#include "runtime/board.h"
#include "runtime/co_run.h"
#include "runtime/engine.h"
#include "runtime/overlap.h"
#include "runtime/stager.h"
#include "scheduler/scheduler.h"

namespace ebb::runtime {

class EngineLoop {
 public:
  EngineLoop(device::Device* device, const EngineOptions& options, Board* board);
  // Waits for what has been launched and gives all memory back. The loop must have been stopped.
  ~EngineLoop();

  // Called once the thread may start. Lanes and streams exist afterwards.
  absl::Status Init();
  void Run();   // the thread's body
  void Stop();  // from any thread

  // Runs `command` on the engine's thread, later (Post) or before returning (Call). From any thread
  // but the engine's own. After Stop() commands are dropped and Call returns false.
  void Post(std::function<void()> command);
  bool Call(const std::function<void()>& command);

  // --- The engine's thread only.
  JobId Submit(std::unique_ptr<PreparedJob> prepared);
  // Do the job and those that are here fit at once, at some of the levels that they have?
  bool Fits(const PreparedJob& job) const;
  // Jobs whose memory ladders end before `depth`.
  struct Behind {
    JobId id;
    LadderBase base;
    Ladder ladder;
  };
  std::vector<Behind> BehindIn(LadderDepth depth) const;
  // `ladder` begins with the levels that the job has. No-op for a job that has ended or has more.
  void AddLevels(JobId job, LadderDepth depth, Ladder ladder, std::shared_ptr<HostBuffer> image);
  absl::Status Update(JobId job, const JobUpdate& update, std::string* note);
  absl::Status Cancel(JobId job);
  absl::Status Pause(JobId job);
  absl::Status Resume(JobId job);
  MemoryReport Memory() const;
  OverlapReport Overlap() const;
  absl::StatusOr<ExplainReport> Explain(JobId job) const;
  DeviceReport Describe() const;
  AdmissionState Admission() const;
  const EngineOptions& options() const { return options_; }

 private:
  struct Lane {
    LaneId id;
    std::unique_ptr<memory::Region> region;
    std::array<device::StreamId, 2> streams;
    // State that visits the stack comes and goes on streams of their own; invalid until needed.
    std::array<device::StreamId, 2> fetch_streams, store_streams;
    // Whose step is on each end, and how far it has been enqueued.
    struct Tide {
      JobId job;
      int program = 0;
      int sub_model = -1;
    };
    std::array<Tide, 2> tides;
  };
  struct Launch {
    scheduler::LaunchSeq seq;
    device::EventId event;
    // Recorded on the way, complete when `event` is: each tells of failures before it that no later
    // one repeats.
    std::vector<device::EventId> parts;
    // The part that says when the launch's own work began; invalid: `event` does.
    device::EventId begin;
    // The part that says when what is copied in for a step had arrived; `first` only.
    device::EventId copied;
    Micros copied_at;
    JobId job;
    int stream = 0;  // index: lane * 2 + end
    bool first = false;
    bool last = false;
    int sub_model = 0;
    Bytes extent, held_after;
    LaunchSeqs before;  // for which its kernels wait
  };
  // Work on a stream beside those of the lanes: uploads and snapshots; batches that go ahead.
  struct AuxOp {
    device::EventId event;
    std::function<void(const absl::Status&)> done;
  };

  // engine_loop.cc: the thread.
  void DrainCommands();
  bool HarvestLaunches();
  bool HarvestAuxiliary(std::deque<AuxOp>* ops);
  device::EventState Finish(Launch& launch, device::EventState state);
  void OnComplete(const Launch& launch, const device::EventState& state);
  void SampleLedger();
  void Refresh();
  // Ends all jobs when the device is lost. True from then on.
  bool DeviceIsLost();

  // engine_launch.cc: what is enqueued.
  void Dispatch(const scheduler::Decision& decision);
  void BeginStep(ActiveJob& job, const scheduler::Decision& decision, Lane& lane);
  // Fills in the events that it records on the way.
  void LaunchSubModel(const Lane& lane, memory::End end, const StepProgram& step,
                      const device::Bindings& bindings, Launch* launch);
  void EndStepEnqueue(ActiveJob& job, device::StreamId stream, int program);

  // engine_ahead.cc: batches.
  struct BatchWay {
    char* to;
    const char* from;
  };
  void GrantAhead(const std::vector<ActiveJob*>& jobs);  // all that are, or will be, in the pool
  void FetchAhead(ActiveJob& job);                       // if there is room and a batch
  void EnterBatch(device::StreamId stream, ActiveJob& job, const StepRun& run,
                  const device::Bindings& bindings);
  void CopyBatch(device::StreamId stream, const ActiveJob& job, const StepRun& run,
                 absl::FunctionRef<BatchWay(ValueId value, Bytes offset)> way);
  void ForgetAhead(ActiveJob& job);
  std::string AheadText(const ActiveJob& job) const;

  // engine_turns.cc: jobs that take turns, and sub-models that wait for each other.
  void AwaitTurn(const scheduler::Decision& decision, device::StreamId stream, Launch* launch);
  void AwaitOthers(device::StreamId stream, const Launch& launch);
  void ApplyTurns();
  std::string WhyText(const ActiveJob& job) const;

  // engine_jobs.cc: a job's life.
  void Pump(ActiveJob& job);  // stages batches, makes the next step ready, ends the job
  void StageNext(ActiveJob& job, int slot);
  void FinishStep(ActiveJob& job);  // the oldest running step is complete
  // Its metric points; `loss` is the one that must be finite.
  std::vector<MetricPoint> Measure(ActiveJob& job, const StepRun& run, double* loss) const;
  void EndJob(JobId job, JobState state, EndReason reason, const std::string& message);
  scheduler::JobParams ParamsOf(const ActiveJob& job) const;
  void Retire();  // frees jobs that have ended and have nothing outstanding
  void Upload(ActiveJob& job);
  void Publish(const ActiveJob& job, const std::function<void(Board::Record&)>& change);
  // Work that was counted for the job is complete. Null when the job has ended meanwhile: then only
  // its memory waited for it.
  ActiveJob* Settle(JobId job, int ActiveJob::*counter);
  // Between the residents, wherever they are, and an image of the first `until` bytes of them.
  enum class ImageWay { kUp, kDown };
  void CopyImage(ActiveJob& job, ImageWay way, char* image, Bytes until);
  // What has been enqueued on the auxiliary stream counts as outstanding; `then` runs when it has
  // succeeded and the job still lives. A failure ends the job.
  void AfterCopies(ActiveJob& job, std::function<void(ActiveJob&)> then);
  void MakeImage(ActiveJob& job);  // on the host, of all its residents
  ActiveJob* Find(JobId job);
  const ActiveJob* Find(JobId job) const;

  // engine_result.cc: a job's result.
  void BeginSnapshot(ActiveJob& job);
  void Succeed(ActiveJob& job, std::shared_ptr<JobResult> result);

  // engine_feed.cc: jobs whose batches their clients push.
  void ListenToFeed(const ActiveJob& job);
  bool HasBatch(const ActiveJob& job, const StepItem& item) const;
  bool HearFeed(ActiveJob& job);  // where it ends, if that is news; may end the job
  // The batch for which it waits at a step's start, holding nothing of its lane.
  std::optional<int64_t> HungersFor(const ActiveJob& job) const;
  void TellHunger(const ActiveJob& job);
  void WatchFeeds(Micros now);  // ends jobs that have waited for too long
  void MoveEnd(ActiveJob& job, int64_t total_steps);

  // engine_judge.cc: what changes a job's course.
  void CheckDeviceTime(ActiveJob& job);  // may move its end
  void PublishEnd(const ActiveJob& job);
  void ActOnEvaluation(ActiveJob& job, const std::map<std::string, double>& values);

  // engine_memory.cc: admission and re-cuts.
  struct Cut;
  void MaybeRecut();
  bool LanesDrained() const;
  Cut PlanCut() const;
  bool ImagesAreReady(const Cut& cut);  // else they are being made
  void Recut(const Cut& cut);
  void OpenCopyStreams(Lane& lane, const std::vector<JobId>& jobs);
  void Join(ActiveJob& job, LaneId lane);
  std::map<std::string, Bytes> HostMemory() const;

  // engine_admission.cc: what waits, and for what.
  struct Wait {
    std::string text;
    std::optional<Micros> left;  // until it starts, where that is known
  };
  std::map<JobId, Wait> Waits() const;  // of all that wait

  device::Device* const device_;
  const EngineOptions options_;
  Board* const board_;
  SteadyClock clock_;

  std::unique_ptr<memory::Pool> pool_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::vector<Lane> lanes_;
  device::StreamId aux_stream_;
  device::StreamId ahead_stream_;  // invalid where batches cross no bus
  std::unique_ptr<OverlapTracker> overlap_;
  std::unique_ptr<CoRun> co_run_;

  int64_t next_job_ = 1;
  std::map<JobId, std::unique_ptr<ActiveJob>> jobs_;  // all that are not final
  std::deque<JobId> waiting_;                         // not admitted yet, in order
  std::vector<std::unique_ptr<ActiveJob>> ended_;     // final, memory still in use
  bool recut_wanted_ = false;
  bool lanes_closed_ = false;

  std::vector<std::deque<Launch>> launches_;                           // per stream, in order
  absl::flat_hash_map<scheduler::LaunchSeq, device::EventId> events_;  // not known complete
  std::deque<AuxOp> aux_ops_, ahead_ops_;
  int64_t ledger_samples_ = 0, ledger_shared_ = 0, ledger_deep_ = 0;
  Micros last_refresh_;
  bool lost_ = false;

  Mutex mu_;
  std::deque<std::function<void()>> commands_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;

  // Last: their threads end before anything that they write to goes away. Images, which take long,
  // have a loader of their own, so that other jobs' batches do not wait behind them.
  std::unique_ptr<Stager> stager_, image_stager_;
};

}  // namespace ebb::runtime
