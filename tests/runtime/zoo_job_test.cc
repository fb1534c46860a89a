// Jobs whose model is one of the zoo: on a device that computes, and on one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "device/sim/sim_device.h"
#include "partitioner/partition.h"
#include "runtime/engine.h"
#include "runtime/prepare.h"
#include "tests/model/zoo_table.h"
#include "tests/testing/jobs.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using runtime::Engine;
using runtime::JobInfo;
using runtime::JobState;
using ::testing::HasSubstr;

std::shared_ptr<const data::DataSet> ImageNetLike(int64_t rows) {
  std::map<std::string, graph::HostTensor> fields;
  fields["x"] = RandomTensor({graph::DType::kF32, {rows, 3, 224, 224}}, 1);
  fields["label"] = RandomTensor({graph::DType::kI64, {rows}}, 2, 0, 1000);
  auto set = data::DataSet::Create(std::move(fields));
  EXPECT_TRUE(set.ok()) << set.status();
  return *set;
}

// The batch that a refusal says would fit.
int64_t LargestOf(const absl::Status& refusal) {
  const std::string message(refusal.message());
  const std::string words = "largest batch_size that fits: ";
  const size_t at = message.find(words);
  int64_t batch = 0;
  EXPECT_NE(at, std::string::npos) << message;
  if (at != std::string::npos) {
    EXPECT_TRUE(absl::SimpleAtoi(message.substr(at + words.size()), &batch)) << message;
  }
  return batch;
}

TEST(ZooJob, TrainsOnCpuFromDrawnWeights) {
  const auto engine = MakeEngine({.memory = MiB(512)});
  runtime::JobSpec spec = ZooJob("mobilenet_v2", 2, 3);
  spec.schedule.base_lr = 0.01;
  spec.train.data = ImageNetLike(4);
  const absl::Status without = engine->Submit(spec).status();
  EXPECT_EQ(without.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(without.message()), HasSubstr("has no initial value; give"));

  spec.model.reinit = {{"*", "default"}};
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const JobInfo info = WaitUntilFinal(*engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
  EXPECT_NEAR(info.last.at("train/loss"), std::log(1000), 1.5);
  EXPECT_EQ((*engine->Result(*job))->weights.size(), 314u - 52u);
}

TEST(ZooJob, NamesTheModelsWhenThereIsNoSuch) {
  const auto engine = MakeSimEngine(GiB(1));
  runtime::JobSpec spec = ZooJob("resnet50", 1, 1);
  spec.model.zoo = "resnet18";
  const absl::Status status = engine->Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.zoo: there is no model 'resnet18'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("mobilenet_v2"));
}

TEST(ZooJob, EveryModelRunsOnASimulatedDeviceWithoutWeightsOrData) {
  const auto engine = MakeSimEngine(GiB(15));
  for (const model::ZooEntry& entry : model::Zoo()) {
    const auto job = engine->Submit(ZooJob(std::string(entry.name), 4, 3));
    ASSERT_TRUE(job.ok()) << entry.name << ": " << job.status();
    const JobInfo info = WaitUntilFinal(*engine, *job);
    EXPECT_EQ(info.state, JobState::kSucceeded) << entry.name << ": " << info.message;
    EXPECT_EQ(info.step, 3);
  }
}

// With the workspaces that the device's kernels ask for, at batches that fill 16 GB.
TEST(ZooJob, PlansOfASimulatedDeviceStayCloseToTheLiveBytes) {
  const auto device = device::OpenSim("v100-16gb", {});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const ZooFigures& figures : ZooTable()) {
    const auto job = runtime::Prepare(ZooJob(figures.name, figures.batch_16gb, 1), **device,
                                      {.quantum = partitioner::QuantumFor(GiB(15))});
    ASSERT_TRUE(job.ok()) << figures.name << ": " << job.status();
    const runtime::StepProgram& step = *(*job)->programs()[0];
    std::vector<Bytes> live(step.graph.nodes.size());
    const auto add = [&](Bytes bytes, int first, int last) {
      for (int i = first; i <= last; ++i) live[static_cast<size_t>(i)] += bytes;
    };
    for (size_t b = 0; b < step.liveness.buffers.size(); ++b) {
      add(step.range_bytes[b], step.liveness.buffers[b].first, step.liveness.buffers[b].last);
    }
    for (size_t n = 0; n < live.size(); ++n) {
      if (step.workspace_range[n] < 0) continue;
      live[n] += step.range_bytes[static_cast<size_t>(step.workspace_range[n])];
    }
    double extents = 0, lives = 0;
    for (Bytes bytes : step.plan.extent) extents += static_cast<double>(bytes.count());
    for (Bytes bytes : live) lives += static_cast<double>(bytes.count());
    EXPECT_LE(step.plan.peak / *std::max_element(live.begin(), live.end()), 1.015) << figures.name;
    EXPECT_LE(extents / lives, 1.05) << figures.name;
  }
}

TEST(ZooJob, ARefusalNamesTheLargestBatchThatFits) {
  const auto engine = MakeSimEngine(GiB(2));
  runtime::JobSpec spec = ZooJob("resnet50", 4000, 1);
  spec.ladder = AllResident();
  const int64_t batch = LargestOf(engine->Submit(spec).status());
  ASSERT_GT(batch, 4);
  ASSERT_LT(batch, 30);
  spec.batch_size = batch + 1;
  EXPECT_EQ(LargestOf(engine->Submit(spec).status()), batch);
  spec.batch_size = batch;
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
}

// On a device that computes the search draws no weights: a thousand times its batch is answered
// quickly though every step of the search prepares the job anew.
TEST(ZooJob, ARefusalOnCpuNamesTheLargestBatchToo) {
  const auto engine = MakeEngine({.memory = MiB(512)});
  runtime::JobSpec spec = ZooJob("mobilenet_v2", 64, 1);
  spec.model.reinit = {{"*", "default"}};
  spec.ladder = AllResident();
  spec.train.data = ImageNetLike(64);
  const int64_t batch = LargestOf(engine->Submit(spec).status());
  EXPECT_GE(batch, 2);
  EXPECT_LT(batch, 12);
}

// With what the memory ladder adds, recompute above all.
TEST(ZooJob, ARefusalCountsTheMemoryLadder) {
  const auto engine = MakeSimEngine(GiB(2));
  const int64_t batch = LargestOf(engine->Submit(ZooJob("resnet50", 4000, 1)).status());
  EXPECT_GT(batch, 30);
  EXPECT_LT(batch, 80);
  EXPECT_EQ(LargestOf(engine->Submit(ZooJob("resnet50", batch + 1, 1)).status()), batch);
  const auto job = engine->Submit(ZooJob("resnet50", batch, 1));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
}

TEST(ZooJob, LabelsOfTokensAreChecked) {
  const auto engine = MakeSimEngine(GiB(15));
  runtime::JobSpec spec = ZooJob("gpt2", 1, 1);
  std::map<std::string, graph::HostTensor> fields;
  fields["input_ids"] = RandomTensor({graph::DType::kI64, {2, 1024}}, 1, 0, 50257);
  fields["labels"] = RandomTensor({graph::DType::kI64, {2, 1024}}, 2, 0, 50257);
  spec.train.data = *data::DataSet::Create(fields);
  ASSERT_TRUE(engine->Submit(spec).ok());
  fields["labels"].as<int64_t>()[1030] = 50257;
  spec.train.data = *data::DataSet::Create(fields);
  const absl::Status status = engine->Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("50257"));
}

}  // namespace
}  // namespace ebb::testing
