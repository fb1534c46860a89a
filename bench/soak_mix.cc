#include "bench/soak_mix.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace ebb::bench {
namespace {

using Kind = SoakAction::Kind;

// Rows of data are read when a job is submitted; evaluation with more is left out.
constexpr int64_t kMostRows = 96;

// Small ones, which leave gaps, as well as ones that fill the pool.
int64_t DrawBatch(Draw& draw, int64_t largest) {
  const double kind = draw.Uniform();
  if (kind < 0.1) return largest;
  if (kind < 0.35) return 1 + draw.Below(std::min<int64_t>(largest, 8));
  const double low = kind < 0.6 ? 0.05 : 0.5, high = kind < 0.6 ? 0.5 : 1.0;
  const double batch = static_cast<double>(largest) * (low + (high - low) * draw.Uniform());
  return std::clamp<int64_t>(static_cast<int64_t>(batch), 1, largest);
}

absl::StatusOr<SoakJob> DrawJob(Draw& draw, SoakCatalog& catalog, Bytes pool) {
  SoakJob job;
  int64_t largest = 0;
  while (largest == 0) {
    job.model = catalog.models()[draw.Below(static_cast<int64_t>(catalog.models().size()))];
    EBB_ASSIGN_OR_RETURN(largest, catalog.LargestBatch(job.model, pool));
  }
  // With other quanta than the device's own, and with evaluations, a little less fits.
  job.batch = DrawBatch(draw, std::max<int64_t>(1, largest * 96 / 100));
  job.steps = 2 + draw.Below(7);
  job.weight = static_cast<double>(1 + draw.Below(32)) / 8;
  job.priority = static_cast<int>(draw.Below(5)) - 2;
  if (job.batch <= kMostRows && draw.Chance(0.4)) {
    EBB_ASSIGN_OR_RETURN(job.data, catalog.Data(job.model));
    job.evaluate_every = 1 + draw.Below(3);
  }
  return job;
}

// A job that could wait for ever, and rivals of many short steps that all go before it but for
// ageing.
absl::StatusOr<std::vector<SoakJob>> DrawRivals(Draw& draw, SoakCatalog& catalog, Bytes pool) {
  SoakJob job{.model = "mobilenet_v2"};
  EBB_ASSIGN_OR_RETURN(const int64_t largest, catalog.LargestBatch(job.model, pool));
  job.batch = std::max<int64_t>(1, largest * (60 + draw.Below(35)) / 100);
  std::vector<SoakJob> jobs(static_cast<size_t>(3 + draw.Below(2)), job);
  for (SoakJob& rival : jobs) {
    rival.steps = 30 + draw.Below(20);
    rival.priority = 1 + static_cast<int>(draw.Below(3));
  }
  jobs.back().steps = 3;
  jobs.back().priority = 0;
  return jobs;
}

void DrawActions(Draw& draw, const SoakJob& job, int number, Micros arrival, SoakMix* mix) {
  const auto span = static_cast<double>(mix->span.count());
  const auto later = [&](Micros from, double part) {
    return from + Micros(static_cast<int64_t>(span * part * draw.Uniform()));
  };
  const auto act = [&](Micros at, Kind kind, int64_t value = 0) {
    mix->actions.push_back({at, kind, number, value});
  };
  act(arrival, Kind::kSubmit);
  if (draw.Chance(0.25)) act(later(arrival, 0.7), Kind::kWeight, 1 + draw.Below(64));
  if (draw.Chance(0.2)) act(later(arrival, 0.7), Kind::kPriority, draw.Below(7) - 3);
  if (draw.Chance(0.25)) act(later(arrival, 0.5), Kind::kStop, 1 + draw.Below(job.steps + 4));
  if (draw.Chance(0.3)) {
    const Micros at = later(arrival, 0.5);
    act(at, Kind::kPause);
    act(later(at, 0.5), Kind::kResume);
  }
  if (draw.Chance(0.2)) act(later(arrival, 0.7), Kind::kCancel);
  for (int i = 0; i < 4; ++i) act(later(arrival, 0.8), Kind::kLook);
}

}  // namespace

Draw::Draw(uint64_t seed, int64_t mix) {
  std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(mix)};
  words_.seed(words);
}
int64_t Draw::Below(int64_t n) {
  return static_cast<int64_t>(words_() % static_cast<uint64_t>(n));  // n is tiny against 2^64
}
double Draw::Uniform() { return static_cast<double>(words_() >> 11) * 0x1p-53; }

const char* Name(Kind kind) {
  static constexpr const char* kNames[] = {"submit", "weight", "priority", "stop",
                                           "pause",  "resume", "cancel",   "look"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::kLook) + 1);
  return kNames[static_cast<size_t>(kind)];
}

absl::StatusOr<SoakMix> DrawSoakMix(uint64_t seed, int64_t number, SoakCatalog& catalog) {
  Draw draw(seed, number);
  SoakMix mix;
  constexpr double kPools[] = {1, 0.6, 0.35};
  mix.memory = catalog.Pool(kPools[draw.Below(std::size(kPools))]);
  mix.policy = static_cast<scheduler::Policy>(draw.Below(5));
  mix.max_in_flight = 1 + static_cast<int>(draw.Below(5));
  mix.max_lanes = static_cast<int>(draw.Below(5));
  if (draw.Chance(0.3)) mix.quantum = mix.memory / (4 << draw.Below(6));
  const bool rivals = draw.Chance(0.08);
  if (rivals) {
    mix.policy = scheduler::Policy::kPriority;
    mix.max_lanes = 1;
    EBB_ASSIGN_OR_RETURN(mix.jobs, DrawRivals(draw, catalog, mix.memory));
  } else {
    const int64_t jobs = 2 + draw.Below(5);
    for (int64_t j = 0; j < jobs; ++j) {
      EBB_ASSIGN_OR_RETURN(mix.jobs.emplace_back(), DrawJob(draw, catalog, mix.memory));
    }
  }
  double span = 0;
  for (SoakJob& job : mix.jobs) {
    EBB_ASSIGN_OR_RETURN(const double step, catalog.StepMicros(job.model, job.batch));
    span += step * static_cast<double>(job.steps);
    if (draw.Chance(rivals ? 0 : 0.15)) {
      job.fails_at = draw.Below(job.steps) * 24 + draw.Below(24);
      // It comes as a graph whose batch is bound, which has fewer levels of the memory ladder.
      job.batch = std::max<int64_t>(1, job.batch * 3 / 4);
    }
  }
  mix.span = Micros(static_cast<int64_t>(span));
  for (size_t j = 0; j < mix.jobs.size(); ++j) {
    const bool at_once = rivals || j == 0;
    const Micros arrival(at_once ? 0 : static_cast<int64_t>(span * 0.4 * draw.Uniform()));
    DrawActions(draw, mix.jobs[j], static_cast<int>(j), arrival, &mix);
  }
  std::stable_sort(mix.actions.begin(), mix.actions.end(),
                   [](const SoakAction& a, const SoakAction& b) { return a.at < b.at; });
  return mix;
}

std::string ToText(const SoakMix& mix) {
  std::string text = absl::StrCat(
      "pool ", FormatBytes(mix.memory), ", policy ", std::string(scheduler::Name(mix.policy)),
      ", max_in_flight ", mix.max_in_flight, ", max_lanes ", mix.max_lanes, ", quantum ",
      mix.quantum == Bytes(0) ? "the engine's" : FormatBytes(mix.quantum), "\n");
  for (size_t j = 0; j < mix.jobs.size(); ++j) {
    const SoakJob& job = mix.jobs[j];
    absl::StrAppendFormat(&text, "job %d: %s, batch %d, %d steps, weight %g, priority %d%s%s\n", j,
                          job.model, job.batch, job.steps, job.weight, job.priority,
                          job.data ? absl::StrCat(", evaluates every ", job.evaluate_every) : "",
                          job.fails_at ? absl::StrCat(", launch ", *job.fails_at, " fails") : "");
  }
  return text;
}

}  // namespace ebb::bench
