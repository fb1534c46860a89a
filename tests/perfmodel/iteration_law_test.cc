#include "perfmodel/iteration_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "perfmodel/fabric.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;

class Law : public ::testing::Test {
 protected:
  Law() : fabric_(*FindFabric("a100-nvswitch")) {}

  double AllReduce(int64_t ranks, double bytes) const {
    return fabric_.Predict({.ranks = ranks, .bytes = bytes})->median;
  }
  // A machine that obeys the law: 3 ms of host for a layer, 100 TFLOPS of products.
  double Measured(const TransformerRun& run) const {
    const double m = static_cast<double>(run.batch / run.data / run.micro_batch);
    const double p = static_cast<double>(run.pipeline),
                 tokens = double(run.micro_batch * run.sequence);
    const double slots = m + p - 1, layers = slots * double(run.layers) / p;
    const double h = double(run.hidden), t = double(run.tensor);
    const double device =
        layers * (72 * tokens * h * h / t / 100e6 + 4 * AllReduce(run.tensor, 2 * tokens * h));
    const double parameters = double(run.layers) * 12 * h * h / t / p + 51200 * h / t;
    return std::hypot(layers * 3000, device) + AllReduce(run.data, 2 * parameters) + 5000;
  }
  std::vector<MeasuredRun> Runs() const {
    std::vector<MeasuredRun> runs;
    for (const int64_t hidden : {1024, 2048, 4096}) {
      for (const int64_t micro : {1, 2, 4}) {
        for (const auto& [t, d, p] : std::vector<std::array<int64_t, 3>>{
                 {1, 1, 2}, {1, 2, 1}, {2, 1, 1}, {2, 2, 1}, {1, 2, 2}, {2, 1, 2}}) {
          TransformerRun run{.batch = 16,
                             .micro_batch = micro,
                             .hidden = hidden,
                             .heads = 16,
                             .layers = 24,
                             .sequence = 1024,
                             .tensor = t,
                             .data = d,
                             .pipeline = p};
          runs.push_back({run, Measured(run)});
        }
      }
    }
    return runs;
  }

  Fabric fabric_;
};

TEST_F(Law, FindsTheLawThatMadeTheTimes) {
  const auto law = IterationLaw::Fit(Runs(), fabric_);
  ASSERT_TRUE(law.ok()) << law.status();
  // Of numbers of ranks, a width and a micro-batch that were not fitted.
  for (const int64_t hidden : {1536, 3072}) {
    const TransformerRun run{.batch = 32,
                             .micro_batch = 2,
                             .hidden = hidden,
                             .heads = 16,
                             .layers = 24,
                             .sequence = 1024,
                             .tensor = 2,
                             .data = 2,
                             .pipeline = 2};
    const auto estimate = law->Predict(run);
    ASSERT_TRUE(estimate.ok());
    EXPECT_NEAR(estimate->median / Measured(run), 1, 0.03) << hidden;
    EXPECT_LE(estimate->low, estimate->median);
    EXPECT_GE(estimate->high, estimate->median);
    EXPECT_FALSE(estimate->in_hull);  // 8 ranks
  }
}

TEST_F(Law, IsSlowerForMoreLayersAndWiderOnes) {
  const auto law = IterationLaw::Fit(Runs(), fabric_);
  ASSERT_TRUE(law.ok());
  TransformerRun run{.batch = 16,
                     .micro_batch = 1,
                     .hidden = 1024,
                     .heads = 16,
                     .layers = 8,
                     .sequence = 1024,
                     .tensor = 2,
                     .data = 1,
                     .pipeline = 1};
  double last = 0;
  for (int doubling = 0; doubling < 6; ++doubling) {
    const double now = law->Predict(run)->median;
    EXPECT_GT(now, last);
    last = now;
    (doubling % 2 == 0 ? run.layers : run.hidden) *= 2;
  }
}

TEST_F(Law, RefusesWhatIsNoRun) {
  auto runs = Runs();
  EXPECT_THAT(
      std::string(IterationLaw::Fit(absl::MakeSpan(runs).first(5), fabric_).status().message()),
      HasSubstr("12 measured runs"));
  runs[3].run.batch = 3;
  EXPECT_THAT(std::string(IterationLaw::Fit(runs, fabric_).status().message()),
              HasSubstr("a batch of 3 is not cut"));
  runs = Runs();
  runs[0].micros = 0;
  EXPECT_EQ(IterationLaw::Fit(runs, fabric_).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::perfmodel
