#include "daemon/wire.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/supported.h"
#include "daemon/wire_check.h"
#include "daemon/wire_graph.h"

namespace ebb::daemon {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t limit) {
  if (text.size() > limit) {
    return Invalid(absl::StrCat(field, " has ", text.size(), " bytes; give at most ", limit));
  }
  if (!IsPrintable(text)) {
    return Invalid(
        absl::StrCat(field, " contains a control character: '", Escaped(text), "'; remove it"));
  }
  return absl::OkStatus();
}

absl::Status ModelFromWire(const v1::JobSpec& spec, Resolver* resolver, Files files,
                           runtime::ModelSpec* model) {
  const v1::Model& wire = spec.model();
  switch (wire.source_case()) {
    case v1::Model::kOnnx: {
      auto bytes = resolver->Read(wire.onnx());
      if (!bytes.ok()) return Annotate(bytes.status(), "model.onnx");
      model->onnx = *std::move(bytes);
      for (const auto& [location, reference] : wire.external_data()) {
        auto data = resolver->Read(reference);
        if (!data.ok()) {
          return Annotate(data.status(),
                          absl::StrCat("model.external_data['", Escaped(location), "']"));
        }
        model->import.external_data[location] = *std::move(data);
      }
      break;
    }
    case v1::Model::kGraph: {
      if (wire.has_overrides() || wire.bn().mode() != v1::Model::BatchNorm::MODE_UNSPECIFIED) {
        return Invalid(
            absl::StrCat(wire.has_overrides() ? "model.overrides" : "model.bn.mode",
                         " applies to model.onnx; a serialised graph says it itself: remove it"));
      }
      if (spec.batch_size().has_auto_()) {
        return Invalid(
            "batch_size: auto: a serialised graph has its batch bound; give that number of rows");
      }
      auto bytes = resolver->Read(wire.graph());
      if (!bytes.ok()) return Annotate(bytes.status(), "model.graph");
      auto graph = GraphFromBytes(**bytes, spec.batch_size().fixed());
      if (!graph.ok()) return Annotate(graph.status(), "model.graph");
      model->graph = std::make_shared<const graph::Graph>(*std::move(graph));
      break;
    }
    case v1::Model::kZoo:
      if (wire.has_overrides() || wire.bn().mode() != v1::Model::BatchNorm::MODE_UNSPECIFIED) {
        return Invalid(
            absl::StrCat(wire.has_overrides() ? "model.overrides" : "model.bn.mode",
                         " applies to model.onnx; a model of the zoo is as it is: remove it"));
      }
      EBB_RETURN_IF_ERROR(CheckText("model.zoo", wire.zoo(), 128));
      if (wire.zoo().empty()) return Invalid("model.zoo is empty; name a model, such as resnet50");
      model->zoo = wire.zoo();
      break;
    default:
      return Invalid("model needs onnx, graph or zoo; give one");
  }
  if (!wire.external_data().empty() && model->onnx == nullptr) {
    return Invalid("model.external_data belongs to model.onnx; remove it");
  }
  if (!wire.weights().empty() && files == Files::kAll) {
    auto weights = resolver->Weights(wire.weights());
    if (!weights.ok()) return Annotate(weights.status(), "model.weights");
    model->weights = *std::move(weights);
  }
  for (int i = 0; i < wire.reinit_size(); ++i) {
    const v1::Model::Reinit& rule = wire.reinit(i);
    if (rule.match().empty() || rule.init().empty()) {
      return Invalid(absl::StrCat("model.reinit[", i,
                                  "] needs match and init; write {match: GLOB, init: default}"));
    }
    model->reinit.push_back({rule.match(), rule.init()});
  }
  for (const std::string& glob : wire.bn().freeze_stats()) {
    if (glob.empty())
      return Invalid("model.bn.freeze_stats has an empty glob; remove it, or name layers");
    model->freeze_stats.push_back(glob);
  }
  model->import.batch_size = spec.batch_size().fixed();
  model->import.untie_uniform = wire.overrides().untie_uniform();
  model->import.keep_tied = wire.overrides().keep_tied();
  if (model->import.untie_uniform && model->import.keep_tied) {
    return Invalid("model.overrides has untie_uniform and keep_tied; choose one");
  }
  if (wire.overrides().has_dropout()) {
    const double dropout = wire.overrides().dropout();
    EBB_RETURN_IF_ERROR(CheckNumber("model.overrides.dropout", dropout, 0, 1));
    if (dropout == 1)
      return Invalid("model.overrides.dropout is 1, with which nothing is left; give less");
    model->import.dropout = dropout;
  }
  switch (wire.bn().mode()) {
    case v1::Model::BatchNorm::MODE_FROZEN:
      model->import.batch_norm = model::BatchNormMode::kFrozen;
      break;
    case v1::Model::BatchNorm::MODE_EXPORTED:
      model->import.batch_norm = model::BatchNormMode::kAsExported;
      break;
    default:
      model->import.batch_norm = model::BatchNormMode::kTrain;
  }
  return absl::OkStatus();
}

absl::Status EvaluateFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  if (!spec.has_evaluate()) return absl::OkStatus();
  if (!spec.data().has_val())
    return Invalid("evaluate needs data.val; give that, or remove evaluate");
  switch (spec.evaluate().every().kind_case()) {
    case v1::Every::kSteps:
      EBB_RETURN_IF_ERROR(CheckCount("evaluate.every.steps", spec.evaluate().every().steps(), 1));
      job->evaluate.every_steps = spec.evaluate().every().steps();
      break;
    case v1::Every::kEpochs:
      EBB_RETURN_IF_ERROR(CheckCount("evaluate.every.epochs", spec.evaluate().every().epochs(), 1));
      job->evaluate.every_epochs = spec.evaluate().every().epochs();
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

absl::Status ResourcesFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  const v1::Resources& wire = spec.resources();
  EBB_RETURN_IF_ERROR(CheckCount("resources.priority", wire.priority(), -1000000, 1000000));
  job->priority = wire.priority();
  if (wire.has_weight()) {
    EBB_RETURN_IF_ERROR(CheckNumber("resources.weight", wire.weight(), 1e-6, 1e6));
    job->weight = wire.weight();
  }
  EBB_RETURN_IF_ERROR(CheckCount("resources.memory_max", wire.memory_max(), 0,
                                 std::numeric_limits<int64_t>::max()));
  job->memory_max = Bytes(wire.memory_max());
  EBB_RETURN_IF_ERROR(Annotate(runtime::CheckMaxInFlight(wire.max_in_flight()), "resources"));
  job->max_in_flight = wire.max_in_flight();
  const v1::Resources::Ladder& ladder = wire.ladder();
  if (ladder.has_prefetch()) job->ladder.prefetch = ladder.prefetch();
  if (ladder.has_offload()) job->ladder.offload = ladder.offload();
  if (ladder.has_stream()) job->ladder.stream = ladder.stream();
  if (ladder.has_swap()) job->ladder.swap = ladder.swap();
  if (ladder.has_recompute()) job->ladder.recompute = ladder.recompute();
  EBB_RETURN_IF_ERROR(
      CheckCount("resources.ladder.micro_batches", ladder.micro_batches(), 0, 1 << 24));
  job->ladder.micro_batches = ladder.micro_batches();
  return absl::OkStatus();
}

absl::Status BatchSizeFromWire(const v1::BatchSize& wire, runtime::JobSpec* job) {
  job->batch_auto = wire.has_auto_();
  if (job->batch_auto) return absl::OkStatus();
  if (!wire.has_fixed()) return Invalid("batch_size is missing; give a number of rows, or auto");
  EBB_RETURN_IF_ERROR(CheckCount("batch_size", wire.fixed(), 1, 1 << 24));
  job->batch_size = wire.fixed();
  return absl::OkStatus();
}

absl::Status LabelsFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  EBB_RETURN_IF_ERROR(CheckText("name", spec.name(), 128));
  job->name = spec.name().empty() ? "job" : spec.name();
  EBB_RETURN_IF_ERROR(CheckCount("the number of labels", spec.labels_size(), 0, 64));
  for (const auto& [key, value] : spec.labels()) {
    EBB_RETURN_IF_ERROR(CheckText("a label's key", key, 128));
    EBB_RETURN_IF_ERROR(CheckText(absl::StrCat("labels.", key), value, 1024));
    job->labels[key] = value;
  }
  return absl::OkStatus();
}

// What only a job that trains has; no file is read for it.
absl::Status TrainingFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  EBB_RETURN_IF_ERROR(LossFromWire(spec, job));
  EBB_RETURN_IF_ERROR(OptimizerFromWire(spec, job));
  EBB_RETURN_IF_ERROR(ScheduleFromWire(spec, job));
  EBB_RETURN_IF_ERROR(MetricsFromWire(spec, job));
  EBB_RETURN_IF_ERROR(EvaluateFromWire(spec, job));
  EBB_ASSIGN_OR_RETURN(job->stop, StopFromWire(spec.stop()));
  return DecisionsFromWire(spec, job);
}

}  // namespace

absl::StatusOr<runtime::JobSpec> JobSpecFromWire(const v1::JobSpec& spec, Resolver* resolver,
                                                 Files files) {
  // What is cheap to check comes first: a typo in the last field should not wait for a data set.
  EBB_RETURN_IF_ERROR(CheckSupported(spec));
  runtime::JobSpec job;
  EBB_RETURN_IF_ERROR(LabelsFromWire(spec, &job));
  EBB_RETURN_IF_ERROR(BatchSizeFromWire(spec.batch_size(), &job));
  EBB_RETURN_IF_ERROR(CheckCount("accumulate", spec.accumulate(), 0, 4096));
  job.accumulate = std::max(1, static_cast<int>(spec.accumulate()));
  if (spec.precision() == v1::PRECISION_TF32) job.precision = graph::Precision::kTf32;
  if (spec.precision() == v1::PRECISION_BF16) job.precision = graph::Precision::kBf16;
  EBB_RETURN_IF_ERROR(BindFromWire(spec, &job));
  EBB_RETURN_IF_ERROR(ResourcesFromWire(spec, &job));
  if (!spec.has_predict()) EBB_RETURN_IF_ERROR(TrainingFromWire(spec, &job));
  job.seed_init = spec.seed().init();
  job.seed_data = spec.seed().data();
  job.seed_dropout = spec.seed().dropout();
  EBB_RETURN_IF_ERROR(ModelFromWire(spec, resolver, files, &job.model));
  EBB_RETURN_IF_ERROR(spec.has_predict() ? PredictFromWire(spec, resolver, files, &job)
                                         : DataFromWire(spec.data(), resolver, files, &job));
  return job;
}

absl::StatusOr<runtime::StopSpec> StopFromWire(const v1::Stop& stop) {
  runtime::StopSpec native;
  if (stop.has_steps()) {
    EBB_RETURN_IF_ERROR(CheckCount("stop.steps", stop.steps(), 1));
    native.steps = stop.steps();
  }
  if (stop.has_epochs()) {
    EBB_RETURN_IF_ERROR(CheckNumber("stop.epochs", stop.epochs(), 1e-9, 1e9));
    native.epochs = stop.epochs();
  }
  if (stop.has_samples()) {
    EBB_RETURN_IF_ERROR(CheckCount("stop.samples", stop.samples(), 1));
    native.samples = stop.samples();
  }
  if (stop.has_device_time()) {
    const double seconds = static_cast<double>(stop.device_time().seconds()) +
                           static_cast<double>(stop.device_time().nanos()) * 1e-9;
    EBB_RETURN_IF_ERROR(CheckNumber("stop.device_time in seconds", seconds, 1e-6, 1e10));
    native.device_time = Micros(static_cast<int64_t>(seconds * 1e6));
  }
  if (!native.steps && !native.epochs && !native.samples) {
    return Invalid(native.device_time
                       ? "stop.device_time goes with steps, epochs or samples, where "
                         "the job ends at the latest; give one of those"
                       : "stop needs steps, epochs or samples; give one");
  }
  return native;
}

absl::StatusOr<runtime::JobUpdate> UpdateFromWire(const v1::UpdateRequest& request) {
  runtime::JobUpdate update;
  if (request.has_learning_rate()) {
    EBB_RETURN_IF_ERROR(CheckNumber("learning_rate", request.learning_rate(), 0));
    update.learning_rate = request.learning_rate();
  }
  if (request.has_weight()) {
    EBB_RETURN_IF_ERROR(CheckNumber("weight", request.weight(), 1e-6, 1e6));
    update.weight = request.weight();
  }
  if (request.has_priority()) {
    EBB_RETURN_IF_ERROR(CheckCount("priority", request.priority(), -1000000, 1000000));
    update.priority = request.priority();
  }
  if (request.has_max_in_flight()) {
    EBB_RETURN_IF_ERROR(runtime::CheckMaxInFlight(request.max_in_flight()));
    update.max_in_flight = request.max_in_flight();
  }
  if (request.has_stop()) {
    if (request.stop().has_device_time() || request.stop().has_early()) {
      return absl::UnimplementedError(
          absl::StrCat("changing ", request.stop().has_early() ? "stop.early" : "stop.device_time",
                       " is not supported by this version; remove it"));
    }
    EBB_ASSIGN_OR_RETURN(update.stop, StopFromWire(request.stop()));
  }
  if (!update.learning_rate && !update.weight && !update.priority && !update.max_in_flight &&
      !update.stop) {
    return Invalid(
        "nothing to change: give learning_rate, weight, priority, max_in_flight or stop");
  }
  return update;
}

}  // namespace ebb::daemon
