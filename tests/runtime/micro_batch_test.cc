// Jobs that train in micro-batches: when they do, that they train the same, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "device/sim/sim_device.h"
#include "model/zoo/zoo.h"
#include "runtime/engine.h"
#include "runtime/estimate.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::Engine;
using runtime::JobInfo;
using runtime::JobState;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kBatch = 1024;
constexpr int kWidth = 64;
constexpr Bytes kSmall = KiB(1536);

std::shared_ptr<const std::string> Mlp() {
  OnnxBuilder b;
  b.Input("x", {kDynamic, 64});
  std::string input = "x";
  for (int l = 1; l <= 5; ++l) {
    const std::string w = absl::StrCat("w", l), h = absl::StrCat("h", l), r = absl::StrCat("r", l);
    b.Ramp(w, {kWidth, 64});
    b.Node("Gemm", {input, w}, {h}).With("transB", 1).Node("Relu", {h}, {r});
    input = r;
  }
  b.Ramp("w", {10, kWidth});
  b.Node("Gemm", {input, "w"}, {"logits"}).With("transB", 1).Output("logits");
  return std::make_shared<std::string>(b.Bytes());
}

// Its step needs more than kSmall for the whole batch at once.
runtime::JobSpec BigBatch(int64_t steps = 20) {
  static const auto clusters = Clusters(4 * kBatch, 7);
  runtime::JobSpec spec = MakeJob({.steps = steps, .seed = 3, .lr = 0.2});
  spec.model.graph = nullptr;
  spec.model.onnx = Mlp();
  spec.batch_size = kBatch;
  spec.train.data = clusters;
  return spec;
}

struct Trained {
  JobInfo info;
  std::string bits;
  std::shared_ptr<const runtime::JobResult> result;
};

Trained Train(Engine& engine, const runtime::JobSpec& spec) {
  const auto job = engine.Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return {};
  Trained run{.info = WaitUntilFinal(engine, *job)};
  EXPECT_EQ(run.info.state, JobState::kSucceeded) << run.info.message;
  run.bits = Fingerprint(engine, *job);
  run.result = *engine.Result(*job);
  return run;
}

// The parts that a job says that it trains in.
std::string Parts(const JobInfo& info) {
  return info.warnings.empty() ? "" : info.warnings[0].substr(0, info.warnings[0].find(':'));
}

void ExpectNear(const Trained& got, const Trained& want) {
  ASSERT_TRUE(got.result != nullptr && want.result != nullptr);
  ASSERT_EQ(got.result->weights.size(), want.result->weights.size());
  for (const auto& [name, tensor] : want.result->weights) {
    const auto expected = tensor.as<float>();
    const auto values = got.result->weights.at(name).as<float>();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], 1e-4 + 1e-3 * std::abs(expected[i])) << name << " " << i;
    }
  }
  EXPECT_NEAR(got.info.last.at("train/loss"), want.info.last.at("train/loss"), 1e-4);
}

TEST(MicroBatches, AStepTooLargeForThePoolIsMadeInPartsAndTrainsTheSame) {
  const auto large = MakeEngine({.memory = MiB(64)});
  const auto small = MakeCheckedEngine({.memory = kSmall});
  const Trained whole = Train(*large, BigBatch());
  const Trained parts = Train(*small, BigBatch());
  EXPECT_THAT(whole.info.warnings, IsEmpty());
  EXPECT_EQ(Parts(parts.info), "trains in 8 micro-batches of 128");
  EXPECT_EQ(parts.info.step, 20);
  EXPECT_LT(whole.info.last.at("train/loss"), 2.29) << "it learns";
  ExpectNear(parts, whole);

  // The bits depend on the number of parts only, whoever chose it and however large the pool is.
  runtime::JobSpec spec = BigBatch();
  spec.ladder.micro_batches = 8;
  EXPECT_EQ(Train(*large, spec).bits, parts.bits);
  EXPECT_NE(whole.bits, parts.bits);
}

TEST(MicroBatches, AreTheSameBitsAndNumberBesideOthers) {
  const auto alone = MakeEngine({.memory = kSmall});
  const Trained want = Train(*alone, BigBatch());
  for (const Bytes memory : {kSmall, MiB(16)}) {
    const auto engine = MakeCheckedEngine({.memory = memory});
    const auto other = engine->Submit(MakeJob({.batch = 16, .width = 16, .steps = 500}));
    ASSERT_TRUE(other.ok()) << other.status();
    WaitForStep(*engine, *other, 1);
    runtime::JobSpec spec = BigBatch();
    if (memory > kSmall) spec.ladder.micro_batches = 8;  // its step would fit whole
    const Trained got = Train(*engine, spec);
    EXPECT_EQ(got.bits, want.bits);
    EXPECT_EQ(Parts(got.info), Parts(want.info));
  }
}

TEST(MicroBatches, EvaluationIsThatOfTheWholeBatch) {
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  runtime::JobSpec spec = BigBatch();
  spec.val = spec.train;
  spec.val->tail = data::BatchSource::Tail::kPad;
  const Trained whole = Train(*engine, spec);
  spec.ladder.micro_batches = 8;
  const Trained parts = Train(*engine, spec);
  EXPECT_EQ(Parts(parts.info), "trains in 8 micro-batches of 128");
  EXPECT_NEAR(parts.info.last.at("val/loss"), whole.info.last.at("val/loss"), 1e-4);
  EXPECT_EQ(parts.info.last.size(), whole.info.last.size());
}

TEST(MicroBatches, EvaluationThatDoesNotFitWholeIsARefusalThatSaysSo) {
  const auto engine = MakeEngine({.memory = KiB(1376)});
  runtime::JobSpec spec = BigBatch();
  const auto without = engine->Submit(spec);
  EXPECT_TRUE(without.ok()) << without.status();
  spec.val = spec.train;
  spec.val->tail = data::BatchSource::Tail::kPad;
  const std::string why = ", since evaluation takes the whole batch at once";
  const auto refusal = [&](int parts) {
    spec.ladder.micro_batches = parts;
    const absl::Status status = engine->Submit(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << parts;
    EXPECT_EQ(engine->Estimate(spec)->text, status.message());
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(0), ContainsRegex("; nor in [0-9]+ micro-batches: needs 1.[0-9] MiB" + why +
                                        "; largest batch_size that fits without micro-batches: "));
  EXPECT_THAT(refusal(32), HasSubstr(" for a step of batch_size 1024" + why));
  EXPECT_THAT(refusal(1), Not(HasSubstr(why)));
}

TEST(MicroBatches, AreSaidInTheNumericsKey) {
  const auto engine = MakeSimEngine(GiB(8));
  runtime::JobSpec spec = ZooJob("bert_base_128", 8, int64_t{1} << 40);
  spec.ladder.micro_batches = 2;
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(engine->Explain(*job)->numerics_key, HasSubstr(" batch=8 micro_batches=2"));
}

TEST(MicroBatches, LabelsAreChecked) {
  const auto engine = MakeEngine({.memory = kSmall});
  std::map<std::string, graph::HostTensor> fields = {
      {"x", graph::HostTensor::Zeros({graph::DType::kF32, {kBatch, 64}})},
      {"label", graph::HostTensor::Zeros({graph::DType::kI64, {kBatch}})}};
  fields["label"].as<int64_t>()[700] = 10;  // in the third part
  runtime::JobSpec spec = BigBatch();
  spec.train.data = *data::DataSet::Create(fields);
  for (const int parts : {0, 4}) {
    spec.ladder.micro_batches = parts;
    const absl::Status status = engine->Submit(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not a class of the model"));
  }
  spec.ladder.micro_batches = 1;  // labels are looked at before bytes
  EXPECT_EQ(engine->Submit(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MicroBatches, NumbersThatCannotBeAreRefused) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto refusal = [&](const runtime::JobSpec& base, int parts) {
    runtime::JobSpec spec = base;
    spec.ladder.micro_batches = parts;
    const absl::Status status = engine->Submit(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << parts;
    EXPECT_EQ(engine->Estimate(spec).status(), status);
    return std::string(status.message());
  };
  const std::string field = "resources.ladder.micro_batches is ";
  EXPECT_THAT(refusal(BigBatch(), -1), HasSubstr(field + "-1; give the number of equal parts"));
  EXPECT_THAT(refusal(BigBatch(), 3),
              HasSubstr(field + "3, which does not divide batch_size 1024"));
  EXPECT_THAT(refusal(BigBatch(), 2048), HasSubstr("2048, which does not divide"));
  EXPECT_THAT(refusal(MakeJob({}), 2), HasSubstr("a serialised graph has its batch bound"));
}

TEST(MicroBatches, OneMeansTheWholeBatchOrARefusal) {
  const auto engine = MakeEngine({.memory = kSmall});
  runtime::JobSpec spec = BigBatch();
  spec.ladder.micro_batches = 1;
  const absl::Status status = engine->Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("micro-batches")));
  spec.ladder.micro_batches = 0;
  spec.batch_size = kBatch - 1;
  EXPECT_THAT(std::string(engine->Submit(spec).status().message()),
              HasSubstr("; micro-batches need an even batch_size; largest batch_size that fits: "));
}

TEST(MicroBatches, StatisticsOfTheBatchForbidThem) {
  const auto engine = MakeSimEngine(GiB(2));
  runtime::JobSpec spec = ZooJob("resnet50", 400, 1);
  const absl::Status never = engine->Submit(spec).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(never.message()), HasSubstr("; not in 2 micro-batches: node '"));
  EXPECT_THAT(std::string(never.message()), HasSubstr("(BatchNorm): its statistics"));
  EXPECT_THAT(std::string(never.message()), HasSubstr("; largest batch_size that fits: "));
  spec.ladder.micro_batches = 4;
  const absl::Status asked = engine->Submit(spec).status();
  EXPECT_EQ(asked.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(asked.message()), HasSubstr("resources.ladder.micro_batches: node '"));
}

TEST(MicroBatches, TransformersRunAtBatchesFarAboveTheLargest) {
  const auto engine = MakeSimEngine(GiB(15));
  runtime::JobSpec spec = ZooJob("gpt2", 64, 3);
  const auto estimate = engine->Estimate(spec);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->verdict.kind, runtime::Verdict::Kind::kFitsNow) << estimate->text;
  EXPECT_THAT(estimate->text, HasSubstr("; in 4 micro-batches"));
  ASSERT_TRUE(estimate->largest_alone.has_value());
  EXPECT_LE(*estimate->largest_alone * 3, 64);
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const JobInfo info = WaitUntilFinal(*engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
  EXPECT_EQ(info.step, 3);
  EXPECT_EQ(Parts(info), "trains in 4 micro-batches of 16");
}

TEST(MicroBatches, AnAutomaticBatchIsWhole) {
  const auto engine = MakeSimEngine(GiB(6));
  runtime::JobSpec spec = ZooJob("vgg16", 0, 1);
  spec.batch_auto = true;
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(engine->Get(*job)->warnings, IsEmpty());
  spec.ladder.micro_batches = 2;
  const absl::Status status = engine->Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch_size: auto: finds the largest"));
}

}  // namespace
}  // namespace ebb::testing
