// What a job is to the runtime: its spec in native types (files already read, names already checked
// against what is supported), and what can be seen of it. Plain structs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "base/units.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "graph/mixed_precision.h"
#include "graph/training.h"
#include "model/import.h"
#include "model/init.h"
#include "runtime/decisions.h"

namespace ebb::runtime {

struct ModelSpec {
  // Exactly one of the three.
  std::shared_ptr<const std::string> onnx;    // the file's bytes
  std::shared_ptr<const graph::Graph> graph;  // a forward graph with the batch already bound
  std::string zoo;                            // a name of model/zoo/zoo.h
  // Initial values by parameter or buffer name. They replace the ONNX file's; for the others they
  // are the values, and what is missing must be drawn by `reinit`.
  std::shared_ptr<const graph::TensorMap> weights;
  std::vector<model::ReinitRule> reinit;
  // Globs of layers whose batch norms keep their statistics (graph/freeze.h).
  std::vector<std::string> freeze_stats;
  model::ImportOptions import;  // batch_size is set from the job's
};

// Batches that the job's client pushes (runtime/feed.h).
struct FeedSpec {
  std::map<std::string, graph::TensorType> schema;  // of one row, by field
  // A job that has waited for a batch for so long fails.
  absl::Duration timeout = absl::InfiniteDuration();
};

struct DataSource {
  std::shared_ptr<const data::DataSet> data;
  std::optional<data::ImageField> image;  // the field whose rows are images
  std::optional<FeedSpec> feed;           // in the place of data, for training
  std::vector<int64_t> rows;              // indices that count; empty = all
  // What the rows come from, where someone counts who holds it.
  std::shared_ptr<const std::vector<int64_t>> index;
  int64_t batch_size = 0;  // 0: the job's (training); evaluation always uses the job's
  data::BatchSource::Tail tail = data::BatchSource::Tail::kDrop;
  int64_t batches = 0;  // the first that count; 0: all
};

// The largest learning rate: kernels compute in fp32, and beyond that it is no number.
inline constexpr double kMostRate = 1e38;

enum class ScheduleKind { kConstant, kStep, kCosine, kOneCycle, kPoints, kPlateau };
enum class Interpolation { kHold, kLinear, kCosine };
// The learning rate of step t (counted from 0) of T; warm-up scales it linearly from 0 over its
// steps.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  double base_lr = 1e-3;  // what the optimizer's lr says; the peak of one-cycle
  int64_t warmup_steps = 0;
  int64_t step_size = 0;  // kStep: steps between two multiplications by gamma
  double gamma = 0.1;
  double min_lr = 0;       // kCosine
  double pct_start = 0.3;  // kOneCycle, as PyTorch's OneCycleLR
  double div_factor = 25;
  double final_div_factor = 1e4;
  std::vector<std::pair<double, double>> points;  // kPoints: (step, lr), steps increasing
  Interpolation interpolation = Interpolation::kLinear;
  PlateauSpec plateau;  // kPlateau: who runs the job lowers base_lr (runtime/judge.h)
};
double LearningRate(const ScheduleSpec& schedule, int64_t step, int64_t total_steps);
// InvalidArgument: a least rate above the one that the schedule begins with.
absl::Status CheckLeastRate(const ScheduleSpec& schedule);

struct StopSpec {  // at least one; the first that is reached ends the job
  std::optional<int64_t> steps;
  std::optional<double> epochs;
  std::optional<int64_t> samples;
  // Of its own launches, after which it ends at the next step that has not been prepared. One of
  // the others says where it ends at the latest.
  std::optional<Micros> device_time;
};

struct EvaluateSpec {
  std::optional<int64_t> every_steps;
  std::optional<int64_t> every_epochs;  // default 1 when there is validation data
};

// Which levels of the memory ladder (runtime/ladder.h) a job may use when memory binds; and what it
// takes while memory does not.
struct LadderSpec {
  // The next batch crosses the bus while a step runs, into memory of the pool that nobody needs.
  bool prefetch = true;
  bool offload = true;  // optimizer slots on the host
  bool stream = true;   // and the weights that dwarf the others
  bool swap = true;     // and all weights
  // Saved tensors that are cheap to make again are made again.
  bool recompute = true;
  // Equal parts of the batch that make one step; it changes the order of sums. 1: the whole batch
  // at once. 0: as many as the pool makes necessary (runtime/micro_batch_choice.h).
  int micro_batches = 0;
};

// A job that trains nothing: it reads `train` once, in order, and its result are outputs of the
// model under evaluation semantics, a row for each.
struct PredictSpec {
  std::vector<std::string> outputs;  // by name; empty: all
};

struct JobSpec {
  std::string name;
  ModelSpec model;
  DataSource train;
  std::optional<DataSource> val;
  // Model input -> data field, or a slice of it (data/slice.h); missing: the same name.
  std::map<std::string, std::string> bind;
  int64_t batch_size = 0;
  bool batch_auto = false;  // the engine chooses batch_size when the job comes
  int accumulate = 1;       // batches whose gradients, averaged, make one step
  // Rows that a training step reads.
  int64_t StepRows() const { return batch_size * accumulate; }
  std::optional<PredictSpec> predict;  // then loss, optimizer and the like do not matter
  graph::LossSpec loss;
  std::string target_field;  // data field that feeds loss.target; "" = bind of it or the same name
  std::vector<graph::MetricSpec> metrics;
  graph::OptimizerSpec optimizer;
  std::vector<graph::ParamGroup> groups;
  graph::ClipSpec clip;
  graph::Precision precision = graph::Precision::kFp32;
  std::optional<double> ema_decay;  // averages are evaluated, and are the result
  ScheduleSpec schedule;
  EvaluateSpec evaluate;
  StopSpec stop;
  std::optional<EarlyStopSpec> early;
  Keep keep = Keep::kLast;  // best: of early's metric, else the plateau's, else val/loss
  uint64_t seed_init = 0;
  uint64_t seed_data = 0;
  uint64_t seed_dropout = 0;
  int priority = 0;
  double weight = 1;
  Bytes memory_max;       // 0: no cap. Of resident + staging + step peak
  int max_in_flight = 0;  // launched, unfinished sub-models; 0: the engine's
  LadderSpec ladder;
  std::map<std::string, std::string> labels;
  // Asked between the stages of planning, by the thread that plans: is nobody there any more who
  // wants the job? A job that has been planned has none.
  std::function<bool()> abandoned;
};
// Cancelled when it is abandoned.
absl::Status CheckWanted(const JobSpec& spec);

enum class JobState { kPreparing, kQueued, kRunning, kPaused, kSucceeded, kFailed, kCancelled };
const char* Name(JobState state);
constexpr bool IsFinal(JobState state) { return state >= JobState::kSucceeded; }

// Why a job ended otherwise than by its stopping rule.
enum class EndReason {
  kNone,
  kCancelled,
  kInvalid,
  kUnsupported,
  kOom,
  kData,
  kNan,
  kDevice,
  kInternal
};
const char* Name(EndReason reason);

struct MetricPoint {
  std::string name;  // "train/loss" each step; "train/accuracy" each epoch; "val/loss", ...
  int64_t step = 0;  // optimizer steps done
  double epoch = 0;
  double value = 0;
  absl::Time time;
};

struct JobInfo {
  JobId id;
  std::string name;
  JobState state = JobState::kPreparing;
  EndReason reason = EndReason::kNone;
  // Of a failure; else a note: where it ends, if not where an update or `stop` says, and which
  // state is its result, if not the last.
  std::string message;
  std::vector<std::string> warnings;
  int64_t step = 0;
  int64_t total_steps = 0;
  double epoch = 0;
  double total_epochs = 0;
  std::map<std::string, double> last;  // newest value of every metric; none without values
  double learning_rate = 0;
  // Over the last seconds of the device's clock, in which the time left is meant too.
  double steps_per_second = 0;
  double share = 0;  // of the device's busy time
  std::optional<absl::Duration> eta;
  std::string why;  // why it waits, in words; empty when it does not
  Bytes resident;   // in the pool: parameters, optimizer state, buffers, constants
  Bytes streamed;   // parameters and optimizer state that live on the host
  Bytes staging;    // in the pool
  Bytes step_peak;  // planned height of its stack, training and evaluation
  Bytes held;       // of the lane, now
  LaneId lane;
  int64_t batch_size = 0;
  int priority = 0;
  double weight = 1;
  int max_in_flight = 0;
  std::map<std::string, std::string> labels;
  absl::Time submitted;
  absl::Time started;  // InfinitePast until then
  absl::Time finished;
  // On the device's clock (virtual on a simulated one): when its first launch began, and how long
  // from there to the end of its newest step. Zero until a step is complete.
  Micros device_start;
  Micros elapsed;
  uint64_t version = 0;  // grows with every change
};

// What a job or an update may say of max_in_flight: 0 (the engine's) to 64.
absl::Status CheckMaxInFlight(int64_t value);

struct JobUpdate {
  std::optional<double> learning_rate;  // replaces the schedule's base rate from the next step on
  std::optional<double> weight;
  std::optional<int> priority;
  std::optional<int> max_in_flight;  // 0: the engine's
  std::optional<StopSpec> stop;
};

}  // namespace ebb::runtime
