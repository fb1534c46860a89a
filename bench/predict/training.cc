// Iterations of transformers on several GPUs, by laws fitted to other iterations.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "base/status.h"
#include "bench/predict/groups.h"
#include "bench/predict/training_data.h"

namespace ebb::bench {
namespace {

using perfmodel::Estimate;
using perfmodel::Fabric;
using perfmodel::IterationLaw;
using perfmodel::MeasuredRun;
using perfmodel::TransformerRun;

constexpr uint64_t kSeeds = 5;  // 0 to 4
constexpr size_t kFitted = 80;
constexpr double kNear = 0.10;  // of the best: a good choice

// Fisher and Yates by a generator whose numbers the standard fixes.
std::vector<size_t> Shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(seed);
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

absl::StatusOr<Predicted> Tested(const IterationLaw& law, const MeasuredRun& run) {
  EBB_ASSIGN_OR_RETURN(const Estimate estimate, law.Predict(run.run));
  return Predicted{run.micros, estimate.median, estimate.low, estimate.high};
}

// What the strategies that were measured for one model, batch and number of GPUs cost.
using Question = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
using Questions = std::map<Question, std::vector<size_t>>;
Questions QuestionsOf(const std::vector<MeasuredRun>& runs) {
  Questions questions;
  for (size_t i = 0; i < runs.size(); ++i) {
    const TransformerRun& run = runs[i].run;
    questions[{run.ranks(), run.batch, run.hidden, run.heads, run.layers, run.sequence}].push_back(
        i);
  }
  // With one or two strategies there is little to choose.
  std::erase_if(questions, [](const auto& one) { return one.second.size() < 3; });
  return questions;
}

struct Choices {
  int64_t asked = 0, near = 0;
  double regret = 0;
};

absl::Status Choose(const IterationLaw& law, const std::vector<MeasuredRun>& runs,
                    const Questions& questions, Choices* choices) {
  for (const auto& [question, candidates] : questions) {
    double least = 0, predicted = 0, chosen = 0;
    for (const size_t i : candidates) {
      EBB_ASSIGN_OR_RETURN(const Estimate estimate, law.Predict(runs[i].run));
      if (chosen == 0 || estimate.median < predicted) {
        predicted = estimate.median;
        chosen = runs[i].micros;
      }
      least = least == 0 ? runs[i].micros : std::min(least, runs[i].micros);
    }
    ++choices->asked;
    const double regret = chosen / least - 1;
    if (regret <= kNear) ++choices->near;
    choices->regret += regret;
  }
  return absl::OkStatus();
}

PredictRow ValueRow(std::string name, int64_t n, double value, double gate, double baseline) {
  PredictRow row{.name = std::move(name)};
  row.n = n;
  row.value = value;
  row.gate = gate;
  row.baseline = baseline;
  return row;
}

}  // namespace

absl::StatusOr<std::vector<PredictRow>> TrainingRows(const std::string& data) {
  EBB_ASSIGN_OR_RETURN(const std::vector<MeasuredRun> runs, VtrainRuns(data));
  EBB_ASSIGN_OR_RETURN(const Fabric fabric, VtrainFabric(data));
  const Questions questions = QuestionsOf(runs);
  std::vector<Predicted> rest;
  Choices choices;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<size_t> order = Shuffled(runs.size(), seed);
    std::vector<MeasuredRun> fitted;
    for (size_t i = 0; i < kFitted; ++i) fitted.push_back(runs[order[i]]);
    EBB_ASSIGN_OR_RETURN(const IterationLaw law, IterationLaw::Fit(fitted, fabric));
    for (size_t i = kFitted; i < order.size(); ++i) {
      EBB_ASSIGN_OR_RETURN(const Predicted one, Tested(law, runs[order[i]]));
      rest.push_back(one);
    }
    EBB_RETURN_IF_ERROR(Choose(law, runs, questions, &choices));
  }
  std::vector<MeasuredRun> pairs;
  for (const MeasuredRun& run : runs) {
    if (run.run.ranks() == 2) pairs.push_back(run);
  }
  EBB_ASSIGN_OR_RETURN(const IterationLaw law, IterationLaw::Fit(pairs, fabric));
  std::map<int64_t, std::vector<Predicted>> by_ranks;
  for (const MeasuredRun& run : runs) {
    if (run.run.ranks() == 2) continue;
    EBB_ASSIGN_OR_RETURN(const Predicted one, Tested(law, run));
    by_ranks[run.run.ranks()].push_back(one);
  }
  const double asked = static_cast<double>(choices.asked);
  PredictRow near =
      ValueRow("vtrain: choice of strategy within 10 % of the best, % of choices", choices.asked,
               100 * static_cast<double>(choices.near) / asked, 80, 83.8);
  near.at_least = true;
  return std::vector<PredictRow>{
      RowOf("vtrain, 80 of its iterations fitted, mean of 5 draws", rest, 10, 8.8),
      RowOf("vtrain, 2 GPUs fitted, 4 predicted", by_ranks[4], {}, 7.6),
      RowOf("vtrain, 2 GPUs fitted, 8 predicted", by_ranks[8], 12, 9.8), near,
      ValueRow("vtrain: mean regret of the choices, %", choices.asked, 100 * choices.regret / asked,
               5, 3.3)};
}

}  // namespace ebb::bench
