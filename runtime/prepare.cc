#include "runtime/prepare.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/training.h"
#include "runtime/initial_model.h"
#include "runtime/resident.h"

namespace ebb::runtime {
namespace {

using graph::Graph;
using graph::Role;

constexpr char kValidInput[] = "ebb.valid";

// Is `value` the input, or a view of it?
bool Shows(const Graph& graph, ValueId value, ValueId input) {
  while (value.valid() && value != input) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || !graph.node(producer).op->is_view) return false;
    value = graph.node(producer).inputs[0];
  }
  return value == input;
}

// Number of classes that a label input may name, from the loss or metric that reads it; 0: no
// labels.
int64_t ClassesOf(const Graph& graph, ValueId input, int64_t* ignore_index) {
  for (const graph::Node& node : graph.nodes) {
    const bool reads = node.inputs.size() > 1 && Shows(graph, node.inputs[1], input);
    if (!reads) continue;
    if (node.op->name == "CrossEntropy" || node.op->name == "CrossEntropySum" ||
        node.op->name == "TopKCorrect" || node.op->name == "NllLoss") {
      *ignore_index = node.attrs.Int("ignore_index", -100);
      return graph.value(node.inputs[0]).type.shape[1];
    }
  }
  return 0;
}

// Planning takes quadratic time, and while a job is prepared a thread is busy with it.
absl::Status CheckNodes(const Graph& train) {
  constexpr size_t kMostNodes = 16384;
  if (train.nodes.size() <= kMostNodes) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the model's training graph has ", train.nodes.size(), " nodes; this version plans at most ",
      kMostNodes, ": build the model of fewer, larger operations"));
}

// The largest extent at any node of [first, last].
Bytes MaxExtent(const memory::StackPlan& plan, int first, int last) {
  return *std::max_element(plan.extent.begin() + first, plan.extent.begin() + last + 1);
}

void PlanMemory(const device::Device& device, StepProgram* step) {
  const int nodes = static_cast<int>(step->graph.nodes.size());
  std::vector<memory::LiveRange> ranges;
  for (const graph::Buffer& buffer : step->liveness.buffers) {
    ranges.push_back({buffer.bytes, buffer.first, buffer.last});
  }
  step->workspace_range.assign(nodes, -1);
  for (int n = 0; n < nodes; ++n) {
    const Bytes workspace = step->program->Workspace(NodeId(n));
    if (workspace == Bytes(0)) continue;
    step->workspace_range[n] = static_cast<int>(ranges.size());
    ranges.push_back({workspace, n, n});
  }
  const Bytes alignment = device.spec().alignment;
  step->plan = memory::PlanStack(ranges, nodes, alignment);

  const size_t buffers = step->liveness.buffers.size();
  for (const memory::LiveRange& range : ranges) {
    step->range_bytes.push_back(AlignUp(range.bytes, alignment));
  }
  for (const partitioner::SubModel& sub : step->partition.sub_models) {
    HeldBytes held;
    Bytes height, used;
    for (size_t r = 0; r < buffers; ++r) {
      if (ranges[r].first > sub.last || ranges[r].last <= sub.last) continue;
      height = std::max(height, step->plan.offset[r] + step->range_bytes[r]);
      used += ranges[r].bytes;
      switch (step->liveness.buffers[r].cls) {
        case graph::BufferClass::kInput:
          held.input += ranges[r].bytes;
          break;
        case graph::BufferClass::kSaved:
          held.saved += ranges[r].bytes;
          break;
        case graph::BufferClass::kTransient:
          held.transient += ranges[r].bytes;
          break;
      }
    }
    held.padding = height - used;
    step->held.push_back(held);
    step->profile.extent.push_back(MaxExtent(step->plan, sub.first, sub.last));
    step->profile.held_after.push_back(height);
  }
}

// A step whose live bytes alone exceed the limit gets neither a program nor a plan.
absl::StatusOr<std::unique_ptr<StepProgram>> BuildProgram(Graph graph, const device::Device& device,
                                                          const PrepareOptions& options) {
  auto step = std::make_unique<StepProgram>();
  EBB_ASSIGN_OR_RETURN(step->graph, device.Lower(std::move(graph)));
  EBB_RETURN_IF_ERROR(graph::Verify(step->graph));
  for (const graph::Value& value : step->graph.values) {
    if (value.role == Role::kInput && value.name == kValidInput) step->valid = value.id;
    if (value.role == Role::kMetric) step->metrics.push_back(value.id);
  }
  step->liveness = graph::ComputeLiveness(step->graph);
  step->live_peak = graph::LivePeak(step->liveness, static_cast<int>(step->graph.nodes.size()));
  if (options.memory > Bytes(0) && step->live_peak > options.memory) {
    step->plan.peak = step->live_peak;
    return step;
  }
  EBB_ASSIGN_OR_RETURN(step->program, device.Compile(step->graph));
  EBB_ASSIGN_OR_RETURN(step->partition, partitioner::Split(step->graph, step->liveness,
                                                           {.quantum = options.quantum}));
  PlanMemory(device, step.get());
  return step;
}

// Which data field feeds which input of the program.
absl::Status BindData(const JobSpec& spec, const DataSource& source, data::BatchSource::Order order,
                      StepProgram* step, data::BatchSource* batches) {
  batches->data = source.data;
  batches->rows = source.rows;
  if (batches->rows.empty() && source.data != nullptr) {
    for (int64_t r = 0; r < source.data->rows(); ++r) batches->rows.push_back(r);
  }
  batches->batch_size = spec.batch_size;
  batches->seed = spec.seed_data;
  batches->order = order;
  // Padded rows must not count, which only a graph with "ebb.valid" knows.
  batches->tail = step->valid.valid() ? source.tail : data::BatchSource::Tail::kDrop;
  for (const graph::Value& value : step->graph.values) {
    if (value.role != Role::kInput || value.name == kValidInput) continue;
    data::FieldBinding binding{.field = value.name, .type = value.type};
    if (const auto it = spec.bind.find(value.name); it != spec.bind.end()) {
      binding.field = it->second;
    } else if (value.name == spec.loss.target && !spec.target_field.empty()) {
      binding.field = spec.target_field;
    }
    binding.label_classes = ClassesOf(step->graph, value.id, &binding.ignore_index);
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

// Without data there are no epochs; where nothing is computed that is all that is missed.
absl::Status CheckData(const JobSpec& spec, const DeviceSpec& device) {
  if (spec.train.data != nullptr) return absl::OkStatus();
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
    return absl::InvalidArgumentError("stop: give steps, epochs or samples");
  }
  if (!(spec.weight > 0)) return absl::InvalidArgumentError("resources.weight must be positive");
  EBB_RETURN_IF_ERROR(Annotate(CheckMaxInFlight(spec.max_in_flight), "resources"));
  return purpose == Purpose::kSizes ? absl::OkStatus() : CheckData(spec, device);
}

}  // namespace

std::optional<StepProgram::Place> StepProgram::PlaceOf(ValueId id) const {
  const int buffer = liveness.buffer_of[id.index()];
  if (buffer < 0) return std::nullopt;
  return Place{plan.offset[buffer], range_bytes[buffer]};
}

Bytes PreparedJob::Peak() const {
  Bytes peak;
  for (const auto& step : programs) {
    if (step) peak = std::max(peak, step->plan.peak);
  }
  return peak;
}

bool PreparedJob::IsPlanned() const {
  return std::all_of(programs.begin(), programs.end(),
                     [](const auto& step) { return !step || step->program != nullptr; });
}

absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(JobSpec spec, const device::Device& device,
                                                     const PrepareOptions& options) {
  const Values values =
      device.spec().computes && options.purpose == Purpose::kRun ? Values::kMake : Values::kSkip;
  EBB_RETURN_IF_ERROR(CheckSpec(spec, device.spec(), options.purpose));
  auto job = std::make_unique<PreparedJob>();
  EBB_ASSIGN_OR_RETURN(model::ImportedModel imported, InitialModel(spec, values, options.memory));
  job->warnings = std::move(imported.warnings);
  const graph::TrainingOptions training{.loss = spec.loss,
                                        .metrics = spec.metrics,
                                        .optimizer = spec.optimizer,
                                        .groups = spec.groups};
  EBB_ASSIGN_OR_RETURN(Graph train, graph::BuildTrainingGraph(imported.graph, training));
  EBB_RETURN_IF_ERROR(CheckNodes(train));
  if (values == Values::kMake) {
    EBB_RETURN_IF_ERROR(CheckInitialValues(train, imported.weights));
  }
  for (const std::string& name : graph::ParamsWithoutGradient(train)) {
    job->warnings.push_back(absl::StrCat("parameter '", name, "' is not trained"));
  }
  EBB_ASSIGN_OR_RETURN(job->programs[0], BuildProgram(std::move(train), device, options));
  EBB_RETURN_IF_ERROR(Annotate(BindData(spec, spec.train, data::BatchSource::Order::kShuffled,
                                        job->programs[0].get(), &job->sources[0]),
                               "data.train"));
  if (spec.val) {
    EBB_ASSIGN_OR_RETURN(Graph eval, graph::BuildEvalGraph(imported.graph, training));
    EBB_ASSIGN_OR_RETURN(job->programs[1], BuildProgram(std::move(eval), device, options));
    EBB_RETURN_IF_ERROR(Annotate(BindData(spec, *spec.val, data::BatchSource::Order::kSequential,
                                          job->programs[1].get(), &job->sources[1]),
                                 "data.val"));
  }
  LayOutResidents(device, job.get());
  LayOutSlots(device.spec().alignment, job.get());
  job->stages_in_pool = device.spec().host_memory;

  job->steps.batches_per_epoch = job->sources[0].BatchesPerEpoch();
  job->steps.eval_batches = spec.val ? job->sources[1].BatchesPerEpoch() : 0;
  job->steps.total_steps = TotalSteps(spec.stop, job->steps.batches_per_epoch, spec.batch_size);
  job->steps.eval_every_steps = spec.evaluate.every_steps;
  job->steps.eval_every_epochs = spec.evaluate.every_epochs;
  if (!spec.evaluate.every_steps && !spec.evaluate.every_epochs) job->steps.eval_every_epochs = 1;
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
