// Metrics that are no plain means, against scikit-learn and PyTorch (tests/device/torch_values.py),
// and in jobs.
#include "runtime/metric_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "device/device.h"
#include "graph/text.h"
#include "tests/testing/jobs.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::DType;
using graph::MetricKind;
using runtime::MetricSums;
using ::testing::HasSubstr;
using Doubles = std::vector<double>;

Doubles Want(absl::string_view name) {
  std::ifstream file(std::string(EBB_SOURCE_DIR) + "/tests/device/fixtures/torch_values.txt");
  std::string line;
  while (std::getline(file, line)) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    if (parts.first != name) continue;
    Doubles values;
    for (absl::string_view word : absl::StrSplit(parts.second, ' ')) {
      EXPECT_TRUE(absl::SimpleAtod(word, &values.emplace_back()));
    }
    return values;
  }
  ADD_FAILURE() << name;
  return {};
}

// What evaluations of batches of `batch` rows measure in all, the last of them not full.
std::map<std::string, double> Evaluate(const std::string& model, int64_t batch, Doubles scores,
                                       Doubles targets, DType target_type, int64_t width,
                                       const graph::TrainingOptions& options) {
  const auto forward = graph::ParseGraph(model);
  EXPECT_TRUE(forward.ok()) << forward.status();
  auto graph = graph::BuildEvalGraph(*forward, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  runtime::StepProgram step;
  step.graph = *std::move(graph);
  std::vector<Bytes> offsets;
  Bytes end;
  for (const graph::Value& value : step.graph.values) {
    if (value.role != graph::Role::kMetric) continue;
    step.metrics.push_back(value.id);
    offsets.push_back(end);
    end += AlignUp(value.type.bytes(), Bytes(64));
  }
  const auto device = *device::OpenDevice("cpu", {});
  const auto rows = static_cast<int64_t>(targets.size());
  scores.resize(static_cast<size_t>((rows + batch) * width));
  targets.resize(static_cast<size_t>(rows + batch));
  MetricSums sums;
  for (int64_t at = 0; at < rows; at += batch) {
    const auto slice = [&](const Doubles& all, int64_t each) {
      return Doubles(all.begin() + at * each, all.begin() + (at + batch) * each);
    };
    const int64_t valid = std::min(batch, rows - at);
    graph::TensorType in = step.graph.value(step.graph.Find("x")).type;
    const auto target =
        FromDoubles(step.graph.value(step.graph.Find("label")).type, slice(targets, 1));
    EXPECT_EQ(target.type.dtype, target_type);
    const auto values =
        RunGraph(*device, step.graph,
                 {{"x", FromDoubles(in, slice(scores, width))},
                  {"label", target},
                  {"ebb.valid", FromDoubles({DType::kI64, {1}}, {static_cast<double>(valid)})}});
    EXPECT_TRUE(values.ok()) << values.status();
    std::vector<char> bytes(static_cast<size_t>(end.count()));
    for (size_t m = 0; m < step.metrics.size(); ++m) {
      const auto& tensor = values->at(step.graph.value(step.metrics[m]).name);
      std::memcpy(bytes.data() + offsets[m].count(), tensor.data.data(), tensor.data.size());
    }
    sums.Add(step, bytes, offsets, valid);
  }
  return sums.Take();
}

TEST(MetricSums, AucIsThatOfScikitLearnOverAllBatches) {
  graph::TrainingOptions options;
  options.loss.kind = graph::LossKind::kBceWithLogits;
  options.metrics = {{MetricKind::kAuc}, {MetricKind::kLogLoss}};
  for (const int64_t batch : {7, 60}) {
    const auto rows = std::to_string(batch);
    const auto got = Evaluate("x = input f32[" + rows + ",1]; y = Scale(x); output y", batch,
                              Want("auc/scores"), Want("auc/targets"), DType::kF32, 1, options);
    EXPECT_NEAR(got.at("auc"), Want("auc/value")[0], 1e-12);
    EXPECT_DOUBLE_EQ(got.at("logloss"), got.at("loss"));
  }
}

TEST(MetricSums, AucOfTwoClassesGoesByTheDifferenceOfTheirLogits) {
  graph::TrainingOptions options;
  options.metrics = {{MetricKind::kAuc}};
  Doubles logits;
  for (const double score : Want("auc/scores")) {
    logits.push_back(1);
    logits.push_back(1 + score);
  }
  const auto got = Evaluate("x = input f32[16,2]; y = Scale(x); output y", 16, logits,
                            Want("auc/targets"), DType::kI64, 2, options);
  EXPECT_NEAR(got.at("auc"), Want("auc/value")[0], 2e-3) << "rounding makes and breaks ties";
}

TEST(MetricSums, AucOfOneClassIsNoNumber) {
  std::vector<std::pair<float, bool>> scores = {{0.5F, true}, {1.0F, true}};
  EXPECT_TRUE(std::isnan(runtime::AreaUnderRoc(&scores)));
  scores = {{NAN, true}, {1.0F, false}};
  EXPECT_TRUE(std::isnan(runtime::AreaUnderRoc(&scores)));
}

TEST(MetricSums, MacroF1AndPerplexityAreThoseOfScikitLearnAndPyTorch) {
  graph::TrainingOptions options;
  options.loss.label_smoothing = 0.3;  // of the loss, not of the metrics
  options.metrics = {{MetricKind::kMacroF1},
                     {MetricKind::kPerplexity},
                     {MetricKind::kLogLoss},
                     {.kind = MetricKind::kOutput, .output = "twice"}};
  const auto got = Evaluate(
      "x = input f32[12,5]; logits = Scale(x); twice = Scale(x) {scale=2.0}; output logits, twice",
      12, Want("f1/logits"), Want("f1/labels"), DType::kI64, 5, [&] {
        options.loss.output = "logits";
        return options;
      }());
  EXPECT_NEAR(got.at("macro_f1"), Want("f1/value")[0], 1e-9);
  EXPECT_NEAR(got.at("logloss"), Want("f1/logloss")[0], 1e-6);
  EXPECT_NEAR(got.at("perplexity"), std::exp(Want("f1/logloss")[0]), 1e-5);
  EXPECT_GT(std::abs(got.at("loss") - got.at("logloss")), 1e-3);
  double mean = 0;
  for (const double logit : Want("f1/logits")) mean += 2 * logit / 200;
  EXPECT_NEAR(got.at("output:twice"), mean, 1e-5);
}

TEST(Metrics, AJobMeasuresThemWhileItTrainsAndIsSteeredByThem) {
  runtime::JobSpec spec = MakeJob({.batch = 48, .width = 24, .steps = 30, .validate = true});
  spec.metrics = {{MetricKind::kMacroF1}, {MetricKind::kPerplexity}, {MetricKind::kAccuracy}};
  spec.evaluate.every_steps = 5;
  spec.early = {.metric = {.name = "val/macro_f1", .better = runtime::Better::kHigher},
                .patience = 3};
  spec.keep = runtime::Keep::kBest;
  spec.ladder.micro_batches = 1;
  const auto engine = MakeCheckedEngine({.memory = MiB(64)});
  const auto job = engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const runtime::JobInfo info = WaitUntilFinal(*engine, *job);
  ASSERT_EQ(info.state, runtime::JobState::kSucceeded) << info.message;
  EXPECT_THAT(info.message, HasSubstr("its result is its state after step"));
  for (const char* when : {"train", "val"}) {
    const std::string prefix = std::string(when) + "/";
    EXPECT_NEAR(info.last.at(prefix + "perplexity"), std::exp(info.last.at(prefix + "loss")),
                1e-4 * info.last.at(prefix + "perplexity"));
    EXPECT_GT(info.last.at(prefix + "macro_f1"), 0.5) << "it learns";
    EXPECT_LE(info.last.at(prefix + "macro_f1"), 1);
  }
  EXPECT_NEAR(info.last.at("val/macro_f1"), info.last.at("val/accuracy"), 0.1);
}

TEST(Metrics, WhatDoesNotFitTheModelIsRefused) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto refusal = [&](graph::MetricSpec metric) {
    runtime::JobSpec spec = MakeJob({.validate = true});
    spec.metrics = {std::move(metric)};
    return std::string(engine->Submit(spec).status().message());
  };
  EXPECT_THAT(refusal({MetricKind::kAuc}), HasSubstr("'auc' needs two classes; 'logits' is"));
  EXPECT_THAT(refusal({.kind = MetricKind::kOutput, .output = "aux"}),
              HasSubstr("'output:aux' is no output of the model; it has: 'logits'"));
  EXPECT_THAT(refusal({MetricKind::kMse}), HasSubstr("needs a loss by the distance"));
}

}  // namespace
}  // namespace ebb::testing
