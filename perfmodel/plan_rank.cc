#include "perfmodel/plan_rank.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/tensor_parallel.h"

namespace ebb::perfmodel {
namespace {

using graph::Phase;

// Streams of a rank. A direction of the pipeline has one of its own, so that what a rank waits for
// never holds up what it sends.
enum Stream : int {
  kMain,
  kGradients,
  kGathers,
  kTensor,
  kBatch,
  kSends,
  kReceives,
  kBackSends,
  kBackReceives
};

enum PipelineKind : int64_t { kActivations, kActivationGradients, kSharedParams };

class RankMaker {
 public:
  RankMaker(const PlanCommon& common, int64_t rank)
      : c_(common), s_(common.strategy), step_(common.step) {
    for (int64_t chunk = 0; chunk < s_.chunks; ++chunk) {
      ChunkState& state = chunks_.emplace_back();
      state.stage = chunk * s_.pipeline + rank;
      state.part = c_.stages[static_cast<size_t>(state.stage)];
      if (s_.data > 1) {
        state.gradients = GradientBuckets(step_, state.part, s_.bucket_bytes);
        if (s_.zero >= 3) state.gathers = ParameterBuckets(step_, state.part, s_.bucket_bytes);
      }
      for (const StepParam& param : step_.params) {
        if (param.ready >= 0 && state.part.Has(param)) state.trained_bytes += param.bytes;
      }
    }
    for (size_t i = 0; i < step_.ops.size(); ++i) {
      const StepOp& op = step_.ops[i];
      if (op.phase == Phase::kUpdate) continue;
      for (ChunkState& chunk : chunks_) {
        if (!chunk.part.Has(op.unit)) continue;
        (op.phase == Phase::kBackward ? chunk.backward : chunk.forward).push_back(i);
      }
    }
  }

  absl::StatusOr<RankProgram> Make(absl::Span<const PipelineSlot> order) {
    for (const PipelineSlot& slot : order) {
      if (slot.backward) {
        EBB_RETURN_IF_ERROR(Backward(slot));
      } else {
        EBB_RETURN_IF_ERROR(Forward(slot));
      }
    }
    for (ChunkState& chunk : chunks_) EBB_RETURN_IF_ERROR(Shared(&chunk));
    EBB_RETURN_IF_ERROR(Updates());
    return std::move(program_);
  }

 private:
  struct ChunkState {
    int64_t stage = 0;
    StagePart part;
    std::vector<size_t> forward, backward;  // ops
    std::vector<Bucket> gradients, gathers;
    std::vector<int> exchanged;  // tasks that gave the last gradients, by bucket
    double trained_bytes = 0;
    int64_t backward_done = 0;
  };

  int LastStage() const { return static_cast<int>(c_.stages.size()) - 1; }

  int Push(Task task) {
    task.host_us = c_.inputs.launch_us;
    program_.tasks.push_back(std::move(task));
    return static_cast<int>(program_.tasks.size()) - 1;
  }

  // A kernel, after what waits_ says; a view takes nothing.
  absl::Status Kernel(const std::string& name, const Work& work) {
    EBB_ASSIGN_OR_RETURN(const Estimate time, c_.timer->Of(work));
    if (time.median <= 0) return absl::OkStatus();
    c_.timer->Count(work, time);
    last_ = Push(
        {.name = name, .stream = kMain, .micros = time.median, .after = std::exchange(waits_, {})});
    return absl::OkStatus();
  }

  absl::StatusOr<int> Exchange(const Collective& what, absl::string_view name, Stream stream,
                               std::vector<int> after, int number) {
    EBB_ASSIGN_OR_RETURN(const Estimate time, c_.timer->Of(what));
    c_.timer->Count(what, time);
    std::erase(after, -1);
    return Push({.name = absl::StrCat(Name(what.kind), " ", name),
                 .stream = stream,
                 .resource = Resource::kCommunication,
                 .micros = time.median,
                 .after = std::move(after),
                 .collective = number});
  }

  absl::Status Op(const StepOp& op) {
    EBB_RETURN_IF_ERROR(Kernel(op.name, op.work));
    if (op.reduce_bytes <= 0 || s_.tensor <= 1) return absl::OkStatus();
    // What follows needs the sum.
    EBB_ASSIGN_OR_RETURN(const int reduced,
                         Exchange({.ranks = s_.tensor, .bytes = op.reduce_bytes}, op.name, kTensor,
                                  {last_}, c_.numbers->New(Plan::Scope::kTensor)));
    waits_.push_back(reduced);
    return absl::OkStatus();
  }

  absl::StatusOr<int> Transfer(PipelineKind kind, int64_t stage, const PipelineSlot& slot,
                               Stream stream, std::vector<int> after) {
    const int unit = c_.stages[static_cast<size_t>(stage)].first;
    return Exchange({.kind = CollectiveKind::kSendRecv,
                     .ranks = 2,
                     .bytes = step_.crossing_bytes[static_cast<size_t>(unit)],
                     .stride = s_.data * s_.tensor},
                    absl::StrCat(kind == kActivations ? "activations " : "gradients ", slot.micro),
                    stream, std::move(after), c_.numbers->OfPipeline(kind, stage, slot.micro));
  }

  absl::Status Gather(const ChunkState& chunk, size_t bucket, std::vector<int>* tasks) {
    EBB_ASSIGN_OR_RETURN(const int task, Exchange({.kind = CollectiveKind::kAllGather,
                                                   .ranks = s_.data,
                                                   .bytes = chunk.gathers[bucket].bytes,
                                                   .stride = s_.tensor},
                                                  "parameters", kGathers, {last_},
                                                  c_.numbers->New(Plan::Scope::kData)));
    (*tasks)[bucket] = task;
    return absl::OkStatus();
  }

  // ZeRO 3: what an op of `unit` reads has been gathered, and the bucket after it is on its way.
  absl::Status Gathered(const ChunkState& chunk, int unit, bool backward, std::vector<int>* tasks) {
    const auto count = static_cast<int>(chunk.gathers.size());
    for (int i = 0; i < count; ++i) {
      const int at = backward ? count - 1 - i : i;
      const Bucket& bucket = chunk.gathers[static_cast<size_t>(at)];
      if (unit < bucket.first_unit || unit > bucket.last_unit) continue;
      for (const int ahead : {i, i + 1}) {
        const auto index = static_cast<size_t>(backward ? count - 1 - ahead : ahead);
        if (ahead < count && (*tasks)[index] < 0) {
          EBB_RETURN_IF_ERROR(Gather(chunk, index, tasks));
        }
      }
      waits_.push_back((*tasks)[static_cast<size_t>(at)]);
    }
    return absl::OkStatus();
  }

  absl::Status Forward(const PipelineSlot& slot) {
    ChunkState& chunk = chunks_[static_cast<size_t>(slot.chunk)];
    if (chunk.stage > 0) {
      EBB_ASSIGN_OR_RETURN(const int received,
                           Transfer(kActivations, chunk.stage, slot, kReceives, {}));
      waits_.push_back(received);
    } else if (c_.inputs.bus_gbs > 0 && step_.input_bytes > 0) {
      waits_.push_back(Push({.name = "batch",
                             .stream = kBatch,
                             .resource = Resource::kCopy,
                             .micros = step_.input_bytes / (c_.inputs.bus_gbs * 1e3)}));
    }
    std::vector<int> gathers(chunk.gathers.size(), -1);
    for (const size_t op : chunk.forward) {
      EBB_RETURN_IF_ERROR(Gathered(chunk, step_.ops[op].unit, false, &gathers));
      EBB_RETURN_IF_ERROR(Op(step_.ops[op]));
    }
    if (chunk.stage == LastStage()) return absl::OkStatus();
    return Transfer(kActivations, chunk.stage + 1, slot, kSends, After()).status();
  }

  // What a transfer of the last results waits for.
  std::vector<int> After() const {
    std::vector<int> after = waits_;
    after.push_back(last_);
    return after;
  }

  absl::Status Backward(const PipelineSlot& slot) {
    ChunkState& chunk = chunks_[static_cast<size_t>(slot.chunk)];
    if (chunk.stage < LastStage()) {
      EBB_ASSIGN_OR_RETURN(const int received, Transfer(kActivationGradients, chunk.stage + 1, slot,
                                                        kBackReceives, {}));
      waits_.push_back(received);
    }
    ++chunk.backward_done;
    // ZeRO 2 and 3 have no room for gradients of a whole model between micro-batches.
    const bool exchanges = s_.data > 1 && (s_.zero >= 2 || chunk.backward_done == s_.micro_batches);
    if (exchanges) chunk.exchanged.assign(chunk.gradients.size(), -1);
    std::vector<int> gathers(chunk.gathers.size(), -1);
    size_t bucket = 0;
    for (const size_t op : chunk.backward) {
      EBB_RETURN_IF_ERROR(Gathered(chunk, step_.ops[op].unit, true, &gathers));
      EBB_RETURN_IF_ERROR(Op(step_.ops[op]));
      for (; exchanges && bucket < chunk.gradients.size() &&
             chunk.gradients[bucket].ready <= static_cast<int>(op);
           ++bucket) {
        EBB_RETURN_IF_ERROR(ExchangeBucket(&chunk, bucket));
      }
    }
    for (; exchanges && bucket < chunk.gradients.size(); ++bucket) {
      EBB_RETURN_IF_ERROR(ExchangeBucket(&chunk, bucket));
    }
    if (chunk.stage > 0) {
      EBB_RETURN_IF_ERROR(
          Transfer(kActivationGradients, chunk.stage, slot, kBackSends, After()).status());
    }
    if (chunk.backward_done == 1 || chunk.trained_bytes == 0) return absl::OkStatus();
    // Gradients are added to those of the micro-batches before.
    return Kernel("gradients, added up", {.family = Family::kElementwise,
                                          .m = static_cast<int64_t>(chunk.trained_bytes / 4),
                                          .flops = chunk.trained_bytes / 4,
                                          .bytes = 3 * chunk.trained_bytes});
  }

  absl::Status ExchangeBucket(ChunkState* chunk, size_t index) {
    const CollectiveKind kind =
        s_.zero == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
    EBB_ASSIGN_OR_RETURN(chunk->exchanged[index], Exchange({.kind = kind,
                                                            .ranks = s_.data,
                                                            .bytes = chunk->gradients[index].bytes,
                                                            .stride = s_.tensor},
                                                           "gradients", kGradients, {last_},
                                                           c_.numbers->New(Plan::Scope::kData)));
    return absl::OkStatus();
  }

  // Layers of two stages that share a parameter add up its gradients.
  absl::Status Shared(ChunkState* chunk) {
    for (size_t i = 0; i < step_.params.size(); ++i) {
      const StepParam& param = step_.params[i];
      if (param.ready < 0 || !chunk->part.Has(param)) continue;
      if (chunk->part.Has(param.unit) && chunk->part.Has(param.last_unit)) continue;
      if (OnThisRank(param.unit) && OnThisRank(param.last_unit)) continue;
      std::vector<int> after = chunk->exchanged;
      after.push_back(last_);
      EBB_ASSIGN_OR_RETURN(
          const int shared,
          Exchange({.ranks = 2, .bytes = param.bytes, .stride = s_.data * s_.tensor}, param.name,
                   kSends, std::move(after),
                   c_.numbers->OfPipeline(kSharedParams, 0, static_cast<int64_t>(i))));
      waits_.push_back(shared);
    }
    return absl::OkStatus();
  }

  bool OnThisRank(int unit) const {
    return std::any_of(chunks_.begin(), chunks_.end(),
                       [unit](const ChunkState& chunk) { return chunk.part.Has(unit); });
  }

  absl::Status Updates() {
    for (size_t i = 0; i < step_.ops.size(); ++i) {
      const StepOp& op = step_.ops[i];
      if (op.phase != Phase::kUpdate) continue;
      if (op.param < 0) {  // of all gradients: a norm
        for (const ChunkState& chunk : chunks_) Append(chunk.exchanged, &waits_);
      } else if (!OnThisRank(step_.params[static_cast<size_t>(op.param)].unit) &&
                 !OnThisRank(step_.params[static_cast<size_t>(op.param)].last_unit)) {
        continue;
      } else {
        for (const ChunkState& chunk : chunks_) WaitFor(chunk, op.param);
      }
      const bool share = s_.zero >= 1 && s_.data > 1 && op.param >= 0;
      EBB_RETURN_IF_ERROR(Kernel(op.name, share ? CutElements(op.work, s_.data) : op.work));
    }
    if (s_.data == 1 || s_.zero < 1 || s_.zero > 2) return absl::OkStatus();
    for (const ChunkState& chunk : chunks_) {
      for (const Bucket& bucket : chunk.gradients) {
        EBB_RETURN_IF_ERROR(Exchange({.kind = CollectiveKind::kAllGather,
                                      .ranks = s_.data,
                                      .bytes = bucket.bytes,
                                      .stride = s_.tensor},
                                     "updated parameters", kGathers, {last_},
                                     c_.numbers->New(Plan::Scope::kData))
                                .status());
      }
    }
    return absl::OkStatus();
  }

  static void Append(const std::vector<int>& tasks, std::vector<int>* to) {
    for (const int task : tasks) {
      if (task >= 0) to->push_back(task);
    }
  }

  void WaitFor(const ChunkState& chunk, int param) {
    for (size_t i = 0; i < chunk.exchanged.size(); ++i) {
      const std::vector<int>& params = chunk.gradients[i].params;
      if (std::find(params.begin(), params.end(), param) != params.end()) {
        Append({chunk.exchanged[i]}, &waits_);
      }
    }
  }

  const PlanCommon& c_;
  const Strategy& s_;
  const TrainingStep& step_;
  std::vector<ChunkState> chunks_;
  RankProgram program_;
  std::vector<int> waits_;  // of the next kernel
  int last_ = -1;           // kernel
};

}  // namespace

absl::StatusOr<RankProgram> MakeRank(const PlanCommon& common, int64_t rank,
                                     absl::Span<const PipelineSlot> order) {
  return RankMaker(common, rank).Make(order);
}

}  // namespace ebb::perfmodel
