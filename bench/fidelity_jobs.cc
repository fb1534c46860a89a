#include "bench/fidelity_jobs.h"

#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "base/status.h"
#include "graph/text.h"

namespace ebb::bench {
namespace {

using graph::OptimizerKind;

constexpr int64_t kClasses = 10;
constexpr int64_t kFeatures = 256;
constexpr int64_t kPixels = 32;
constexpr int64_t kTokens = 64;

struct Shape {
  const char* name;
  enum class Net { kMlp, kCnn, kEncoder } net;
  int64_t batch, width, depth;
  OptimizerKind optimizer;
};
constexpr Shape kJobs[] = {
    {"mlp-512", Shape::Net::kMlp, 192, 512, 5, OptimizerKind::kSgd},
    {"mlp-1024", Shape::Net::kMlp, 96, 1024, 4, OptimizerKind::kSgd},
    {"mlp-adam", Shape::Net::kMlp, 256, 384, 6, OptimizerKind::kAdam},
    {"cnn-16", Shape::Net::kCnn, 16, 16, 3, OptimizerKind::kSgd},
    {"cnn-32", Shape::Net::kCnn, 8, 32, 4, OptimizerKind::kSgd},
    {"cnn-adam", Shape::Net::kCnn, 24, 24, 2, OptimizerKind::kAdam},
    {"encoder-128", Shape::Net::kEncoder, 16, 128, 2, OptimizerKind::kAdam},
    {"encoder-192", Shape::Net::kEncoder, 8, 192, 2, OptimizerKind::kSgd},
};

// Statements of a graph: what has no producer goes before what computes.
struct Text {
  std::string head, body;
  std::string Param(const std::string& name, const std::vector<int64_t>& shape) {
    absl::StrAppend(&head, name, " = param f32[", absl::StrJoin(shape, ","), "]\n");
    return name;
  }
};

std::string Classifier(Text text, const std::string& rows, int64_t width) {
  text.Param("head.w", {kClasses, width});
  text.Param("head.b", {kClasses});
  return absl::StrCat(text.head, text.body, "logits = Gemm(", rows,
                      ", head.w, head.b) {trans_b=1}\noutput logits\n");
}

std::string Mlp(const Shape& job) {
  Text text{.head = absl::StrCat("x = input f32[", job.batch, ",", kFeatures, "]\n"), .body = ""};
  std::string x = "x";
  for (int64_t l = 0; l < job.depth; ++l) {
    const std::string n = absl::StrCat(l);
    text.Param("w" + n, {job.width, l == 0 ? kFeatures : job.width});
    text.Param("b" + n, {job.width});
    absl::SubstituteAndAppend(&text.body, "h$0 = Gemm($1, w$0, b$0) {trans_b=1}; a$0 = Relu(h$0)\n",
                              n, x);
    x = "a" + n;
  }
  return Classifier(std::move(text), x, job.width);
}

std::string Cnn(const Shape& job) {
  Text text{.head = absl::StrCat("x = input f32[", job.batch, ",3,", kPixels, ",", kPixels, "]\n"),
            .body = ""};
  std::string x = "x";
  for (int64_t l = 0; l < job.depth; ++l) {
    const std::string n = absl::StrCat(l);
    text.Param("w" + n, {job.width, l == 0 ? 3 : job.width, 3, 3});
    text.Param("s" + n, {job.width});
    text.Param("t" + n, {job.width});
    for (const char* statistic : {"m", "v"}) {
      absl::StrAppend(&text.head, statistic, n, " = buffer f32[", job.width, "]\n");
    }
    absl::SubstituteAndAppend(
        &text.body,
        "c$0 = Conv($1, w$0) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}\n"
        "n$0 = BatchNorm(c$0, s$0, t$0, m$0, v$0); a$0 = Relu(n$0)\n",
        n, x);
    x = "a" + n;
  }
  const int64_t features = job.width * (kPixels / 2) * (kPixels / 2);
  absl::SubstituteAndAppend(
      &text.body,
      "p = MaxPool($0) {kernel=[2,2], strides=[2,2], pads=[0,0,0,0], dilations=[1,1]}\n"
      "f = Reshape(p) {shape=[$1,$2]}\n",
      x, job.batch, features);
  return Classifier(std::move(text), "f", features);
}

// Attention of one head, and two layers with Gelu between them; normalisation after each sum.
std::string Encoder(const Shape& job) {
  const int64_t d = job.width;
  Text text{.head = absl::StrCat("x = input f32[", job.batch, ",", kTokens, ",", d, "]\n"),
            .body = ""};
  std::string x = "x";
  for (int64_t l = 0; l < job.depth; ++l) {
    const std::string n = absl::StrCat(l);
    for (const char* w : {"wq", "wk", "wv", "wo"}) text.Param(w + n, {d, d});
    text.Param("wu" + n, {d, 4 * d});
    text.Param("wd" + n, {4 * d, d});
    for (const char* norm : {"s1_", "t1_", "s2_", "t2_"}) text.Param(norm + n, {d});
    absl::SubstituteAndAppend(
        &text.body,
        "q$0 = MatMul($1, wq$0); k$0 = MatMul($1, wk$0); v$0 = MatMul($1, wv$0)\n"
        "r$0 = MatMul(q$0, k$0) {trans_b=1}; z$0 = Scale(r$0) {scale=$2}\n"
        "p$0 = Softmax(z$0) {axis=2}; c$0 = MatMul(p$0, v$0); o$0 = MatMul(c$0, wo$0)\n"
        "e$0 = Add(o$0, $1); n$0 = LayerNorm(e$0, s1_$0, t1_$0) {axis=2}\n"
        "u$0 = MatMul(n$0, wu$0); g$0 = Gelu(u$0); d$0 = MatMul(g$0, wd$0)\n"
        "y$0 = Add(d$0, n$0); a$0 = LayerNorm(y$0, s2_$0, t2_$0) {axis=2}\n",
        n, x, 1 / std::sqrt(static_cast<double>(d)));
    x = "a" + n;
  }
  absl::SubstituteAndAppend(&text.body, "f = Reshape($0) {shape=[$1,$2]}\n", x, job.batch,
                            kTokens * d);
  return Classifier(std::move(text), "f", kTokens * d);
}

std::string TextOf(const Shape& job) {
  if (job.net == Shape::Net::kMlp) return Mlp(job);
  return job.net == Shape::Net::kCnn ? Cnn(job) : Encoder(job);
}

graph::Shape RowOf(const Shape& job) {
  if (job.net == Shape::Net::kMlp) return {kFeatures};
  if (job.net == Shape::Net::kCnn) return {3, kPixels, kPixels};
  return {kTokens, job.width};
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> Draw(const Shape& job) {
  constexpr int64_t kBatches = 3;
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  const graph::Shape row = RowOf(job);
  const int64_t rows = job.batch * kBatches;
  std::vector<float> x(static_cast<size_t>(rows * graph::NumElements(row)));
  for (float& value : x) value = normal(random);
  std::vector<int64_t> labels;
  for (int64_t r = 0; r < rows; ++r) labels.push_back(r % kClasses);
  graph::Shape shape = {rows};
  shape.insert(shape.end(), row.begin(), row.end());
  std::map<std::string, graph::HostTensor> fields;
  fields["x"] = graph::HostTensor::Of(graph::DType::kF32, shape, x);
  fields["label"] = graph::HostTensor::Of(graph::DType::kI64, {rows}, labels);
  return data::DataSet::Create(std::move(fields));
}

}  // namespace

std::vector<std::string> FidelityJobs() {
  std::vector<std::string> names;
  for (const Shape& job : kJobs) names.emplace_back(job.name);
  return names;
}

absl::StatusOr<runtime::JobSpec> FidelityJob(const std::string& name, int64_t steps) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits('@', 1));
  for (Shape job : kJobs) {
    if (parts.first != job.name) continue;
    if (parts.first != name &&
        (!absl::SimpleAtoi(parts.second, &job.batch) || job.batch < 1 || job.batch > 4096)) {
      return absl::InvalidArgumentError(
          absl::StrCat("job '", name, "': a batch is a number from 1 to 4096"));
    }
    EBB_ASSIGN_OR_RETURN(graph::Graph graph, graph::ParseGraph(TextOf(job)));
    runtime::JobSpec spec;
    spec.name = name;
    spec.model.graph = std::make_shared<graph::Graph>(std::move(graph));
    spec.model.reinit = {{"*", "default"}};
    if (job.net != Shape::Net::kMlp) {  // the names say nothing of what they are to a norm
      spec.model.reinit.push_back({"s*", "ones"});
      spec.model.reinit.push_back({"t*", "zeros"});
    }
    EBB_ASSIGN_OR_RETURN(spec.train.data, Draw(job));
    spec.batch_size = job.batch;
    spec.metrics = {{graph::MetricKind::kLoss}};
    spec.optimizer = {.kind = job.optimizer};
    if (job.optimizer == OptimizerKind::kSgd) spec.optimizer.momentum = 0.9;
    spec.schedule.base_lr = 1e-4;
    spec.stop.steps = steps;
    spec.seed_init = spec.seed_data = spec.seed_dropout = 1;
    spec.ladder = {.offload = false, .stream = false, .swap = false};
    return spec;
  }
  return absl::NotFoundError(absl::StrCat("there is no job '", name, "'; there are ",
                                          absl::StrJoin(FidelityJobs(), ", ")));
}

}  // namespace ebb::bench
