#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "bench/predict/groups.h"
#include "bench/predict/labelled_model.h"
#include "perfmodel/strategy.h"

namespace ebb::bench {
namespace {

constexpr char kData[] = EBB_SOURCE_DIR "/../shared/perfdata";
bool HasData() { return std::filesystem::is_directory(kData); }

TEST(PredictTraining, MeetsItsGates) {
  if (!HasData()) GTEST_SKIP() << kData << " is absent: measured figures go there";
  for (const RowMaker maker : {TrainingRows, FourGpuRows}) {
    const auto rows = maker(kData);
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (const PredictRow& row : *rows) EXPECT_TRUE(row.passed()) << row.name << " " << row.value;
  }
}

TEST(PredictTraining, MissingFiguresAreNamed) {
  for (const RowMaker maker : {TrainingRows, FourGpuRows}) {
    const auto rows = maker("/nowhere");
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(rows.status().message()), ::testing::HasSubstr("/nowhere/"));
  }
}

// One GPU's labels through the strategies are the label again.
TEST(PredictTraining, LabelsOfOneGpuAreReproduced) {
  if (!HasData()) GTEST_SKIP() << kData << " is absent: measured figures go there";
  const auto model = LabelledModel::Read(
      std::string(kData) + "/models/neusight/NVIDIA_H100_80GB_HBM3", "gpt2_large-train-1024");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto plan = perfmodel::MakePlan(
      {.steps = [&](int64_t batch, int64_t tensor) { return model->StepAt(batch, tensor); },
       .batch = 4,
       .ops = &*model},
      {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  double sum = 0;
  for (const perfmodel::Task& task : plan->programs[0].tasks) sum += task.micros;
  EXPECT_NEAR(sum, 638808.6, 1);  // gpt2_large-train-1024-4.json
}

}  // namespace
}  // namespace ebb::bench
