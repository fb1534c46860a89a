// Estimates and automatic batches, held against what the engine then does.
#include "runtime/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/sim/sim_device.h"
#include "model/zoo/zoo.h"
#include "partitioner/partition.h"
#include "runtime/batch_search.h"
#include "runtime/engine.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::Engine;
using runtime::EstimateReport;
using runtime::JobState;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = runtime::Verdict::Kind;

runtime::JobSpec Endless(const std::string& model, int64_t batch) {
  return ZooJob(model, batch, int64_t{1} << 40);
}
EstimateReport Estimated(const Engine& engine, const runtime::JobSpec& spec) {
  const auto report = engine.Estimate(spec);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : EstimateReport();
}
JobId Submitted(Engine& engine, const runtime::JobSpec& spec) {
  const auto job = engine.Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : JobId();
}

TEST(Estimate, SaysWhatTheEngineThenTakes) {
  const auto engine = MakeSimEngine(GiB(4));
  const runtime::JobSpec spec = Endless("mobilenet_v2", 8);
  const EstimateReport report = Estimated(*engine, spec);
  EXPECT_EQ(report.verdict.kind, Kind::kFitsNow);
  EXPECT_THAT(report.text, StartsWith("fits now: it needs "));
  EXPECT_TRUE(engine->List().empty());
  const JobId job = Submitted(*engine, spec);
  const runtime::JobInfo info = WaitForStep(*engine, job, 1);
  EXPECT_EQ(report.resident, info.resident);
  EXPECT_EQ(report.staging, info.staging);
  EXPECT_EQ(report.step_peak, info.step_peak);
  EXPECT_EQ(report.host, engine->Memory().host.at("staging"));
  EXPECT_LE(report.live_peak, report.step_peak);
  EXPECT_EQ(report.pool, GiB(4));
  const runtime::JobInfo later = WaitForStep(*engine, job, 30);
  ASSERT_TRUE(report.step_time.has_value());
  EXPECT_NEAR(*report.step_time / (later.elapsed / later.step), 1, 0.05);
}

TEST(Estimate, CopiesAndLargestBatchesAreExact) {
  const auto engine = MakeSimEngine(GiB(6));
  runtime::JobSpec spec = Endless("vgg16", 8);
  spec.ladder = AllResident();
  const EstimateReport report = Estimated(*engine, spec);
  const auto fits = [&](int64_t batch, int copies) {
    runtime::JobSpec other = spec;
    other.batch_size = batch;
    const EstimateReport at = Estimated(*engine, other);
    return copies == 1 ? at.alone <= at.pool : at.two <= at.pool;
  };
  ASSERT_TRUE(report.largest_alone && report.largest_beside_equal && report.largest_now);
  EXPECT_GT(*report.largest_alone, 8);
  EXPECT_TRUE(fits(*report.largest_alone, 1));
  EXPECT_FALSE(fits(*report.largest_alone + 1, 1));
  EXPECT_GE(*report.largest_alone, *report.largest_beside_equal);
  EXPECT_TRUE(fits(*report.largest_beside_equal, 2));
  EXPECT_FALSE(fits(*report.largest_beside_equal + 1, 2));
  EXPECT_EQ(*report.largest_now, *report.largest_alone);  // nobody is there

  // The engine holds that many at once, and the next waits.
  std::vector<JobId> jobs;
  for (int64_t c = 0; c <= report.copies; ++c) jobs.push_back(Submitted(*engine, spec));
  WaitForStep(*engine, jobs[static_cast<size_t>(report.copies) - 1], 1);
  int held = 0;
  for (const JobId job : jobs) held += engine->Get(job)->state == JobState::kRunning;
  EXPECT_EQ(held, report.copies);
  const EstimateReport another = Estimated(*engine, spec);
  EXPECT_EQ(another.verdict.kind, Kind::kAfter);
  EXPECT_THAT(another.text, HasSubstr(" of device time: it needs "));
  EXPECT_THAT(another.text, HasSubstr(absl::StrCat("; j-", jobs.back().value(), " is before it")));
  EXPECT_EQ(*another.largest_now, 0);
  EXPECT_EQ(*another.largest_alone, *report.largest_alone);
}

TEST(Estimate, StateOnTheHostLeavesRoomForLargerBatches) {
  const auto engine = MakeSimEngine(GiB(6));
  runtime::JobSpec spec = Endless("vgg16", 8);
  const EstimateReport with = Estimated(*engine, spec);
  spec.ladder = AllResident();
  const EstimateReport without = Estimated(*engine, spec);
  EXPECT_EQ(with.copies, without.copies);
  EXPECT_GT(*with.largest_beside_equal, *without.largest_beside_equal);
  EXPECT_GT(*with.largest_alone, *without.largest_alone);
  // The engine takes two of that batch, and says where their state is.
  spec = Endless("vgg16", *with.largest_beside_equal);
  const EstimateReport one = Estimated(*engine, spec);
  EXPECT_EQ(one.verdict.kind, Kind::kFitsNow) << one.text;
  const std::vector<JobId> jobs = {Submitted(*engine, spec), Submitted(*engine, spec)};
  WaitForStep(*engine, jobs[1], 1);
  for (const JobId job : jobs) EXPECT_EQ(engine->Get(job)->state, JobState::kRunning);
  EXPECT_GT(engine->Memory().host.at("streamed state"), Bytes(0));
  // Whoever is there may force it to another level; what it takes by itself stays the same.
  const EstimateReport third = Estimated(*engine, spec);
  EXPECT_GT(third.verdict.level, one.verdict.level) << third.text;
  EXPECT_EQ(third.alone, one.alone);
  EXPECT_EQ(third.two, one.two);
  EXPECT_EQ(third.copies, one.copies);
}

TEST(Estimate, WhatNeverFitsIsAnAnswerAndWhatIsWrongIsTheSubmitsError) {
  const auto engine = MakeSimEngine(GiB(2));
  runtime::JobSpec large = Endless("vgg16", 4000);
  large.ladder.micro_batches = 1;
  const EstimateReport report = Estimated(*engine, large);
  EXPECT_EQ(report.verdict.kind, Kind::kNever);
  EXPECT_EQ(report.copies, 0);
  EXPECT_THAT(report.text, StartsWith("never: needs at least "));
  EXPECT_THAT(report.text, HasSubstr(" without recompute, at most 2.0 GiB of the pool"));
  EXPECT_FALSE(report.step_time.has_value());
  EXPECT_EQ(report.text, engine->Submit(large).status().message());

  std::vector<runtime::JobSpec> wrong(4, Endless("resnet50", 8));
  wrong[0].model.zoo = "resnet18";
  wrong[1].weight = 0;
  wrong[2].stop = {};
  wrong[3].loss.output = "nothing";
  for (const runtime::JobSpec& spec : wrong) {
    const absl::Status status = engine->Estimate(spec).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status, engine->Submit(spec).status());
  }
}

TEST(Estimate, NeedsNoDataOnADeviceThatComputes) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  runtime::JobSpec spec = MakeJob({.validate = true});
  const EstimateReport with = Estimated(*engine, spec);
  spec.train.data = nullptr;
  spec.val->data = nullptr;
  spec.model.reinit.clear();
  spec.stop = {.epochs = 3};
  const EstimateReport without = Estimated(*engine, spec);
  EXPECT_EQ(without.step_peak, with.step_peak);
  EXPECT_EQ(without.staging, with.staging);
  EXPECT_GT(without.staging, Bytes(0));
  EXPECT_FALSE(without.step_time.has_value());
  EXPECT_FALSE(without.largest_alone.has_value());  // a graph binds its batch
  EXPECT_GT(without.copies, 1);
  spec.stop = {.steps = 1};
  EXPECT_EQ(engine->Submit(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

// --- batch_size: auto ----------------------------------------------------------------------------

runtime::JobSpec AutoJob(const std::string& name) {
  runtime::JobSpec spec = Endless(name, 0);
  spec.batch_auto = true;
  spec.ladder.recompute = false;  // automatic batches go without, so what they are held against too
  return spec;
}

TEST(AutoBatch, IsTheLargestThatRunsBesideTheJobsThatAreThere) {
  const auto engine = MakeSimEngine(GiB(5));
  const EstimateReport alone = Estimated(*engine, Endless("vgg16", 1));
  const JobId first = Submitted(*engine, Endless("vgg16", 1));
  const EstimateReport beside = Estimated(*engine, AutoJob("vgg16"));
  EXPECT_LT(*beside.largest_now, *alone.largest_alone);
  EXPECT_EQ(beside.batch_size, runtime::RoundedBatch(*beside.largest_now));
  EXPECT_EQ(beside.verdict.kind, Kind::kFitsNow);
  const JobId job = Submitted(*engine, AutoJob("vgg16"));
  EXPECT_EQ(engine->Get(job)->batch_size, beside.batch_size);
  WaitForStep(*engine, job, 2);
  EXPECT_EQ(engine->Get(first)->state, JobState::kRunning);
  EXPECT_EQ(engine->Get(job)->state, JobState::kRunning);
  EXPECT_THAT(engine->Explain(job)->numerics_key,
              HasSubstr("batch=" + std::to_string(beside.batch_size)));
}

TEST(AutoBatch, IsTheLargestAloneWhereNothingIsLeft) {
  const auto engine = MakeSimEngine(GiB(5));
  runtime::JobSpec spec = Endless("vgg16", 1);
  spec.ladder = AllResident();
  const EstimateReport alone = Estimated(*engine, spec);
  spec.batch_size = *alone.largest_alone;
  Submitted(*engine, spec);
  spec = AutoJob("vgg16");
  spec.ladder = AllResident();
  const EstimateReport report = Estimated(*engine, spec);
  EXPECT_EQ(*report.largest_now, 0);
  EXPECT_EQ(report.batch_size, runtime::RoundedBatch(*alone.largest_alone));
  EXPECT_EQ(report.verdict.kind, Kind::kAfter);
  EXPECT_EQ(report.verdict.after, JobId(1));
}

TEST(AutoBatch, IsAtMostTheRowsAndTheCap) {
  const auto engine = MakeSimEngine(GiB(15));
  std::map<std::string, graph::HostTensor> fields;
  fields["x"] = graph::HostTensor::Zeros({graph::DType::kF32, {21, 3, 224, 224}});
  fields["label"] = graph::HostTensor::Zeros({graph::DType::kI64, {21}});
  runtime::JobSpec spec = AutoJob("vgg16");
  spec.train.data = *data::DataSet::Create(fields);
  EXPECT_EQ(engine->Get(Submitted(*engine, spec))->batch_size, 16);
  spec.train.rows = {1, 2, 3};
  EXPECT_EQ(engine->Get(Submitted(*engine, spec))->batch_size, 3);
  spec = AutoJob("vgg16");
  spec.memory_max = GiB(3);
  const JobId job = Submitted(*engine, spec);
  const runtime::JobInfo info = *engine->Get(job);
  EXPECT_GE(info.batch_size, 8);
  EXPECT_LE(info.resident + info.step_peak, GiB(3));
}

TEST(AutoBatch, RefusesWhatHasNoBatchToChoose) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  runtime::JobSpec spec = MakeJob({});
  spec.batch_auto = true;
  const absl::Status bound = engine->Submit(spec).status();
  EXPECT_EQ(bound.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bound.message()), HasSubstr("has its batch bound"));
  const auto small = MakeSimEngine(MiB(256));
  const absl::Status never = small->Submit(AutoJob("vgg16")).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(never.message()), HasSubstr("does not fit at any batch_size"));
  spec = AutoJob("vgg16");
  spec.model.zoo = "resnet18";
  const absl::Status wrong = small->Submit(spec).status();
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("there is no model 'resnet18'"));
}

}  // namespace
}  // namespace ebb::testing
