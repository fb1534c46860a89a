#include "graph/micro_batch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/autodiff.h"
#include "graph/objective.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "graph/rewrite.h"

namespace ebb::graph {
namespace {

// How the loss of the batch follows from those of its parts.
enum class Combination {
  kMean,     // their mean
  kSum,      // their sum
  kCounted,  // sums over the labels that count, divided by the number of those in the batch
};

// The node that reduces to the loss, which may show it in another shape.
const Node* Reduction(const Graph& graph, ValueId loss) {
  while (graph.value(loss).producer.valid()) {
    const Node& node = graph.node(graph.value(loss).producer);
    if (!node.op->is_view) return &node;
    loss = node.inputs[0];
  }
  return nullptr;
}

absl::StatusOr<Combination> CombinationOf(const Node* loss) {
  if (loss == nullptr) return absl::InvalidArgumentError("the loss is an input or a parameter");
  const absl::string_view op = loss->op->name;
  const std::string reduction = loss->attrs.Str("reduction", "mean");
  const bool by_label = op == "CrossEntropy" || op == "NllLoss";
  const bool by_element = op == "MseLoss" || op == "BceWithLogits";
  if (op == "ReduceSum" || ((by_label || by_element) && reduction == "sum")) {
    return Combination::kSum;
  }
  if (op == "ReduceMean" || (by_element && reduction == "mean")) return Combination::kMean;
  const bool weighted = loss->inputs.size() > 2 && loss->inputs[2].valid();
  if (by_label && reduction == "mean" && !weighted) return Combination::kCounted;
  return absl::UnimplementedError(absl::StrCat(
      "node '", loss->name, "' (", op,
      "): micro-batches need a loss that is the mean or the sum of ",
      "a cross entropy without class weights, a squared error, a binary cross entropy, or of the ",
      "elements of a tensor"));
}

absl::Status CheckNodes(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.op->mutates.empty()) continue;
    return absl::UnimplementedError(
        absl::StrCat("node '", node.name, "' (", node.op->name,
                     "): its statistics are those of the whole batch; micro-batches would change "
                     "them"));
  }
  return absl::OkStatus();
}

// Checks the options against the inputs.
absl::Status CheckBatch(const Graph& graph, const MicroBatchOptions& options) {
  if (options.parts < 2 || options.batch < 1 || options.batch % options.parts != 0) {
    return absl::InvalidArgumentError(absl::StrCat("micro-batches: cannot cut a batch of ",
                                                   options.batch, " into ", options.parts,
                                                   " equal parts"));
  }
  if (options.accumulate < 1 || options.parts % options.accumulate != 0) {
    return absl::InvalidArgumentError(absl::StrCat("micro-batches: ", options.parts,
                                                   " parts do not make ", options.accumulate,
                                                   " equal batches"));
  }
  const int64_t size = options.batch / options.parts;
  for (const Value& value : graph.values) {
    if (value.role != Role::kInput) continue;
    if (!value.type.shape.empty() && value.type.shape[0] == size) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batches: the input '", value.name, "' is ", ToString(value.type),
                     "; its first dimension must be the part's ", size, " samples"));
  }
  return absl::OkStatus();
}

// Random numbers: a stream of the model's has this many between the same of two parts.
absl::StatusOr<int64_t> StreamStride(const Graph& graph, int parts) {
  int64_t stride = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name == "Dropout") stride = std::max(stride, node.attrs.Int("stream", 0) + 1);
  }
  if (stride * parts <= int64_t{std::numeric_limits<uint32_t>::max()}) return stride;
  return absl::UnimplementedError(absl::StrCat("micro-batches: the model's random streams, up to ",
                                               stride - 1, ", leave no numbers for ", parts,
                                               " parts"));
}

class Builder {
 public:
  Builder(const Objective& part, const TrainingOptions& training, const MicroBatchOptions& options)
      : part_(part.graph),
        loss_(part.loss),
        training_(training),
        parts_(options.parts),
        batches_(options.accumulate),
        size_(options.batch / options.parts) {}

  absl::StatusOr<Graph> Run() {
    reduction_ = Reduction(part_, loss_);
    if (batches_ <
        parts_) {  // else every part is a batch of its own, and their losses are averaged
      EBB_ASSIGN_OR_RETURN(combination_, CombinationOf(reduction_));
    }
    EBB_ASSIGN_OR_RETURN(stream_stride_, StreamStride(part_, parts_));
    AddLeaves();
    EBB_ASSIGN_OR_RETURN(Updates updates, Updates::Create(&graph_, training_));
    if (combination_ == Combination::kCounted) EBB_RETURN_IF_ERROR(CountLabels());
    for (int p = 0; p < parts_; ++p) {
      EBB_ASSIGN_OR_RETURN(const ValueId share, AddForward(p));
      EBB_RETURN_IF_ERROR(AddBackward(p, share, updates));
    }
    EBB_RETURN_IF_ERROR(updates.Finish());
    return std::move(graph_);
  }

 private:
  size_t BatchOf(int p) const { return static_cast<size_t>(p / (parts_ / batches_)); }
  static std::string Named(int p, absl::string_view name) {
    return absl::StrCat("micro", p, "/", name);
  }

  void AddLeaves() {
    GraphCopy copy = CopyLeaves(part_, std::vector<bool>(part_.nodes.size(), true));
    graph_ = std::move(copy.graph);
    leaves_ = copy.map;
    for (Value& value : graph_.values) {
      if (value.role == Role::kInput) value.type.shape[0] *= parts_;
    }
    for (const Value& value : part_.values) {  // a part reads its own slice, made when needed
      if (value.role == Role::kInput) copy.map[value.id.index()] = ValueId();
    }
    maps_.assign(static_cast<size_t>(parts_), copy.map);
    copied_.assign(static_cast<size_t>(parts_), std::vector<bool>(part_.nodes.size()));
  }

  // Part p's operand for `value` of the part's graph.
  absl::StatusOr<ValueId> Operand(int p, ValueId value, Phase phase = Phase::kForward) {
    if (!value.valid()) return value;
    ValueId& mapped = maps_[static_cast<size_t>(p)][value.index()];
    if (mapped.valid()) return mapped;
    using Ints = std::vector<int64_t>;
    Attrs attrs = {{"axes", Ints{0}},
                   {"starts", Ints{p * size_}},
                   {"ends", Ints{(p + 1) * size_}},
                   {"steps", Ints{1}}};
    EBB_ASSIGN_OR_RETURN(mapped, graph_.Add("Slice", Named(p, part_.value(value).name),
                                            {leaves_[value.index()]}, std::move(attrs), phase));
    return mapped;
  }

  absl::Status Copy(int p, const Node& node) {
    copied_[static_cast<size_t>(p)][node.id.index()] = true;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      EBB_ASSIGN_OR_RETURN(const ValueId operand, Operand(p, input, node.phase));
      inputs.push_back(operand);
    }
    Attrs attrs = node.attrs;
    if (node.op->name == "Dropout") {
      attrs.Set("stream", attrs.Int("stream", 0) + p * stream_stride_);
    }
    if (&node == reduction_ && combination_ == Combination::kCounted) {
      attrs.Set("reduction", std::string("sum"));
    }
    EBB_ASSIGN_OR_RETURN(const NodeId id,
                         graph_.AddNode(node.op->name, Named(p, node.name), std::move(inputs),
                                        std::move(attrs), node.phase));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId made = graph_.node(id).outputs[i];
      graph_.Rename(made, Named(p, part_.value(node.outputs[i]).name));
      maps_[static_cast<size_t>(p)][node.outputs[i].index()] = made;
    }
    return absl::OkStatus();
  }

  // The labels of all parts, from data alone, and how many of each batch count.
  absl::Status CountLabels() {
    const std::vector<bool> needed = LiveNodes(part_, {reduction_->inputs[1]});
    for (const Node& node : part_.nodes) {
      if (!needed[node.id.index()]) continue;
      for (ValueId input : node.inputs) {
        if (!input.valid() || part_.value(input).role != Role::kParam) continue;
        return absl::UnimplementedError(
            absl::StrCat("node '", reduction_->name, "' (", reduction_->op->name,
                         "): micro-batches need labels that come from the batch, not from '",
                         part_.value(input).name, "'"));
      }
    }
    const DType dtype = part_.value(loss_).type.dtype;
    HostTensor least = dtype == DType::kF64 ? HostTensor::Of<double>(dtype, {}, {0.25})
                                            : HostTensor::Of<float>(dtype, {}, {0.25F});
    const ValueId threshold = graph_.AddConstant("labels/threshold", std::move(least));
    std::vector<std::vector<ValueId>> counts(static_cast<size_t>(batches_));
    for (int p = 0; p < parts_; ++p) {
      for (const Node& node : part_.nodes) {
        if (needed[node.id.index()]) EBB_RETURN_IF_ERROR(Copy(p, node));
      }
      EBB_ASSIGN_OR_RETURN(const ValueId labels, Operand(p, reduction_->inputs[1]));
      EBB_ASSIGN_OR_RETURN(const ValueId count, Count(p, labels, dtype, threshold));
      counts[BatchOf(p)].push_back(count);
    }
    for (std::vector<ValueId>& count : counts) {
      const std::string name =
          batches_ == 1 ? "labels/count" : absl::StrCat("labels/count", counts_.size());
      EBB_ASSIGN_OR_RETURN(const ValueId all, graph_.Add("AddN", name, std::move(count)));
      counts_.push_back(all);
    }
    return absl::OkStatus();
  }

  // Labels other than ignore_index and within [0, classes): numbers are whole, the threshold is
  // not.
  absl::StatusOr<ValueId> Count(int p, ValueId labels, DType dtype, ValueId threshold) {
    const auto classes = static_cast<double>(part_.value(reduction_->inputs[0]).type.shape[1]);
    const auto ignored = static_cast<double>(reduction_->attrs.Int("ignore_index", -100));
    const auto name = [p](absl::string_view what) {
      return Named(p, absl::StrCat("labels/", what));
    };
    EBB_ASSIGN_OR_RETURN(const ValueId number, graph_.Add("Cast", name("number"), {labels},
                                                          {{"to", std::string(Name(dtype))}}));
    const auto distance = [&](absl::string_view what, double from) -> absl::StatusOr<ValueId> {
      EBB_ASSIGN_OR_RETURN(const ValueId moved,
                           graph_.Add("Scale", name(what), {number}, {{"shift", -from}}));
      return graph_.Add("Abs", name(what), {moved});
    };
    EBB_ASSIGN_OR_RETURN(ValueId other, distance("from_ignored", ignored));
    EBB_ASSIGN_OR_RETURN(other, graph_.Add("GreaterEqual", name("other"), {other, threshold}));
    EBB_ASSIGN_OR_RETURN(ValueId inside, distance("from_middle", (classes - 1) / 2));
    EBB_ASSIGN_OR_RETURN(inside, graph_.Add("Scale", name("room"), {inside},
                                            {{"scale", -1.0}, {"shift", classes / 2}}));
    EBB_ASSIGN_OR_RETURN(inside, graph_.Add("GreaterEqual", name("inside"), {inside, threshold}));
    EBB_ASSIGN_OR_RETURN(const ValueId counted,
                         graph_.Add("Mul", name("counted"), {other, inside}));
    std::vector<int64_t> axes;
    for (size_t d = 0; d < graph_.value(counted).type.shape.size(); ++d) {
      axes.push_back(static_cast<int64_t>(d));
    }
    return graph_.Add("ReduceSum", name("count"), {counted},
                      {{"axes", axes}, {"keepdims", int64_t{0}}});
  }

  // What part p adds to the loss of the step: its weight in its batch, times the batch's in the
  // step.
  absl::StatusOr<ValueId> ShareOf(int p) {
    EBB_ASSIGN_OR_RETURN(ValueId share, Operand(p, loss_));
    const auto name = [&](absl::string_view what) { return Named(p, what); };
    if (combination_ == Combination::kCounted) {
      EBB_ASSIGN_OR_RETURN(share,
                           graph_.Add("Div", name(batches_ == 1 ? "loss.share" : "loss.part"),
                                      {share, counts_[BatchOf(p)]}, {}, Phase::kLoss));
    }
    const int among = combination_ == Combination::kMean ? parts_ : batches_;
    if (among == 1) return share;
    return graph_.Add("Scale", name("loss.share"), {share}, {{"scale", 1.0 / among}}, Phase::kLoss);
  }

  // Forward, loss and metrics of part p; returns what it adds to the loss of the step.
  absl::StatusOr<ValueId> AddForward(int p) {
    const ValueId metric = part_.Find("metric/loss");
    std::vector<ValueId> sums;  // of the part's graph
    for (const Node& node : part_.nodes) {
      const bool shows_loss = metric != loss_ && node.outputs[0] == metric;
      if (shows_loss || copied_[static_cast<size_t>(p)][node.id.index()]) continue;
      EBB_RETURN_IF_ERROR(Copy(p, node));
      for (ValueId output : node.outputs) {
        if (part_.value(output).role == Role::kMetric && output != metric) sums.push_back(output);
      }
    }
    EBB_ASSIGN_OR_RETURN(const ValueId share, ShareOf(p));
    EBB_RETURN_IF_ERROR(AddToMetric(p, "metric/loss", share));
    for (ValueId sum : sums) {
      EBB_ASSIGN_OR_RETURN(const ValueId mine, Operand(p, sum));
      EBB_RETURN_IF_ERROR(AddToMetric(p, part_.value(sum).name, mine));
    }
    return share;
  }

  absl::Status AddToMetric(int p, const std::string& name, ValueId share) {
    ValueId& sum = metrics_[name];
    if (!sum.valid()) {
      sum = share;
      return absl::OkStatus();
    }
    const bool last = p + 1 == parts_;
    EBB_ASSIGN_OR_RETURN(sum, graph_.Add("AddN", last ? name : Named(p, absl::StrCat(name, ".sum")),
                                         {sum, share}, {}, Phase::kLoss));
    if (last) graph_.value(sum).role = Role::kMetric;
    return absl::OkStatus();
  }

  absl::Status AddBackward(int p, ValueId share, Updates& updates) {
    const auto on_gradient = [&](ValueId param, ValueId gradient, NodeId mirror) -> absl::Status {
      ValueId& sum = sums_[param];
      if (!sum.valid()) {
        sum = gradient;
      } else {
        const std::string name = Named(p, absl::StrCat("sum/", graph_.value(param).name));
        EBB_ASSIGN_OR_RETURN(
            sum, graph_.Add("AddN", name, {sum, gradient}, {}, Phase::kBackward, mirror));
      }
      if (p + 1 < parts_) return absl::OkStatus();
      return updates.Add(param, sum, mirror);
    };
    return AppendBackward(graph_, share, updates.Trained(), on_gradient).status();
  }

  const Graph& part_;
  const ValueId loss_;
  const TrainingOptions& training_;
  const int parts_;     // of the step
  const int batches_;   // of the step
  const int64_t size_;  // samples of a part
  const Node* reduction_ = nullptr;
  Combination combination_ = Combination::kMean;
  int64_t stream_stride_ = 0;

  Graph graph_;
  std::vector<ValueId> counts_;                        // kCounted: of each batch
  std::vector<ValueId> leaves_;                        // by value of part_
  std::vector<std::vector<ValueId>> maps_;             // by part and value of part_
  std::vector<std::vector<bool>> copied_;              // by part and node of part_
  absl::flat_hash_map<std::string, ValueId> metrics_;  // their sums so far
  absl::flat_hash_map<ValueId, ValueId> sums_;         // of gradients, by parameter
};

}  // namespace

absl::StatusOr<Graph> BuildMicroBatchedGraph(const Graph& part, const TrainingOptions& training,
                                             const MicroBatchOptions& options) {
  EBB_ASSIGN_OR_RETURN(const Objective objective, AddObjective(part, training));
  EBB_RETURN_IF_ERROR(CheckBatch(objective.graph, options));
  if (options.accumulate < options.parts) EBB_RETURN_IF_ERROR(CheckNodes(objective.graph));
  return Builder(objective, training, options).Run();
}

}  // namespace ebb::graph
