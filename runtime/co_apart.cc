#include "runtime/co_apart.h"

#include <algorithm>

namespace ebb::runtime {
namespace {

// Shorter meetings tell nothing, for the clock's sake.
constexpr double kMeetingMicros = 1'000;
// Both rates are known after so many meetings; each is the median of the newest three.
constexpr int kMeetings = 2;
// A launch that ran among three and more for a larger part of its time says nothing of any two.
constexpr double kMostCrowded = 0.1;
// Below kLoses a pair is apart; one that has lost must reach kWins to stay together. Nearer to 1
// than for whole jobs: here waiting costs nothing, since what is copied in goes ahead.
constexpr double kLoses = 0.993;
constexpr double kWins = 0.998;
// So many verdicts in a row, two a meeting: rates are learnt one from another, and may swing first.
constexpr int kVerdicts = 4;
// Meetings avoided until a pair that has lost is tried again; doubles with every try that is lost.
constexpr int64_t kFirstBackOff = 128;
constexpr int kMostDoublings = 8;

}  // namespace

void CoApart::Rate::Add(double rate) {
  newest[static_cast<size_t>(count++) % newest.size()] = rate;
  std::array<double, 3> sorted = newest;
  const auto end = sorted.begin() + std::min<std::ptrdiff_t>(count, 3);
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  median = *middle;
}

bool CoApart::Pair::known() const {
  return apart || (rates[0].count >= kMeetings && rates[1].count >= kMeetings);
}

void CoApart::Ended(const LaunchSpan& span, double solo) {
  double together = 0;
  for (const auto& meeting : span.met) together += meeting.micros;
  if (together < kMeetingMicros || span.crowded > kMostCrowded * together) return;
  struct Term {
    Pair* pair;
    Rate* rate;
    double micros;
  };
  absl::InlinedVector<Term, 4> terms;
  double left = std::clamp(solo - span.alone, 0.0, together);
  double unknown = 0, squares = 0;
  for (const auto& meeting : span.met) {
    Pair& pair = pairs_[KeyOf(span.ref(), meeting.with)];
    Rate& rate = RateOf(pair, span.ref(), meeting.with);
    terms.push_back({&pair, &rate, meeting.micros});
    squares += meeting.micros * meeting.micros;
    if (rate.count == 0) unknown += meeting.micros;
    if (rate.count > 0) left -= rate.median * meeting.micros;
  }
  // Rates that are not known yet are the same, as far as is known.
  const double guess = unknown > 0 ? std::clamp(left / unknown, 0.0, 1.0) : 0;
  left -= guess * unknown;
  // Every launch corrects the rates by the shortest way to its equation (Kaczmarz).
  for (const Term& term : terms) {
    if (term.micros < kMeetingMicros) continue;
    const double was = term.rate->count > 0 ? term.rate->median : guess;
    term.rate->Add(std::clamp(was + left * term.micros / squares, 0.0, 1.0));
    Judge(*term.pair);
  }
}

void CoApart::Judge(Pair& pair) {
  if (pair.apart || !pair.known()) return;
  const double sum = pair.rates[0].median + pair.rates[1].median;
  if (sum >= (pair.trial ? kWins : kLoses)) {
    pair.below = 0;
    // Has it won for as long as it would have had to lose?
    if (pair.rates[0].count >= kMeetings + kVerdicts / 2) pair.trial = false;
    return;
  }
  if (++pair.below < kVerdicts) return;
  pair.apart = true;
  pair.trial = false;
  pair.below = 0;
  pair.avoided = 0;
  ++pair.tries;
  ++apart_;
}

bool CoApart::Wait(const SubModelRef& a, const SubModelRef& b) {
  const auto it = pairs_.find(KeyOf(a, b));
  if (it == pairs_.end() || !it->second.apart) return false;
  Pair& pair = it->second;
  if (++pair.avoided < kFirstBackOff << std::min(pair.tries - 1, kMostDoublings)) return true;
  pair.apart = false;
  pair.trial = true;
  pair.rates = {};
  --apart_;
  return false;
}

void CoApart::Forget(JobId job) {
  std::erase_if(pairs_, [&](const auto& item) {
    const auto& [key, pair] = item;
    if (key.first.job != job && key.second.job != job) return false;
    apart_ -= pair.apart;
    return true;
  });
}

void CoApart::Clear() {
  pairs_.clear();
  apart_ = 0;
}

std::pair<int, int> CoApart::Count(JobId a, JobId b) const {
  std::pair<int, int> counts;
  for (const auto& [key, pair] : pairs_) {
    if (key.first.job != std::min(a, b) || key.second.job != std::max(a, b)) continue;
    counts.first += pair.known();
    counts.second += pair.apart;
  }
  return counts;
}

}  // namespace ebb::runtime
