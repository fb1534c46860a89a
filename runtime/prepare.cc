#include "runtime/prepare.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "data/slice.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "graph/training.h"
#include "runtime/initial_model.h"
#include "runtime/judge.h"
#include "runtime/metric_sums.h"
#include "runtime/resident.h"
#include "runtime/tables.h"

namespace ebb::runtime {
namespace {

using graph::Graph;
using graph::Role;

// Which slices of an input hold the same kind of numbers as the whole: micro-batches do; all do
// where the data are tokens, while other data may have columns of different meanings.
enum class Slices { kOfBatch, kAny };

bool IsPart(const graph::Node& node, Slices slices) {
  return node.op->name == "Slice" &&
         (slices == Slices::kAny || node.attrs.Ints("axes") == std::vector<int64_t>{0});
}

// Does a node hand on the integers that it reads?
bool KeepsIntegers(const Graph& graph, const graph::Node& node) {
  const auto is_integer = [&](ValueId id) {
    return !graph::IsFloat(graph.value(id).type.dtype) &&
           graph.value(id).type.dtype != graph::DType::kBool;
  };
  return node.op->name == "Identity" ||
         (node.op->name == "Cast" && is_integer(node.inputs[0]) && is_integer(node.outputs[0]));
}

// Is `value` the input, a view of it, or one of a micro-batch of it, be it of another width?
bool Shows(const Graph& graph, ValueId value, ValueId input, Slices slices) {
  while (value.valid() && value != input) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid()) return false;
    const graph::Node& node = graph.node(producer);
    if (!node.op->is_view && !IsPart(node, slices) && !KeepsIntegers(graph, node)) return false;
    value = node.inputs[0];
  }
  return value == input;
}

// The least table that an input's numbers index (ONNX's Gather, embedding bags); 0: none.
int64_t TableRowsOf(const Graph& graph, ValueId input, Slices slices) {
  int64_t least = 0;
  for (const graph::Node& node : graph.nodes) {
    const bool looks_up = node.op->name == "Gather" || node.op->name == "EmbeddingBag";
    if (!looks_up || !Shows(graph, node.inputs[1], input, slices)) continue;
    const graph::Shape& table = graph.value(node.inputs[0]).type.shape;
    const int64_t rows = table[static_cast<size_t>(node.attrs.Int("axis", 0))];
    least = least == 0 ? rows : std::min(least, rows);
  }
  return least;
}

// Number of classes that a label input may name, from the loss or metric that reads it; 0: no
// labels.
int64_t ClassesOf(const Graph& graph, ValueId input, Slices slices, int64_t* ignore_index) {
  for (const graph::Node& node : graph.nodes) {
    const bool reads = node.inputs.size() > 1 && Shows(graph, node.inputs[1], input, slices);
    if (!reads) continue;
    if (node.op->name == "CrossEntropy" || node.op->name == "CrossEntropySum" ||
        node.op->name == "TopKCorrect" || node.op->name == "NllLoss") {
      *ignore_index = node.attrs.Int("ignore_index", -100);
      return graph.value(node.inputs[0]).type.shape[1];
    }
  }
  return 0;
}

// Planning takes up to quadratic time in the nodes, and a thread is busy with it.
absl::Status CheckNodes(const JobSpec& spec, size_t nodes) {
  constexpr size_t kMostNodes = 16384;
  if (nodes <= kMostNodes) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the model's training graph has at least ", nodes, " nodes; this version plans at most ",
      kMostNodes, ": ",
      spec.accumulate > 1 ? "lower accumulate, or raise batch_size by as much as it falls"
                          : "build the model of fewer, larger operations"));
}

// The device's form of `graph`, ready to be launched.
absl::StatusOr<std::unique_ptr<StepProgram>> LowerAndBuild(Graph graph,
                                                           const device::Device& device,
                                                           const PrepareOptions& options) {
  EBB_ASSIGN_OR_RETURN(Graph lowered, device.Lower(std::move(graph)));
  return BuildStep(std::move(lowered), device,
                   {.quantum = options.quantum, .memory = options.memory});
}

std::string PartsInWords(const JobSpec& spec, const StepProgram& step) {
  const int parts = PartsOf(spec);
  std::string words =
      absl::StrCat("trains in ", parts, " micro-batches of ", spec.batch_size / parts);
  if (spec.accumulate > 1) absl::StrAppend(&words, " for each of ", spec.accumulate, " batches");
  if (step.program != nullptr) {  // else it is one of the ladder's levels that runs
    absl::StrAppend(&words, ": a step needs ", FormatBytes(step.plan.peak),
                    " beside the job's state");
  }
  return words;
}

// The parameters that nothing trains although no group freezes them, in one sentence; "" if none.
std::string UntrainedInWords(const Graph& train, const graph::TrainingOptions& options) {
  std::vector<std::string> untrained;
  for (std::string& name : graph::ParamsWithoutGradient(train)) {
    if (!graph::OptimizerOf(options, name).frozen) untrained.push_back(std::move(name));
  }
  if (untrained.empty()) return "";
  constexpr size_t kShown = 4;
  const size_t shown = std::min(untrained.size(), kShown);
  std::string words = absl::StrCat(
      "the loss does not depend on ", untrained.size() == 1 ? "parameter " : "parameters ",
      absl::StrJoin(untrained.begin(), untrained.begin() + static_cast<std::ptrdiff_t>(shown),
                    ", "));
  if (untrained.size() > shown) absl::StrAppend(&words, " and ", untrained.size() - shown, " more");
  return absl::StrCat(words, ": not trained");
}

// Which data field feeds which input of the program.
absl::Status BindData(const JobSpec& spec, const DataSource& source, data::BatchSource::Order order,
                      StepProgram* step, data::BatchSource* batches) {
  batches->data = source.data;
  batches->batch_size =
      order == data::BatchSource::Order::kShuffled ? spec.StepRows() : spec.batch_size;
  batches->image = source.image;
  batches->rows = source.rows;
  if (batches->rows.empty() && source.data != nullptr) {
    for (int64_t r = 0; r < source.data->rows(); ++r) batches->rows.push_back(r);
  }
  if (source.batches > 0) {
    const auto most = static_cast<size_t>(source.batches * spec.batch_size);
    batches->rows.resize(std::min(batches->rows.size(), most));
  }
  batches->seed = spec.seed_data;
  batches->order = order;
  // Padded rows must not count, which only a graph with "ebb.valid" knows, and who takes rows one
  // by one.
  batches->tail =
      step->valid.valid() || spec.predict ? source.tail : data::BatchSource::Tail::kDrop;
  const Slices slices =
      source.data != nullptr && source.data->IsTokens() ? Slices::kAny : Slices::kOfBatch;
  for (const graph::Value& value : step->graph.values) {
    if (value.role != Role::kInput || value.name == kValidInput) continue;
    data::FieldBinding binding{.field = value.name, .type = value.type};
    if (const auto it = spec.bind.find(value.name); it != spec.bind.end()) {
      EBB_ASSIGN_OR_RETURN(data::FieldSlice bound, data::ParseFieldSlice(it->second));
      binding.field = std::move(bound.field);
      binding.slice = bound.slice;
    } else if (value.name == spec.loss.target && !spec.target_field.empty()) {
      binding.field = spec.target_field;
    }
    binding.label_classes = ClassesOf(step->graph, value.id, slices, &binding.ignore_index);
    binding.table_rows = TableRowsOf(step->graph, value.id, slices);
    if (slices == Slices::kOfBatch) binding.columns = ColumnTablesOf(step->graph, value.id);
    batches->bindings.push_back(std::move(binding));
    step->inputs.push_back(value.id);
  }
  for (const auto& [input, field] : spec.bind) {
    const ValueId id = step->graph.Find(input);
    if (!id.valid() || step->graph.value(id).role != Role::kInput) {
      std::vector<std::string> inputs;
      for (const ValueId in : step->inputs) inputs.push_back(step->graph.value(in).name);
      return absl::InvalidArgumentError(absl::StrCat("bind: the model has no input '", input,
                                                     "'; it has ", absl::StrJoin(inputs, ", ")));
    }
  }
  return source.data == nullptr ? absl::OkStatus() : data::Validate(*batches);
}

// A feed has no epochs.
absl::Status CheckFeed(const JobSpec& spec) {
  if (spec.val && spec.val->feed) {
    return absl::InvalidArgumentError(
        "data.val: only training is fed; give the validation data as a file (data.val.file)");
  }
  if (!spec.train.feed) return absl::OkStatus();
  if (spec.stop.epochs) {
    return absl::InvalidArgumentError("stop.epochs: a feed has no epochs; give steps or samples");
  }
  if (spec.evaluate.every_epochs) {
    return absl::InvalidArgumentError("evaluate.every: a feed has no epochs; give steps");
  }
  if (!(spec.train.feed->timeout > absl::ZeroDuration())) {
    return absl::InvalidArgumentError("data.train.feed_timeout must be positive");
  }
  return absl::OkStatus();
}

// Its schema is held against the model also where no batch will come.
absl::Status MakeFeed(const JobSpec& spec, const DeviceSpec& device, PreparedJob* job) {
  auto feed = Feed::Create(*spec.train.feed, job->sources[0]);
  if (!feed.ok()) return Annotate(feed.status(), "data.train");
  if (device.computes) {
    job->feed = *std::move(feed);
  } else {
    job->warnings.push_back("a simulated device reads no data: the job waits for no batches");
  }
  return absl::OkStatus();
}

// Without data there are no epochs; where nothing is computed that is all that is missed.
absl::Status CheckData(const JobSpec& spec, const DeviceSpec& device) {
  if (spec.train.data != nullptr || spec.train.feed) return absl::OkStatus();
  if (device.computes) return absl::InvalidArgumentError("data.train is missing");
  if (spec.val) return absl::InvalidArgumentError("data.val needs data.train");
  if (spec.stop.epochs || !spec.stop.steps) {
    return absl::InvalidArgumentError(
        "stop: a job without data has no epochs; give steps, or data.train");
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const JobSpec& spec, const DeviceSpec& device, Purpose purpose) {
  if (spec.batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size: ", spec.batch_size, " is not a positive number"));
  }
  if (spec.batch_size > (int64_t{1} << 31)) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size: ", spec.batch_size, " is larger than 2^31"));
  }
  if (!spec.stop.steps && !spec.stop.epochs && !spec.stop.samples) {
    return absl::InvalidArgumentError(spec.stop.device_time
                                          ? "stop: device_time goes with steps, epochs or samples, "
                                            "where the job ends at the latest"
                                          : "stop: give steps, epochs or samples");
  }
  if (!spec.val) {
    for (const graph::MetricSpec& metric : spec.metrics) {
      if (metric.kind != graph::MetricKind::kAuc) continue;
      return absl::InvalidArgumentError("metrics: auc is measured by evaluations; give data.val");
    }
  }
  if (!(spec.weight > 0)) return absl::InvalidArgumentError("resources.weight must be positive");
  EBB_RETURN_IF_ERROR(Annotate(CheckMaxInFlight(spec.max_in_flight), "resources"));
  EBB_RETURN_IF_ERROR(CheckAccumulate(spec));
  EBB_RETURN_IF_ERROR(CheckMicroBatches(spec));
  EBB_RETURN_IF_ERROR(CheckDecisions(spec));
  EBB_RETURN_IF_ERROR(CheckLeastRate(spec.schedule));
  EBB_RETURN_IF_ERROR(CheckFeed(spec));
  return purpose == Purpose::kSizes ? absl::OkStatus() : CheckData(spec, device);
}

}  // namespace

Bytes PreparedJob::MetricBytes() const {
  return std::max(resident.metrics_bytes[0], resident.metrics_bytes[1]);
}

Bytes PreparedJob::HostBytes(const DeviceSpec& device) const {
  Bytes bytes = StagingOnHost() + FeedOnHost() + ResultBytes(device);
  if (programs()[1] == nullptr || !device.computes) return bytes;
  return bytes + ScoreBytes(*programs()[1], static_cast<int64_t>(sources[1].rows.size()));
}

absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(JobSpec spec, const device::Device& device,
                                                     const PrepareOptions& options) {
  const Values values =
      device.spec().computes && options.purpose == Purpose::kRun ? Values::kMake : Values::kSkip;
  EBB_RETURN_IF_ERROR(CheckSpec(spec, device.spec(), options.purpose));
  EBB_RETURN_IF_ERROR(CheckWanted(spec));
  auto job = std::make_unique<PreparedJob>();
  EBB_ASSIGN_OR_RETURN(model::ImportedModel imported, InitialModel(spec, values, options.memory));
  job->warnings = std::move(imported.warnings);
  const graph::TrainingOptions training{.loss = spec.loss,
                                        .metrics = spec.metrics,
                                        .optimizer = spec.optimizer,
                                        .groups = spec.groups,
                                        .clip = spec.clip,
                                        .ema_decay = spec.ema_decay};
  Graph train;
  if (spec.predict) {
    auto predict = graph::BuildPredictionGraph(imported.graph, spec.predict->outputs);
    if (!predict.ok()) return Annotate(predict.status(), "predict.outputs");
    train = *std::move(predict);
  } else {
    // Before so many copies of the model are made, and differentiated.
    EBB_RETURN_IF_ERROR(CheckWanted(spec));
    EBB_RETURN_IF_ERROR(CheckNodes(spec, imported.graph.nodes.size() * spec.accumulate));
    EBB_ASSIGN_OR_RETURN(train, TrainingGraphOf(spec, imported.graph, training));
  }
  EBB_RETURN_IF_ERROR(CheckNodes(spec, train.nodes.size()));
  EBB_RETURN_IF_ERROR(CheckWanted(spec));
  if (values == Values::kMake) {
    EBB_RETURN_IF_ERROR(CheckInitialValues(train, imported.weights));
  }
  if (std::string warning = UntrainedInWords(train, training); !warning.empty() && !spec.predict) {
    job->warnings.push_back(std::move(warning));
  }
  std::array<std::unique_ptr<StepProgram>, 2> steps;
  EBB_ASSIGN_OR_RETURN(steps[0], LowerAndBuild(std::move(train), device, options));
  EBB_RETURN_IF_ERROR(CheckWanted(spec));
  if (PartsOf(spec) > 1) job->warnings.push_back(PartsInWords(spec, *steps[0]));
  EBB_RETURN_IF_ERROR(Annotate(BindData(spec, spec.train,
                                        spec.predict ? data::BatchSource::Order::kSequential
                                                     : data::BatchSource::Order::kShuffled,
                                        steps[0].get(), &job->sources[0]),
                               spec.predict ? "predict.data" : "data.train"));
  if (spec.train.feed) EBB_RETURN_IF_ERROR(MakeFeed(spec, device.spec(), job.get()));
  if (spec.val) {
    EBB_ASSIGN_OR_RETURN(Graph eval, graph::BuildEvalGraph(imported.graph, training));
    graph::ReadAverages(steps[0]->graph, &eval);
    EBB_ASSIGN_OR_RETURN(steps[1], LowerAndBuild(std::move(eval), device, options));
    EBB_RETURN_IF_ERROR(Annotate(BindData(spec, *spec.val, data::BatchSource::Order::kSequential,
                                          steps[1].get(), &job->sources[1]),
                                 "data.val"));
  }
  auto resident = std::make_shared<MemoryPlan>();
  resident->level = "resident";
  for (size_t p = 0; p < steps.size(); ++p) resident->programs[p] = std::move(steps[p]);
  job->resident = LayOutResidents(device, resident->programs);
  resident->placement = Placement({{Bytes(0), job->resident.bytes, false}});
  job->ladder = {std::move(resident)};
  LayOutSlots(device.spec().alignment, job.get());
  job->stages_in_pool = device.spec().host_memory;

  job->steps.batches_per_epoch = job->sources[0].BatchesPerEpoch();
  job->steps.eval_batches = spec.val ? job->sources[1].BatchesPerEpoch() : 0;
  job->steps.total_steps = TotalSteps(spec.stop, job->steps.batches_per_epoch, spec.StepRows());
  job->steps.eval_every_steps = spec.evaluate.every_steps;
  job->steps.eval_every_epochs = spec.evaluate.every_epochs;
  if (!spec.evaluate.every_steps && !spec.evaluate.every_epochs && !spec.train.feed) {
    job->steps.eval_every_epochs = 1;
  }
  job->steps.evaluations_decide = EvaluationsDecide(spec) && device.spec().computes;
  if (EvaluationsDecide(spec) && !device.spec().computes) {
    job->warnings.push_back(
        "a simulated device has no values to decide by: the job goes on to the end of `stop`, at "
        "its first learning rate");
  }
  if (options.purpose == Purpose::kRun) {
    EBB_RETURN_IF_ERROR(
        CheckEvaluationsCome(spec, job->steps.FirstEvaluation(), job->steps.total_steps));
  }
  if (job->steps.total_steps < 1 && options.purpose == Purpose::kRun) {
    return absl::InvalidArgumentError("stop: the rule ends the job before its first step");
  }
  // Only the initial values that the graphs use.
  for (auto& [name, tensor] : imported.weights) {
    if (values == Values::kMake && job->resident.shared.contains(name)) {
      job->weights.emplace(name, std::move(tensor));
    }
  }
  job->spec = std::move(spec);
  return job;
}

}  // namespace ebb::runtime
