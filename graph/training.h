// From a forward graph to what a job runs: a training graph (forward, loss, backward, update) and
// an evaluation graph. Free functions over plain structs; errors name the node or value at fault.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::graph {

// kNll reads log-probabilities. As torch.nn.functional's losses of these names, with their means.
enum class LossKind {
  kCrossEntropy,
  kNll,
  kMse,
  kL1,
  kSmoothL1,
  kHuber,
  kBceWithLogits,
  kGraphOutput
};

struct LossSpec {
  LossKind kind = LossKind::kCrossEntropy;
  std::string output;  // the graph output it reads; "" = the only one. kGraphOutput: the scalar
  // Name and type of the batch field compared with the output; the field is added to the graph as
  // a kInput value when it is not there yet. Unused by kGraphOutput.
  std::string target = "label";
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  std::vector<double> class_weights;  // kCrossEntropy, kNll: one a class; empty = all 1
  // kBceWithLogits: of positive targets, one for all or one for each element of the last dimension.
  std::vector<double> pos_weight;
  double beta = 1;  // kSmoothL1: where it becomes linear; kHuber: its delta
};

// kMacroF1: over the classes that occur in labels or predictions. kPerplexity: e to the mean cross
// entropy of labels that count, without smoothing and weights, or to a graph's own loss. kLogLoss:
// that mean itself. kAuc: of two classes, over all scores of an evaluation; it has no value while
// training. kOutput: the mean of an output of the model.
enum class MetricKind {
  kLoss,
  kAccuracy,
  kTopK,
  kMse,
  kMacroF1,
  kPerplexity,
  kAuc,
  kLogLoss,
  kOutput
};
struct MetricSpec {
  MetricKind kind = MetricKind::kLoss;
  int64_t k = 1;            // kTopK
  std::string output = {};  // kOutput: its name
};
// "loss", "accuracy", "top5", "mse", "macro_f1", "perplexity", "auc", "logloss", "output:NAME".
std::string Name(const MetricSpec& metric);

enum class OptimizerKind { kSgd, kAdam, kAdamW, kAdagrad, kRmsProp, kRowwiseAdagrad };
struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr_scale = 1;      // times the schedule's rate
  double weight_decay = 0;  // kAdamW: decoupled; the others: L2 added to the gradient
  double momentum = 0;      // kSgd, kRmsProp
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double lr_decay = 0;    // kAdagrad
  double alpha = 0.99;    // kRmsProp
  bool centered = false;  // kRmsProp
  // kRowwiseAdagrad, which keeps the sum of the mean squares of each row's gradient, as FBGEMM:
  // rows without a gradient stay as they are.
  bool sparse = false;
  bool frozen = false;  // no gradient, no slots, no update
};

// First match wins: `pattern` is a glob (* and ?) over parameter names.
struct ParamGroup {
  std::string pattern;
  OptimizerSpec optimizer;
};

// What is done to the gradients of the whole batch before they update anything, as PyTorch's
// clip_grad_norm_ (one norm of all gradients, above which they are scaled down to it) and
// clip_grad_value_ (every element on its own). One of the two.
struct ClipSpec {
  std::optional<double> norm;
  std::optional<double> value;
};

struct TrainingOptions {
  LossSpec loss;
  std::vector<MetricSpec> metrics;
  OptimizerSpec optimizer;  // of parameters that no group matches
  std::vector<ParamGroup> groups;
  ClipSpec clip;
  // A moving average of every trained parameter w, the slot "w/ema": after each step decay times
  // itself plus 1 - decay times w; after the first step w.
  std::optional<double> ema_decay;
};

// Adds to a copy of `forward`: target inputs, the loss, metrics (kMetric values "metric/loss" and
// those of graph/metrics.h), reverse-mode gradients, and for each parameter
// its update right after its final gradient. A parameter used more than once gets the sum of its
// gradients, added in node order. "ebb.hyper" (f64[4]: learning rate, step from 1, reserved) and,
// if the graph draws random numbers, "ebb.rng" (i64[2]: seed, step) are kScalar values.
// Dead forward nodes are dropped first. Execution order: forward, loss, metrics, then per forward
// node in reverse its backward nodes and the updates that became possible; clipping by norm needs
// all gradients, so that all updates come last, in the same order.
absl::StatusOr<Graph> BuildTrainingGraph(const Graph& forward, const TrainingOptions& options);

// Parameters that no update of a training graph writes: frozen, or the loss does not depend on
// them.
std::vector<std::string> ParamsWithoutGradient(const Graph& training);

// Forward with evaluation semantics (BatchNorm by running statistics, no dropout) and metrics as
// sums over the first `ebb.valid` (kInput i64[1]) rows of the batch: "metric/loss.sum",
// "metric/loss.count", ... A loss or a metric that the graph reduces over its batch itself has no
// valid rows, and then the graph has no `ebb.valid`. Parameters and buffers keep their names, so
// that it shares them.
absl::StatusOr<Graph> BuildEvalGraph(const Graph& forward, const TrainingOptions& options);

// Forward with evaluation semantics, for what the model makes of its inputs: each of `outputs` (all
// of the model's, if empty) is copied to a kMetric value "metric/<name>" of the same type, and
// inputs that none of them reads are not there. InvalidArgument: no such output, or one without a
// row for each of the batch's.
absl::StatusOr<Graph> BuildPredictionGraph(const Graph& forward,
                                           const std::vector<std::string>& outputs);

// Makes an evaluation graph read the moving averages that `training` keeps instead of the
// parameters they are of. No-op if it keeps none.
void ReadAverages(const Graph& training, Graph* eval);
// The slot of `param` that is its moving average.
std::string AverageOf(const std::string& param);

// Without loss: gradients only, for tests. Adds a kMetric-free backward pass from the scalar value
// `loss`; returns the gradient of each value of `wrt` in order (invalid when it is independent).
// The values of `forward` keep their ids; the gradients become the graph's outputs.
struct Gradients {
  Graph graph;
  std::vector<ValueId> grads;
};
absl::StatusOr<Gradients> Differentiate(Graph forward, ValueId loss,
                                        const std::vector<ValueId>& wrt);

}  // namespace ebb::graph
