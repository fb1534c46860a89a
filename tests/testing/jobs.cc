#include "tests/testing/jobs.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "device/check/race_check.h"
#include "device/device.h"
#include "graph/hash.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "model/zoo/zoo.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {
namespace {

std::shared_ptr<const data::DataSet> Draw(int rows, uint64_t seed, graph::Shape row) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> centres(10 * 64);
  for (float& c : centres) c = normal(random);
  std::vector<float> x;
  std::vector<int64_t> labels;
  for (int r = 0; r < rows; ++r) {
    const int label = r % 10;
    labels.push_back(label);
    for (int i = 0; i < 64; ++i) x.push_back(centres[label * 64 + i] + 0.7f * normal(random));
  }
  graph::Shape shape = {rows};
  shape.insert(shape.end(), row.begin(), row.end());
  std::map<std::string, graph::HostTensor> fields;
  fields["x"] = graph::HostTensor::Of(graph::DType::kF32, shape, x);
  fields["label"] = graph::HostTensor::Of(graph::DType::kI64, {rows}, labels);
  auto set = data::DataSet::Create(std::move(fields));
  EXPECT_TRUE(set.ok()) << set.status();
  return *set;
}

std::string MlpText(int64_t batch, int64_t width, int layers) {
  std::string text = absl::StrCat("x = input f32[", batch, ",64]\n");
  std::string body, input = "x";
  for (int l = 1; l <= layers; ++l) {
    const bool last = l == layers;
    const std::string out = last ? "10" : absl::StrCat(width);
    absl::StrAppend(&text, "w", l, " = param f32[", out, ",", l == 1 ? 64 : width, "]\nb", l,
                    " = param f32[", out, "]\n");
    const std::string result = last ? "logits" : absl::StrCat("h", l);
    absl::StrAppend(&body, result, " = Gemm(", input, ", w", l, ", b", l, ") {trans_b=1}\n");
    if (!last) absl::StrAppend(&body, "a", l, " = Relu(h", l, ")\n");
    input = absl::StrCat("a", l);
  }
  return absl::StrCat(text, body, "output logits\n");
}

std::string CnnText(int64_t batch, int64_t width) {
  const std::string c = absl::StrCat(width);
  return absl::StrCat("x = input f32[", batch, ",1,8,8]\nw1 = param f32[", c,
                      ",1,3,3]\ns1 = param f32[", c, "]\nt1 = param f32[", c, "]\nm1 = buffer f32[",
                      c, "]\nv1 = buffer f32[", c, "]\nw2 = param f32[", c, ",", c,
                      ",3,3]\ns2 = param f32[", c, "]\nt2 = param f32[", c, "]\nm2 = buffer f32[",
                      c, "]\nv2 = buffer f32[", c, "]\nfc = param f32[10,", width * 16,
                      "]\nfb = param f32[10]\n",
                      "c1 = Conv(x, w1) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], "
                      "groups=1}\nn1 = BatchNorm(c1, s1, t1, m1, v1)\nr1 = Relu(n1)\n"
                      "c2 = Conv(r1, w2) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], "
                      "groups=1}\nn2 = BatchNorm(c2, s2, t2, m2, v2)\nr2 = Relu(n2)\n"
                      "j = Add(r2, r1)\np = MaxPool(j) {kernel=[2,2], strides=[2,2], "
                      "pads=[0,0,0,0], dilations=[1,1]}\n",
                      "f = Reshape(p) {shape=[", batch, ",", width * 16, "]}\n",
                      "logits = Gemm(f, fc, fb) {trans_b=1}\noutput logits\n");
}

}  // namespace

std::shared_ptr<const data::DataSet> Clusters(int rows, uint64_t seed) {
  return Draw(rows, seed, {64});
}
std::shared_ptr<const data::DataSet> Images(int rows, uint64_t seed) {
  return Draw(rows, seed, {1, 8, 8});
}

runtime::JobSpec MakeJob(const JobOptions& options) {
  static const auto clusters = Clusters(500, 7);
  static const auto images = Images(500, 7);
  const bool mlp = options.net == Net::kMlp;
  auto graph = graph::ParseGraph(mlp ? MlpText(options.batch, options.width, options.layers)
                                     : CnnText(options.batch, options.width));
  EXPECT_TRUE(graph.ok()) << graph.status();
  runtime::JobSpec spec;
  spec.name = absl::StrCat(mlp ? "mlp" : "cnn", options.optim == Optim::kSgd ? "-sgd" : "-adam");
  spec.model.graph = std::make_shared<graph::Graph>(*std::move(graph));
  spec.model.reinit = {{"*", "default"}};
  if (!mlp) {  // the names say nothing of what they are to BatchNorm
    for (const char* n : {"1", "2"}) {
      spec.model.reinit.push_back({absl::StrCat("s", n), "ones"});
      spec.model.reinit.push_back({absl::StrCat("t", n), "zeros"});
    }
  }
  spec.train.data = mlp ? clusters : images;
  if (options.validate) {
    spec.val = spec.train;
    spec.val->tail = data::BatchSource::Tail::kPad;
  }
  spec.batch_size = options.batch;
  spec.metrics = {{graph::MetricKind::kLoss}, {graph::MetricKind::kAccuracy}};
  if (options.optim == Optim::kSgd) {
    spec.optimizer = {.kind = graph::OptimizerKind::kSgd, .weight_decay = 1e-4, .momentum = 0.9};
    spec.schedule.base_lr = 0.05;
  } else {
    spec.optimizer = {.kind = graph::OptimizerKind::kAdam};
    spec.schedule.base_lr = 3e-3;
  }
  if (options.lr > 0) spec.schedule.base_lr = options.lr;
  spec.stop.steps = options.steps;
  spec.seed_init = options.seed;
  spec.seed_data = options.seed + 1;
  spec.seed_dropout = options.seed + 2;
  if (!options.ladder) spec.ladder = AllResident();
  if (options.also) options.also(&spec);
  return spec;
}

std::vector<JobOptions> FourKinds(JobOptions common, int64_t mlp_width, int64_t cnn_width) {
  std::vector<JobOptions> kinds;
  for (const Net net : {Net::kMlp, Net::kCnn}) {
    for (const Optim optim : {Optim::kSgd, Optim::kAdam}) {
      common.net = net;
      common.optim = optim;
      common.width = net == Net::kMlp ? mlp_width : cnn_width;
      kinds.push_back(common);
    }
  }
  return kinds;
}

runtime::JobSpec ZooJob(const std::string& model, int64_t batch, int64_t steps) {
  runtime::JobSpec spec;
  spec.name = spec.model.zoo = model;
  spec.batch_size = batch;
  spec.stop.steps = steps;
  const auto zoo = model::BuildZooModel(model, 1);
  EXPECT_TRUE(zoo.ok()) << zoo.status();
  if (zoo.ok()) {
    spec.loss = zoo->loss;
    spec.optimizer = zoo->optimizer;
  }
  return spec;
}

std::unique_ptr<runtime::Engine> MakeSimEngine(Bytes memory) {
  auto engine =
      runtime::Engine::Create(*device::OpenDevice("sim:v100-16gb", {}), {.memory = memory});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

std::unique_ptr<runtime::Engine> MakeEngine(runtime::EngineOptions options) {
  auto device = device::OpenDevice(TestDevice("cpu"), {});
  EXPECT_TRUE(device.ok()) << device.status();
  auto engine = runtime::Engine::Create(*std::move(device), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

std::unique_ptr<runtime::Engine> MakeCheckedEngine(runtime::EngineOptions options) {
  auto device = device::OpenDevice(TestDevice("cpu"), {});
  EXPECT_TRUE(device.ok()) << device.status();
  const bool host_memory = (*device)->spec().host_memory;
  auto checked = device::CheckRaces(
      *std::move(device), {.on_fault = [](const std::string& fault) { ADD_FAILURE() << fault; },
                           .released = host_memory ? device::RaceCheckOptions::Released::kPoison
                                                   : device::RaceCheckOptions::Released::kKeep});
  auto engine = runtime::Engine::Create(std::move(checked), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

runtime::JobInfo WaitForStep(const runtime::Engine& engine, JobId job, int64_t step) {
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  uint64_t seen = 0;
  for (;;) {
    auto info = engine.WaitForChange(job, seen, deadline);
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return {};
    if (runtime::IsFinal(info->state) || info->step >= step) return *info;
    if (absl::Now() >= deadline) {
      ADD_FAILURE() << "job " << job << " is stuck at step " << info->step << ": " << info->why;
      return *info;
    }
    seen = info->version;
  }
}

runtime::JobInfo WaitUntilFinal(const runtime::Engine& engine, JobId job) {
  const runtime::JobInfo info = WaitForStep(engine, job, INT64_MAX);
  EXPECT_TRUE(runtime::IsFinal(info.state));
  return info;
}

std::string Fingerprint(const runtime::Engine& engine, JobId job) {
  auto result = engine.Result(job);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return "";
  Sha256 hash;
  graph::AddTensors((*result)->weights, &hash);
  graph::AddTensors((*result)->slots, &hash);
  auto points = engine.Metrics(job, 0);
  EXPECT_TRUE(points.ok()) << points.status();
  for (const runtime::MetricPoint& point : *points) {
    hash.Update(point.name);
    hash.Update({reinterpret_cast<const char*>(&point.value), sizeof(point.value)});
  }
  return hash.HexDigest();
}

std::string SoloFingerprint(const JobOptions& options) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto job = engine->Submit(MakeJob(options));
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, runtime::JobState::kSucceeded);
  return Fingerprint(*engine, *job);
}

}  // namespace ebb::testing
