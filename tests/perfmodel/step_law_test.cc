#include "perfmodel/step_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;

// A product whose FLOPs go with the batch, an elementwise node with bytes that do not begin at 0,
// an optimizer that the batch does not touch, and a host.
StepSample At(int64_t batch) {
  const auto b = static_cast<double>(batch);
  StepSample sample;
  sample.batch = batch;
  sample.nodes = {
      {"h", {.family = Family::kGemm, .flops = 1000 * b, .bytes = 7}, 5 + 2 * b},
      {"a", {.family = Family::kElementwise, .bytes = 64 + 8 * b}, 1 + 0.01 * (64 + 8 * b)},
      {"w", {.family = Family::kOptimizer, .bytes = 4096}, 30}};
  sample.step_us = 20 + 0.5 * b;
  for (const NodeTime& node : sample.nodes) sample.step_us += node.micros;
  return sample;
}

TEST(StepLaw, FindsTheLawBehindTwoBatches) {
  const auto law = StepLaw::Fit({At(16), At(64)});
  ASSERT_TRUE(law.ok()) << law.status();
  for (const int64_t batch : {16, 32, 48, 64, 256}) {
    const auto step = law->Step(batch);
    ASSERT_TRUE(step.ok());
    EXPECT_NEAR(step->median / At(batch).step_us, 1, 1e-6) << batch;
    EXPECT_EQ(step->in_hull, batch <= 64);
    EXPECT_LT(step->low, step->median);
    EXPECT_GT(step->high, step->median);
  }
  EXPECT_NEAR(law->Beside(32), 36, 1e-6);
  const StepSample third = At(32);
  for (const NodeTime& node : third.nodes) {
    const auto micros = law->Node(node.name, node.work);
    ASSERT_TRUE(micros.ok());
    EXPECT_NEAR(micros->median / node.micros, 1, 1e-6) << node.name;
    EXPECT_TRUE(micros->in_hull);
  }
}

TEST(StepLaw, IsWiderWhereItExtrapolates) {
  const auto law = StepLaw::Fit({At(16), At(64)});
  ASSERT_TRUE(law.ok());
  EXPECT_GT(law->Step(65)->high / law->Step(65)->median,
            law->Step(64)->high / law->Step(64)->median);
  EXPECT_FALSE(law->Step(8)->in_hull);
}

TEST(StepLaw, NeverFallsAsTheBatchGrows) {
  StepSample noisy = At(64);  // faster than at 16: no law of work says so
  noisy.nodes[0].micros = 3;
  noisy.nodes[1].micros = 0;
  const auto law = StepLaw::Fit({At(16), noisy, At(40)});
  ASSERT_TRUE(law.ok()) << law.status();
  double before = 0;
  for (int64_t batch = 1; batch < 300; batch += 7) {
    EXPECT_GE(law->Step(batch)->median, before) << batch;
    before = law->Step(batch)->median;
  }
}

TEST(StepLaw, TakesNoNegativePartWhereTimesGrowFasterThanWork) {
  StepSample large = At(64);
  large.nodes[0].micros = 1000;  // a line through both would be below 0 at small batches
  const auto law = StepLaw::Fit({At(16), large});
  ASSERT_TRUE(law.ok());
  EXPECT_GE(law->Node("h", {.family = Family::kGemm, .flops = 1})->median, 0);
}

TEST(StepLaw, OrderOfSamplesAndNodesDoesNotMatter) {
  StepSample turned = At(64);
  std::swap(turned.nodes[0], turned.nodes[2]);
  const auto a = StepLaw::Fit({At(16), At(64)}), b = StepLaw::Fit({turned, At(16)});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NEAR(a->Step(32)->median, b->Step(32)->median, 1e-9);
}

TEST(StepLaw, RefusesWhatIsNoMeasurement) {
  const auto error = [](StepSample bad) {
    return std::string(StepLaw::Fit({At(16), std::move(bad)}).status().message());
  };
  EXPECT_THAT(std::string(StepLaw::Fit({At(16)}).status().message()), HasSubstr("two batches"));
  EXPECT_THAT(error(At(16)), HasSubstr("batch 16 comes twice"));
  StepSample bad = At(64);
  bad.step_us = std::nan("");
  EXPECT_THAT(error(bad), HasSubstr("a step of nan us"));
  bad = At(64);
  bad.batch = 0;
  EXPECT_THAT(error(bad), HasSubstr("at least 1"));
  bad = At(64);
  bad.nodes[1].micros = -1;
  EXPECT_THAT(error(bad), HasSubstr("node 'a' took -1"));
  bad = At(64);
  bad.nodes[0].work.flops = INFINITY;
  EXPECT_THAT(error(bad), HasSubstr("node 'h': no such work"));
  bad = At(64);
  bad.nodes.pop_back();
  EXPECT_THAT(error(bad), HasSubstr("node 'w' was timed at 1 of 2 batches"));
  bad = At(64);
  bad.nodes.push_back(bad.nodes[0]);
  EXPECT_THAT(error(bad), HasSubstr("'h' comes twice"));
  bad.nodes.clear();
  EXPECT_THAT(error(bad), HasSubstr("no node was timed"));
  const auto law = StepLaw::Fit({At(16), At(64)});
  EXPECT_FALSE(law->Step(0).ok());
  EXPECT_EQ(law->Node("nobody", {}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ebb::perfmodel
