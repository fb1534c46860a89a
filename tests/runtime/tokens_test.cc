// Jobs whose inputs are slices of windows of tokens.
#include "data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "device/device.h"
#include "graph/text.h"
#include "runtime/prepare.h"
#include "tests/testing/jobs.h"

namespace ebb::runtime {
namespace {

using ::testing::HasSubstr;

// Windows of 5 tokens: 0 to 12, over and over.
std::shared_ptr<const data::DataSet> Cycle(int windows) {
  std::string bytes;
  for (int i = 0; i < 5 * windows; ++i) bytes += {static_cast<char>(i % 13), '\0'};
  auto set = data::ParseTokens(bytes, {.type = data::TokenType::kU16, .window = 5});
  EXPECT_TRUE(set.ok()) << set.status();
  return *set;
}

// Predicts each token from the one before; `between` makes the indices "i" of the input "idx".
JobSpec Bigram(absl::string_view between = "i = Identity(idx)\n") {
  auto graph = graph::ParseGraph(absl::StrCat(
      "idx = input i64[8,4]\ntable = param f32[13,6]\nw = param f32[13,6]\nb = param f32[13]\n",
      between, "e = Gather(table, i) {axis=0}\nr = Reshape(e) {shape=[32,6]}\n",
      "g = Gemm(r, w, b) {trans_b=1}\nt = Reshape(g) {shape=[8,4,13]}\n",
      "logits = Transpose(t) {perm=[0,2,1]}\noutput logits\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  JobSpec spec;
  spec.name = "bigram";
  spec.model.graph = std::make_shared<graph::Graph>(*std::move(graph));
  spec.model.reinit = {{"*", "default"}};
  spec.train.data = Cycle(64);
  spec.val = DataSource{.data = Cycle(20), .tail = data::BatchSource::Tail::kPad};
  spec.bind = {{"idx", "tokens[:-1]"}, {"label", "tokens[1:]"}};
  spec.batch_size = 8;
  spec.metrics = {{graph::MetricKind::kAccuracy}};
  spec.optimizer = {.kind = graph::OptimizerKind::kAdam};
  spec.schedule.base_lr = 0.05;
  spec.stop.steps = 60;
  return spec;
}

class TokenJobs : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<PreparedJob>> Prepared(JobSpec spec) {
    return Prepare(std::move(spec), *device_, {.quantum = MiB(1), .memory = MiB(64)});
  }

  std::unique_ptr<device::Device> device_ = *device::OpenDevice("cpu", {});
};

TEST_F(TokenJobs, TrainToTheSameBitsAloneAndAmongOthers) {
  const auto alone = testing::MakeEngine({.memory = MiB(64)});
  const auto solo = alone->Submit(Bigram());
  ASSERT_TRUE(solo.ok()) << solo.status();
  const JobInfo done = testing::WaitUntilFinal(*alone, *solo);
  ASSERT_EQ(done.state, JobState::kSucceeded) << done.message;
  EXPECT_EQ(done.last.at("val/accuracy"), 1) << "each token has one successor";

  const auto engine = testing::MakeCheckedEngine({.memory = MiB(64)});
  const auto other = engine->Submit(testing::MakeJob({.batch = 16, .width = 16, .steps = 200}));
  ASSERT_TRUE(other.ok()) << other.status();
  testing::WaitForStep(*engine, *other, 1);
  const auto job = engine->Submit(Bigram());
  ASSERT_TRUE(job.ok()) << job.status();
  testing::WaitUntilFinal(*engine, *job);
  EXPECT_EQ(testing::Fingerprint(*engine, *job), testing::Fingerprint(*alone, *solo));
}

TEST_F(TokenJobs, TokensOutsideOfTheEmbeddingAreRefusedThroughViewsAndCasts) {
  for (const char* between : {"i = Identity(idx)\n",
                              "c = Cast(idx) {to=\"i32\"}\nd = Reshape(c) {shape=[32]}\n"
                              "i = Reshape(d) {shape=[8,4]}\n"}) {
    JobSpec spec = Bigram(between);
    ASSERT_TRUE(Prepared(spec).ok()) << Prepared(spec).status();
    std::string bytes(2 * 64 * 5, '\0');
    bytes[2 * 11] = 13;
    spec.train.data = *data::ParseTokens(bytes, {.type = data::TokenType::kU16, .window = 5});
    EXPECT_THAT(Prepared(spec).status().ToString(),
                HasSubstr("data.train: token 11 of the file: 13 is outside of the table"))
        << between;
  }
}

// A model that reads whole windows and cuts them itself.
TEST_F(TokenJobs, TokensAreCheckedThroughSlicesOfTheModelsOwn) {
  auto graph = graph::ParseGraph(
      "window = input i64[8,5]\ntable = param f32[13,6]\nw = param f32[13,6]\nb = param f32[13]\n"
      "i = Slice(window) {axes=[1], starts=[0], ends=[4], steps=[1]}\n"
      "y = Slice(window) {axes=[1], starts=[1], ends=[5], steps=[1]}\n"
      "e = Gather(table, i) {axis=0}\nr = Reshape(e) {shape=[32,6]}\n"
      "g = Gemm(r, w, b) {trans_b=1}\nt = Reshape(g) {shape=[8,4,13]}\n"
      "logits = Transpose(t) {perm=[0,2,1]}\n"
      "loss, p = CrossEntropy(logits, y)\noutput loss\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  JobSpec spec = Bigram();
  spec.model.graph = std::make_shared<graph::Graph>(*std::move(graph));
  spec.loss = {.kind = graph::LossKind::kGraphOutput, .output = "loss"};
  spec.metrics.clear();
  spec.val.reset();
  spec.bind = {{"window", "tokens"}};
  ASSERT_TRUE(Prepared(spec).ok()) << Prepared(spec).status();
  std::string bytes(2 * 64 * 5, '\0');
  bytes[2 * 9] = 13;  // a target only
  spec.train.data = *data::ParseTokens(bytes, {.type = data::TokenType::kU16, .window = 5});
  EXPECT_THAT(Prepared(spec).status().ToString(),
              HasSubstr("data.train: token 9 of the file: 13 is not a class of the model"));
}

TEST_F(TokenJobs, ABoundOfBatchesBoundsAnEvaluation) {
  JobSpec spec = Bigram();
  const auto batches = [&](int64_t most) {
    spec.val->batches = most;
    const auto job = Prepared(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? (*job)->steps.eval_batches : -1;
  };
  EXPECT_EQ(batches(0), 3);  // 20 windows in batches of 8
  EXPECT_EQ(batches(2), 2);
  EXPECT_EQ(batches(3), 3);
  EXPECT_EQ(batches(100), 3);
}

TEST_F(TokenJobs, WithoutTheRightSliceTheyAreRefused) {
  JobSpec spec = Bigram();
  spec.bind["idx"] = "tokens";
  EXPECT_THAT(Prepared(spec).status().ToString(), HasSubstr("bind a part of it"));
  spec.bind["idx"] = "tokens[:";
  EXPECT_THAT(Prepared(spec).status().ToString(), HasSubstr("is not a slice of a field"));
  spec.bind.erase("idx");
  EXPECT_THAT(Prepared(spec).status().ToString(), HasSubstr("has no field \"idx\""));
}

}  // namespace
}  // namespace ebb::runtime
