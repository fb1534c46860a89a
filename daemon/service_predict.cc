// The calls Predict, ShardEmbeddings and Calibrate: on the call's own thread, asking neither engine
// nor device for time, and only as long as the client is there.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/service.h"
#include "daemon/wire.h"
#include "daemon/wire_check.h"
#include "daemon/wire_predict.h"
#include "perfmodel/look_up.h"
#include "perfmodel/step_traces.h"
#include "proto/status.h"
#include "runtime/training_graph.h"

namespace ebb::daemon {
namespace {

using perfmodel::Comparison;
using perfmodel::Plan;
using perfmodel::Strategy;

constexpr int64_t kMostCandidates = 4096;       // of one request
constexpr size_t kMostTimelineTasks = 100'000;  // of all ranks
constexpr size_t kMostTimelineBytes = 48 << 20;
constexpr double kGiB = 1 << 30;

absl::Status Gone() { return absl::CancelledError("the client has gone"); }

// Ask what they wrap, until the client has gone.
class WantedOps : public perfmodel::OpPredictor {
 public:
  WantedOps(const grpc::ServerContext& context, const perfmodel::OpPredictor& ops)
      : context_(context), ops_(ops) {}
  absl::StatusOr<perfmodel::Estimate> Predict(const perfmodel::Work& work) const override {
    if (context_.IsCancelled()) return Gone();
    return ops_.Predict(work);
  }

 private:
  const grpc::ServerContext& context_;
  const perfmodel::OpPredictor& ops_;
};

class WantedCollectives : public perfmodel::CollectivePredictor {
 public:
  WantedCollectives(const grpc::ServerContext& context, const perfmodel::Fabric* fabric)
      : context_(context), fabric_(fabric) {}
  absl::StatusOr<perfmodel::Estimate> Predict(const perfmodel::Collective& what) const override {
    if (context_.IsCancelled()) return Gone();
    if (fabric_ == nullptr) return perfmodel::Estimate{.source = "one rank"};
    return fabric_->Predict(what);
  }

 private:
  const grpc::ServerContext& context_;
  const perfmodel::Fabric* fabric_;
};

// A graph is imported and differentiated once for each batch that strategies need.
perfmodel::StepMaker CachedSteps(runtime::JobSpec spec) {
  using Key = std::pair<int64_t, int64_t>;
  auto made = std::make_shared<std::map<Key, absl::StatusOr<perfmodel::TrainingStep>>>();
  perfmodel::StepMaker make = perfmodel::StepsOf(
      [spec = std::move(spec)](int64_t batch) { return runtime::TrainingGraphAt(spec, batch); });
  return [made, make = std::move(make)](int64_t batch, int64_t tensor) {
    const auto it = made->find({batch, tensor});
    if (it != made->end()) return it->second;
    return made->emplace(Key{batch, tensor}, make(batch, tensor)).first->second;
  };
}

struct ToPredict {
  runtime::JobSpec spec;
  int64_t batch = 0;
  int64_t steps = 0;  // 0: not known
  std::string note;
};

// Steps to the end at the batch asked for. `total`: those of a job at its own batch, else 0.
absl::Status CountSteps(const v1::PredictRequest& request, int64_t total, ToPredict* what) {
  const auto steps_of = [&](int64_t rows) { return (rows + what->batch - 1) / what->batch; };
  const runtime::StopSpec& stop = what->spec.stop;
  if (request.steps() > 0) {
    what->steps = request.steps();
  } else if (total > 0 && what->batch == what->spec.StepRows()) {
    what->steps = total;
  } else if (stop.steps) {
    what->steps = *stop.steps;
    if (stop.samples) what->steps = std::min(what->steps, steps_of(*stop.samples));
  } else if (stop.samples) {
    what->steps = steps_of(*stop.samples);
  } else if (stop.epochs && total > 0 && what->spec.StepRows() > 0) {
    const double rows = static_cast<double>(total) * static_cast<double>(what->spec.StepRows());
    what->steps = static_cast<int64_t>(rows / static_cast<double>(what->batch) + 0.5);
  } else if (stop.epochs) {
    what->note =
        "how many steps stop.epochs are depends on the data, which are not read: time to the end "
        "and cost are not known; give steps";
  } else {
    return absl::InvalidArgumentError(
        "stop: the job does not say where it ends; give stop.steps, stop.epochs or stop.samples, "
        "or steps of this request");
  }
  return absl::OkStatus();
}

// One plan of all ranks, as a trace for each.
absl::Status AddTimelines(const perfmodel::StrategyInputs& inputs, const Strategy& strategy,
                          v1::PredictResponse* response) {
  EBB_ASSIGN_OR_RETURN(const Plan plan, perfmodel::MakePlan(inputs, strategy));
  size_t tasks = 0;
  for (const perfmodel::RankProgram& program : plan.programs) tasks += program.tasks.size();
  tasks *= static_cast<size_t>(strategy.data * strategy.tensor);
  const auto too_large = [&](absl::string_view what) {
    return absl::ResourceExhaustedError(
        absl::StrCat("timelines: those of ", strategy.ranks(), " ranks have ", what,
                     "; ask for fewer GPUs, or for one strategy of fewer micro-batches"));
  };
  if (tasks > kMostTimelineTasks) {
    return too_large(absl::StrCat(tasks, " tasks, at most ", kMostTimelineTasks));
  }
  const std::vector<perfmodel::RankProgram> programs = perfmodel::AllRanks(plan);
  EBB_ASSIGN_OR_RETURN(const perfmodel::Step step, perfmodel::Simulate(programs));
  size_t bytes = 0;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    std::string text = perfmodel::WriteKineto(
        perfmodel::KinetoOf(programs[rank], step.ranks[rank], static_cast<int>(rank),
                            static_cast<int>(programs.size())));
    bytes += text.size();
    if (bytes > kMostTimelineBytes) {
      return too_large(absl::StrCat("more than ", kMostTimelineBytes, " bytes"));
    }
    // Names of ops come from the model's file.
    response->add_timelines(IsUtf8(text) ? std::move(text) : EscapedLines(text));
  }
  return absl::OkStatus();
}

absl::Status Compare(const grpc::ServerContext& context, const PredictAsked& asked,
                     const v1::PredictRequest& request, const ToPredict& what,
                     v1::PredictResponse* response) {
  std::vector<std::pair<int64_t, std::vector<Strategy>>> candidates;
  size_t count = 0;
  for (const int64_t gpus : asked.gpus) {
    EBB_ASSIGN_OR_RETURN(auto strategies, CandidatesOf(asked, gpus, what.batch));
    count += strategies.size() * asked.hardware.size();
    if (!strategies.empty()) candidates.emplace_back(gpus, std::move(strategies));
  }
  if (count > kMostCandidates) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategies: there are ", count, " to compare; at most ", kMostCandidates,
                     " in one request: ask for fewer GPUs or kinds of hardware"));
  }
  const perfmodel::StepMaker steps = CachedSteps(what.spec);
  for (const PredictedHardware& hardware : asked.hardware) {
    const WantedOps ops(context, *hardware.ops);
    const WantedCollectives collectives(context, hardware.fabric.get());
    const perfmodel::StrategyInputs inputs{.steps = steps,
                                           .batch = what.batch,
                                           .ops = &ops,
                                           .collectives = &collectives,
                                           .launch_us = request.launch_us(),
                                           .bus_gbs = hardware.hardware.bus_gbs};
    const perfmodel::ReportOptions options{.memory_bytes = hardware.hardware.memory_gib * kGiB,
                                           .steps = what.steps,
                                           .price_per_gpu_hour = hardware.price};
    for (const auto& [gpus, strategies] : candidates) {
      EBB_ASSIGN_OR_RETURN(const Comparison comparison,
                           perfmodel::CompareStrategies(inputs, strategies, options));
      v1::StrategyComparison* one = response->add_comparisons();
      *one = ToWire(comparison);
      one->set_hardware(hardware.asked);
      one->set_hardware_name(Escaped(hardware.hardware.name));
      one->set_kernels(Escaped(hardware.kernels));
      if (hardware.fabric != nullptr) one->set_fabric(Escaped(hardware.fabric->name()));
      one->set_gpus(gpus);
      const bool last = gpus == candidates.back().first && &hardware == asked.hardware.data();
      if (!request.timelines() || !last || comparison.ranking.empty()) continue;
      EBB_RETURN_IF_ERROR(AddTimelines(inputs, comparison.ranking[0].strategy, response));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ShardEmbeddingsResponse> Shard(const grpc::ServerContext& context,
                                                  const v1::ShardEmbeddingsRequest& request) {
  EBB_ASSIGN_OR_RETURN(const ShardAsked asked, AskedFromWire(request));
  const WantedCollectives collectives(context, asked.fabric.get());
  EBB_ASSIGN_OR_RETURN(
      const perfmodel::ShardPlan plan,
      perfmodel::PlanShards(asked.task, perfmodel::LookUpModel::APriori(asked.hardware),
                            collectives));
  return ToWire(asked, plan);
}

}  // namespace

absl::Status Service::PredictTraining(const grpc::ServerContext& context,
                                      const v1::PredictRequest& request,
                                      v1::PredictResponse* response) const {
  EBB_ASSIGN_OR_RETURN(const PredictAsked asked, AskedFromWire(request));
  v1::JobSpec wire;
  std::optional<runtime::JobInfo> info;
  if (request.what_case() == v1::PredictRequest::kJob) {
    EBB_ASSIGN_OR_RETURN(const JobId job, FindJob(request.job()));
    EBB_ASSIGN_OR_RETURN(info, engine_->Get(job));
    MutexLock lock(&mu_);
    const auto it = specs_.find(job);
    if (it == specs_.end()) {
      return absl::NotFoundError(absl::StrCat("there is no job '", request.job(), "' any more"));
    }
    wire = it->second;
  } else if (request.what_case() == v1::PredictRequest::kSpec) {
    wire = request.spec();
  } else {
    return absl::InvalidArgumentError("give job or spec: what is to be predicted");
  }
  ToPredict what;
  EBB_ASSIGN_OR_RETURN(what.spec, JobSpecFromWire(wire, resolver_, Files::kModel));
  if (what.spec.predict) {
    return absl::InvalidArgumentError("predict: a job that predicts trains nothing");
  }
  what.spec.abandoned = [&context] { return context.IsCancelled(); };
  if (info) what.spec.batch_size = info->batch_size;
  what.batch = request.batch_size() > 0 ? request.batch_size() : what.spec.StepRows();
  if (what.batch < 1) {
    return absl::InvalidArgumentError(
        what.spec.batch_auto
            ? "batch_size: auto is of the daemon's device; give batch_size of this "
              "request, for all GPUs together"
            : "batch_size: it is not a positive number");
  }
  EBB_RETURN_IF_ERROR(CountSteps(request, info ? info->total_steps : 0, &what));
  EBB_RETURN_IF_ERROR(Compare(context, asked, request, what, response));
  response->set_batch_size(what.batch);
  response->set_steps(what.steps);
  response->set_note(what.note);
  return absl::OkStatus();
}

grpc::Status Service::Predict(grpc::ServerContext* context, const v1::PredictRequest* request,
                              v1::PredictResponse* response) {
  return proto::ToGrpc(PredictTraining(*context, *request, response));
}

grpc::Status Service::Calibrate(grpc::ServerContext*, const v1::CalibrateRequest* request,
                                v1::CalibrateResponse* response) {
  auto calibrated = Calibrated(*request);
  if (!calibrated.ok()) return proto::ToGrpc(calibrated.status());
  *response = *std::move(calibrated);
  return grpc::Status::OK;
}

grpc::Status Service::ShardEmbeddings(grpc::ServerContext* context,
                                      const v1::ShardEmbeddingsRequest* request,
                                      v1::ShardEmbeddingsResponse* response) {
  auto plan = Shard(*context, *request);
  if (!plan.ok()) return proto::ToGrpc(plan.status());
  *response = *std::move(plan);
  return grpc::Status::OK;
}

}  // namespace ebb::daemon
