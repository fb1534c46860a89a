#include "runtime/co_run.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_format.h"

namespace ebb::runtime {
namespace {

// Launches of every sub-model that are to be had without neighbours: the median passes over one
// that was out of the ordinary, such as the first.
constexpr int kSoloLaunches = 2;
// A verdict is the median of so many windows. A window lasts as long as so many steps of both alone
// would take, and long enough for the clock.
constexpr size_t kWindows = 3;
constexpr double kWindowSteps = 2;
constexpr double kWindowMicros = 20'000;
// Below kLoses a pair takes turns; a pair that has lost must reach kWins to stay together. Between
// them nothing changes. Not 1: turns do not reach it either where a job's next batch is not copied
// in behind the other's step.
constexpr double kLoses = 0.985;
constexpr double kWins = 0.995;
// Steps of both until a pair that has lost is tried again; doubles with every try that is lost.
constexpr int64_t kFirstBackOff = 64;
constexpr int kMostDoublings = 8;

bool Has(const std::pair<JobId, JobId>& key, JobId job) {
  return key.first == job || key.second == job;
}

}  // namespace

const char* Name(CoRunMode mode) {
  constexpr const char* kNames[] = {"auto", "always", "never"};
  return kNames[static_cast<size_t>(mode)];
}

const char* Name(CoRunPair::State state) {
  constexpr const char* kNames[] = {"alone is measured", "together is measured", "together",
                                    "turns"};
  return kNames[static_cast<size_t>(state)];
}

void CoRun::Solo::Add(double micros) {
  newest[static_cast<size_t>(count++) % newest.size()] = micros;
  std::array<double, 5> sorted = newest;
  const auto end = sorted.begin() + std::min<std::ptrdiff_t>(count, 5);
  const auto middle = sorted.begin() + (end - sorted.begin() - 1) / 2;
  std::nth_element(sorted.begin(), middle, end);
  median = *middle;
}

double CoRun::Job::SoloStep() const {
  double micros = 0;
  for (const Solo& part : solo[0]) micros += part.median;
  if (solo[0].front().count == 0) micros += lonely.median;
  return micros;
}

// --- the set of jobs -----------------------------------------------------------------------------

void CoRun::Add(JobId id, int sub_models) {
  for (const auto& [other, job] : jobs_) pairs_[std::minmax(id, other)] = {};
  jobs_[id] = {};
  apart_.Clear();
  Renew(id, sub_models);
}

void CoRun::Renew(JobId id, int sub_models) {
  Job& job = jobs_.at(id);
  job.solo = {};
  job.solo[0].resize(static_cast<size_t>(sub_models));
  job.unknown = sub_models;
  apart_.Forget(id);
  for (auto& [key, pair] : pairs_) RetryPair(key, pair);
}

void CoRun::Remove(JobId id) {
  std::erase_if(pairs_, [&](const auto& item) {
    const auto& [key, pair] = item;
    if (!Has(key, id)) return false;
    if (pair.applied) --jobs_.at(key.first == id ? key.second : key.first).turns;
    return true;
  });
  jobs_.erase(id);
  starving_.erase(id);
  residence_.Forget(id);
  apart_.Clear();
  for (auto& [key, pair] : pairs_) RetryPair(key, pair);
}

void CoRun::Retry(JobId id) {
  for (auto& [key, pair] : pairs_) {
    if (Has(key, id)) RetryPair(key, pair);
  }
}

void CoRun::RetryPair(const Key& key, Pair& pair) {
  pair.turns = pair.trial = false;
  pair.tries = 0;
  Begin(key, pair);
  crowd_ = {};
  crowd_scores_.clear();
  dirty_ = true;
}

// Measures the pair from here on. What is under way does not count.
void CoRun::Begin(const Key& key, Pair& pair) {
  pair.scores.clear();
  pair.window = {.skip = jobs_.at(key.first).SoloStep() + jobs_.at(key.second).SoloStep()};
  dirty_ = true;
}

// --- what ran ------------------------------------------------------------------------------------

LaunchSeqs CoRun::Before(int stream, const SubModelRef& sub_model) {
  LaunchSeqs before;
  if (!apart_.any()) return before;
  int newest_of = -1, passed = -1;
  residence_.ForEachOutstanding([&](int other, const LaunchSpan& span) {
    // While it copies, the device might have nothing to do.
    if (span.copies_in) passed = other;
    if (other == stream || other == passed || span.job == sub_model.job) return;
    if (!apart_.Wait(sub_model, span.ref())) return;
    if (other == newest_of) before.pop_back();
    before.push_back(span.seq);
    newest_of = other;
  });
  return before;
}

void CoRun::Launched(int stream, const LaunchSpan& span, Micros now, const LaunchWaits& waits) {
  starving_.erase(span.job);
  std::vector<JobId> after;
  if (span.sub_model == 0 && jobs_.at(span.job).turns > 0) {
    for (const auto& [key, pair] : pairs_) {
      if (pair.applied && Has(key, span.job)) {
        after.push_back(key.first == span.job ? key.second : key.first);
      }
    }
  }
  residence_.Launched(stream, span, std::move(after), waits, now);
}

void CoRun::SampleSolo(const LaunchSpan& span, Job& job) {
  if (span.program == 0 && span.sub_model == 0 && mode_ == CoRunMode::kAuto && job.turns == 0) {
    job.lonely.Add(span.micros);
    return;
  }
  std::vector<Solo>& solo = job.solo[static_cast<size_t>(span.program)];
  const auto sub_model = static_cast<size_t>(span.sub_model);
  if (solo.size() <= sub_model) solo.resize(sub_model + 1);
  solo[sub_model].Add(span.micros);
  if (span.program != 0 || solo[sub_model].count != kSoloLaunches || --job.unknown > 0) return;
  for (auto& [key, pair] : pairs_) {
    if (Has(key, span.job)) Begin(key, pair);
  }
}

void CoRun::Ended(const LaunchSpan& span) {
  const auto it = jobs_.find(span.job);
  if (it == jobs_.end()) return;
  Job& job = it->second;
  if (!span.shared && span.program < 2) SampleSolo(span, job);
  if (const auto density = Density(span); density && mode_ == CoRunMode::kAuto) {
    apart_.Ended(span, *density * span.micros);
  }
  job.waited += span.waited;
  job.micros += span.micros + span.waited;
  if (!span.last) return;
  ++job.steps;
  for (auto& [key, pair] : pairs_) {
    if (!pair.turns || !Has(key, span.job)) continue;
    if (jobs_.at(key.first).steps + jobs_.at(key.second).steps < pair.until) continue;
    pair.turns = false;
    pair.trial = true;
    Begin(key, pair);
  }
}

std::optional<double> CoRun::Density(const LaunchSpan& span) const {
  const auto it = jobs_.find(span.job);
  if (it == jobs_.end() || span.program > 1) return std::nullopt;
  const std::vector<Solo>& solo = it->second.solo[static_cast<size_t>(span.program)];
  const auto sub_model = static_cast<size_t>(span.sub_model);
  if (sub_model >= solo.size() || solo[sub_model].count < kSoloLaunches) return std::nullopt;
  return solo[sub_model].median / span.micros;
}

void CoRun::Ran(absl::Span<const LaunchSpan* const> spans, double micros) {
  if (mode_ == CoRunMode::kNever) return;
  if (spans.size() > 2) {
    last_pair_.reset();
    return RanAsCrowd(spans, micros);
  }
  if (spans.size() == 2) last_pair_ = std::minmax(spans[0]->job, spans[1]->job);
  if (last_pair_ && !Has(*last_pair_, spans[0]->job)) last_pair_.reset();
  if (!last_pair_) return;
  const JobId other = last_pair_->first == spans[0]->job ? last_pair_->second : last_pair_->first;
  if (spans.size() == 1 && starving_.contains(other)) return;
  const auto of = [&](JobId job) {
    const auto it = std::find_if(spans.begin(), spans.end(),
                                 [&](const LaunchSpan* span) { return span->job == job; });
    return it == spans.end() ? nullptr : *it;
  };
  RanAsPair(*last_pair_, of(last_pair_->first), of(last_pair_->second), micros);
}

void CoRun::RanAsPair(const Key& key, const LaunchSpan* first, const LaunchSpan* second,
                      double micros) {
  const auto it = pairs_.find(key);
  if (it == pairs_.end() || it->second.turns) return;
  if (!Known(key.first) || !Known(key.second)) return;
  const std::optional<double> a = first == nullptr ? 0.0 : Density(*first);
  const std::optional<double> b = second == nullptr ? 0.0 : Density(*second);
  if (!a || !b) return;  // an evaluation that has never run alone
  Window& window = it->second.window;
  if (window.skip > 0) {
    window.skip -= micros;
    return;
  }
  window.micros += micros;
  window.a += *a * micros;
  window.b += *b * micros;
  const double steps = jobs_.at(key.first).SoloStep() + jobs_.at(key.second).SoloStep();
  if (window.micros >= std::max(kWindowMicros, kWindowSteps * steps)) Close(key, it->second);
}

// Of three and more it cannot be told whose fault it is.
void CoRun::RanAsCrowd(absl::Span<const LaunchSpan* const> spans, double micros) {
  double progress = 0, steps = 0;
  for (const LaunchSpan* span : spans) {
    const std::optional<double> density = Density(*span);
    if (!density || !Known(span->job)) return;
    progress += *density;
    steps += jobs_.at(span->job).SoloStep();
  }
  if (crowd_.skip < steps) {
    crowd_.skip += micros;
    return;
  }
  crowd_.micros += micros;
  crowd_.a += progress * micros;
  for (size_t i = 0; i < spans.size(); ++i) {
    for (size_t j = i + 1; j < spans.size(); ++j) {
      const auto it = pairs_.find(std::minmax(spans[i]->job, spans[j]->job));
      if (it != pairs_.end() && !it->second.turns) it->second.crowded += micros;
    }
  }
  if (crowd_.micros >= std::max(kWindowMicros, steps)) CloseCrowd();
}

// --- verdicts ------------------------------------------------------------------------------------

void CoRun::Close(const Key& key, Pair& pair) {
  const Window& window = pair.window;
  if (pair.scores.size() == kWindows) pair.scores.erase(pair.scores.begin());
  pair.scores.push_back({window.a / window.micros, window.b / window.micros});
  pair.window = {};
  if (pair.scores.size() < kWindows) return;
  std::vector<Score> sorted = pair.scores;
  std::sort(sorted.begin(), sorted.end(),
            [](const Score& a, const Score& b) { return a.sum() < b.sum(); });
  const Score median = sorted[kWindows / 2];
  pair.verdict = median;
  if (mode_ == CoRunMode::kAuto && median.sum() < (pair.trial ? kWins : kLoses)) {
    Lose(key, pair, median);
  } else {
    pair.trial = false;
  }
}

void CoRun::Lose(const Key& key, Pair& pair, std::optional<Score> score) {
  pair.turns = true;
  pair.trial = false;
  pair.verdict = score;
  pair.until = jobs_.at(key.first).steps + jobs_.at(key.second).steps +
               (kFirstBackOff << std::min(pair.tries, kMostDoublings));
  ++pair.tries;
  dirty_ = true;
}

// Half of the crowd at a time, until what is left pays: every job takes turns with one other, those
// that were in the crowd for longest with each other.
void CoRun::CloseCrowd() {
  crowd_scores_.push_back(crowd_.a / crowd_.micros);
  crowd_ = {.skip = crowd_.skip};
  if (crowd_scores_.size() < kWindows) return;
  std::sort(crowd_scores_.begin(), crowd_scores_.end());
  const double median = crowd_scores_[kWindows / 2];
  crowd_scores_.clear();
  crowd_verdict_ = median;
  std::vector<std::pair<double, Key>> crowded;
  for (auto& [key, pair] : pairs_) {
    if (pair.crowded > 0 && !pair.turns) crowded.emplace_back(-pair.crowded, key);
    pair.crowded = 0;
  }
  if (mode_ != CoRunMode::kAuto || median >= kLoses) return;
  crowd_ = {};
  std::sort(crowded.begin(), crowded.end());
  std::set<JobId> paired;
  for (const auto& [time, key] : crowded) {
    if (paired.contains(key.first) || paired.contains(key.second)) continue;
    paired.insert({key.first, key.second});
    Lose(key, pairs_.at(key), std::nullopt);
  }
}

bool CoRun::Turns(const Key& key, const Pair& pair) const {
  if (mode_ != CoRunMode::kAuto) return mode_ == CoRunMode::kNever;
  return pair.turns || !Known(key.first) || !Known(key.second);
}

std::vector<CoRun::Change> CoRun::TakeChanges() {
  std::vector<Change> changes;
  if (!dirty_) return changes;
  dirty_ = false;
  for (auto& [key, pair] : pairs_) {
    const bool turns = Turns(key, pair);
    if (turns == pair.applied) continue;
    pair.applied = turns;
    jobs_.at(key.first).turns += turns ? 1 : -1;
    jobs_.at(key.second).turns += turns ? 1 : -1;
    changes.push_back({key.first, key.second, turns});
  }
  return changes;
}

// --- what can be seen ----------------------------------------------------------------------------

std::optional<Micros> CoRun::SoloStep(JobId job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return std::nullopt;
  for (const Solo& part : it->second.solo[0]) {
    const bool first = &part == &it->second.solo[0].front();
    if (part.count + (first ? it->second.lonely.count : 0) == 0) return std::nullopt;
  }
  return Micros(std::llround(it->second.SoloStep()));
}

CoRunPair::State CoRun::StateOf(const Key& key, const Pair& pair) const {
  if (pair.turns || mode_ == CoRunMode::kNever) return CoRunPair::State::kTurns;
  if (!Known(key.first) || !Known(key.second)) return CoRunPair::State::kMeasuringAlone;
  const bool judged = pair.scores.size() == kWindows;
  return judged ? CoRunPair::State::kTogether : CoRunPair::State::kMeasuringTogether;
}

std::vector<CoRunPair> CoRun::PairsOf(JobId job) const {
  std::vector<CoRunPair> pairs;
  for (const auto& [key, pair] : pairs_) {
    if (!Has(key, job)) continue;
    CoRunPair out{.other = key.first == job ? key.second : key.first,
                  .state = StateOf(key, pair),
                  .measured = pair.verdict.has_value(),
                  .tries = pair.tries};
    std::tie(out.known, out.apart) = apart_.Count(key.first, key.second);
    if (pair.verdict) {
      out.own = key.first == job ? pair.verdict->a : pair.verdict->b;
      out.others = pair.verdict->sum() - out.own;
    }
    if (pair.turns) {
      out.retry_in =
          std::max<int64_t>(0, pair.until - jobs_.at(key.first).steps - jobs_.at(key.second).steps);
    }
    pairs.push_back(out);
  }
  return pairs;
}

double CoRun::Waiting(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() || it->second.micros == 0 ? 0 : it->second.waited / it->second.micros;
}

std::string CoRun::Words(JobId a, JobId b) const {
  const auto it = pairs_.find(std::minmax(a, b));
  if (it == pairs_.end()) return "";
  const auto& [key, pair] = *it;
  if (mode_ == CoRunMode::kNever) return "jobs never run together here";
  if (pair.turns) {
    if (pair.verdict) {
      return absl::StrFormat("together %.3f of their speed alone", pair.verdict->sum());
    }
    return absl::StrFormat("with others, all together %.3f of their speed alone",
                           crowd_verdict_.value_or(0));
  }
  for (const JobId job : {key.first, key.second}) {
    if (!Known(job))
      return absl::StrFormat("the speed of j-%d alone is being measured", job.value());
  }
  return "";
}

}  // namespace ebb::runtime
