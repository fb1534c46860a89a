#include "runtime/admission.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ebb::runtime {
namespace {

using Jobs = absl::Span<const AdmissionJob* const>;

const LevelNeed& Need(const AdmissionJob& job, int level) {
  return job.levels[static_cast<size_t>(level)];
}

// What is taken beyond what there is, of the pool and of the host; at most zero when all fit.
struct Excess {
  Bytes pool, host;
  bool Fits() const { return pool <= Bytes(0) && host <= Bytes(0); }
};

Excess ExcessOf(const AdmissionState& state, Jobs jobs, const std::vector<int>& levels) {
  Bytes regions, lane, host = state.host_taken;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const LevelNeed& need = Need(*jobs[j], levels[j]);
    regions += AlignUp(need.region, state.granule);
    lane = std::max(lane, AlignUp(need.lane, state.granule));
    host += need.host;
  }
  return {regions + lane - state.pool, state.host == Bytes(0) ? Bytes(0) : host - state.host};
}

bool WithinCap(const AdmissionState& state, const AdmissionJob& job, int level) {
  const LevelNeed& need = Need(job, level);
  return job.cap == Bytes(0) ||
         AlignUp(need.region, state.granule) + AlignUp(need.lane, state.granule) <= job.cap;
}

// The first level from `level` on that the job's own cap allows; -1: none.
int Allowed(const AdmissionState& state, const AdmissionJob& job, int level) {
  for (; level < static_cast<int>(job.levels.size()); ++level) {
    if (WithinCap(state, job, level)) return level;
  }
  return -1;
}

// A level may raise the lane by more than it frees of one region, but not of all of them.
std::optional<std::vector<int>> SameLevel(const AdmissionState& state, Jobs jobs) {
  size_t most = 0;
  for (const AdmissionJob* job : jobs) most = std::max(most, job->levels.size());
  for (int level = 1; level < static_cast<int>(most); ++level) {
    std::vector<int> levels;
    bool allowed = true;
    for (const AdmissionJob* job : jobs) {
      levels.push_back(std::min(level, static_cast<int>(job->levels.size()) - 1));
      allowed &= WithinCap(state, *job, levels.back());
    }
    if (allowed && ExcessOf(state, jobs, levels).Fits()) return levels;
  }
  return std::nullopt;
}

// What was taken on the way to a fit need not all be needed for it.
std::vector<int> Relaxed(const AdmissionState& state, Jobs jobs, std::vector<int> levels) {
  for (size_t j = 0; j < jobs.size(); ++j) {
    std::vector<int> changed = levels;
    for (int level = Allowed(state, *jobs[j], 0); level >= 0;
         level = Allowed(state, *jobs[j], level + 1)) {
      changed[j] = level;
      const bool cheaper = Need(*jobs[j], level).Price() < Need(*jobs[j], levels[j]).Price();
      if (cheaper && ExcessOf(state, jobs, changed).Fits()) levels[j] = level;
    }
  }
  return levels;
}

AdmissionLedger LedgerOf(const AdmissionState& state, Jobs others, const std::vector<int>& levels,
                         const LevelNeed& own) {
  AdmissionLedger ledger{.pool = state.pool,
                         .region = AlignUp(own.region, state.granule),
                         .peak = own.lane,
                         .lane = AlignUp(own.lane, state.granule),
                         .host = own.host,
                         .host_others = state.host_taken,
                         .host_limit = state.host};
  for (size_t j = 0; j < others.size(); ++j) {
    const LevelNeed& need = Need(*others[j], levels[j]);
    ledger.others += AlignUp(need.region, state.granule);
    ledger.host_others += need.host;
    ledger.lane = std::max(ledger.lane, AlignUp(need.lane, state.granule));
  }
  return ledger;
}

// Alone it does not fit: what is too small, and by how much at the level that comes closest.
Verdict Never(const AdmissionState& state, const AdmissionJob& job) {
  Verdict verdict{.kind = Verdict::Kind::kNever};
  const auto pool_needs = [&](int level) {
    return AlignUp(Need(job, level).region, state.granule) +
           AlignUp(Need(job, level).lane, state.granule);
  };
  for (int level = 1; level < static_cast<int>(job.levels.size()); ++level) {
    if (pool_needs(level) < pool_needs(verdict.level)) verdict.level = level;
  }
  const LevelNeed& need = Need(job, verdict.level);
  verdict.needs = pool_needs(verdict.level);
  verdict.at_least = need.at_least;
  if (verdict.needs > state.pool) {
    verdict.limit = Verdict::Limit::kPool;
    verdict.most = state.pool;
  } else if (!WithinCap(state, job, verdict.level)) {
    verdict.limit = Verdict::Limit::kCap;
    verdict.most = job.cap;
  } else {
    verdict.limit = Verdict::Limit::kHost;
    verdict.needs = need.host;
    verdict.most = state.host;
  }
  verdict.ledger = LedgerOf(state, {}, {}, need);
  return verdict;
}

// The course of things from now on: who runs, and when each of them ends. What each job takes at
// its first level and at least is kept, since that mostly decides.
class Course {
 public:
  Course(const AdmissionState& state, const ChooseLevels& choose) : state_(state), choose_(choose) {
    for (const AdmissionJob& job : state.running) Start(job);
    const std::vector<const AdmissionJob*> jobs = JobsNow();
    const auto levels = choose(state, jobs).value_or(std::vector<int>(jobs.size(), 0));
    at_first_ = LedgerOf(state, jobs, levels, {});
  }

  // Lets running jobs end until this one starts too.
  Verdict Admit(const AdmissionJob& job) {
    const AdmissionState empty = Empty();
    const AdmissionJob* alone[] = {&job};
    if (!choose_(empty, alone)) return Never(empty, job);
    auto levels = FittingWith(job);
    const std::optional<AdmissionLedger> on_host = levels ? std::nullopt : ForWantOfHost(job);
    while (!levels) {
      EndNext();
      levels = FittingWith(job);
    }
    Verdict verdict{.level = levels->back()};
    const LevelNeed& need = Need(job, verdict.level);
    if (last_ended_ != nullptr) {
      verdict.kind = Verdict::Kind::kAfter;
      verdict.after = last_ended_->id;
      verdict.paused = last_ended_->paused;
      verdict.wait = now_;
      verdict.ledger = LedgerOf(state_, {}, {}, need);
      verdict.ledger.others = at_first_.others;
      verdict.ledger.host_others = at_first_.host_others;
      if (on_host && !verdict.ledger.HostIsShort()) {
        verdict.ledger.host = on_host->host;
        verdict.ledger.host_others = on_host->host_others;
        verdict.ledger.host_instead = true;
      }
      verdict.ledger.lane = std::max(verdict.ledger.lane, at_first_.lane);
    } else {
      levels->pop_back();
      verdict.ledger = LedgerOf(state_, JobsNow(), *levels, need);
    }
    Start(job);
    return verdict;
  }

 private:
  struct Sizes {
    Bytes region, lane, host;
  };
  struct Running {
    const AdmissionJob* job;
    std::optional<Micros> end;
    Sizes first, least;
  };

  // What others than the jobs hold goes with them.
  AdmissionState Empty() const {
    return {.pool = state_.pool, .granule = state_.granule, .host = state_.host};
  }
  Sizes SizesOf(const LevelNeed& need) const {
    return {AlignUp(need.region, state_.granule), AlignUp(need.lane, state_.granule), need.host};
  }
  Sizes LeastOf(const AdmissionJob& job) const {
    Sizes least = SizesOf(job.levels[0]);
    for (const LevelNeed& level : job.levels) {
      const Sizes sizes = SizesOf(level);
      least = {std::min(least.region, sizes.region), std::min(least.lane, sizes.lane),
               std::min(least.host, sizes.host)};
    }
    return least;
  }
  // Of the running jobs and one more.
  bool Fit(Sizes more, Sizes Running::*which) const {
    Sizes sum = more;
    if (!running_.empty()) sum.host += state_.host_taken;
    for (const Running& running : running_) {
      const Sizes& sizes = running.*which;
      sum.region += sizes.region;
      sum.lane = std::max(sum.lane, sizes.lane);
      sum.host += sizes.host;
    }
    return sum.region + sum.lane <= state_.pool &&
           (state_.host == Bytes(0) || sum.host <= state_.host);
  }
  std::optional<std::vector<int>> FittingWith(const AdmissionJob& job) const {
    if (!Fit(LeastOf(job), &Running::least)) return std::nullopt;
    if (WithinCap(state_, job, 0) && Fit(SizesOf(job.levels[0]), &Running::first)) {
      return std::vector<int>(running_.size() + 1, 0);
    }
    std::vector<const AdmissionJob*> jobs = JobsNow();
    jobs.push_back(&job);
    return choose_(running_.empty() ? Empty() : state_, jobs);
  }
  // What it and the jobs that run now would take if the host's memory had no limit, where that is
  // all that keeps it from starting.
  std::optional<AdmissionLedger> ForWantOfHost(const AdmissionJob& job) const {
    if (state_.host == Bytes(0) || last_ended_ != nullptr) return std::nullopt;
    std::vector<const AdmissionJob*> jobs = JobsNow();
    jobs.push_back(&job);
    auto levels = choose_({.pool = state_.pool, .granule = state_.granule}, jobs);
    if (!levels) return std::nullopt;
    const LevelNeed& own = Need(job, levels->back());
    jobs.pop_back();
    levels->pop_back();
    return LedgerOf(state_, jobs, *levels, own);
  }
  std::vector<const AdmissionJob*> JobsNow() const {
    std::vector<const AdmissionJob*> jobs;
    jobs.reserve(running_.size() + 1);
    for (const Running& running : running_) jobs.push_back(running.job);
    return jobs;
  }
  void Start(const AdmissionJob& job) {
    std::optional<Micros> end;
    if (now_ && job.left && !job.paused) end = *now_ + *job.left;
    // A cap that bars the first level of a job bars all at their first levels.
    const Sizes first = SizesOf(job.levels[0]);
    const Bytes barred = state_.pool + state_.granule;
    running_.push_back({&job, end,
                        WithinCap(state_, job, 0) ? first : Sizes{barred, first.lane, first.host},
                        LeastOf(job)});
  }
  void EndNext() {
    EBB_CHECK(!running_.empty());  // alone it fits
    const auto key = [](const Running& running) {
      return std::make_tuple(running.job->paused, !running.end, running.end.value_or(Micros(0)));
    };
    const auto next =
        std::min_element(running_.begin(), running_.end(),
                         [&](const Running& a, const Running& b) { return key(a) < key(b); });
    last_ended_ = next->job;
    now_ = next->end;
    running_.erase(next);
  }

  const AdmissionState& state_;
  const ChooseLevels& choose_;
  std::vector<Running> running_;
  AdmissionLedger at_first_;
  std::optional<Micros> now_ = Micros(0);  // nullopt: after an end that is not known
  const AdmissionJob* last_ended_ = nullptr;
};

std::string Span(Micros time) {
  if (time < Micros(1'000'000)) return absl::StrCat((time.count() + 500) / 1000, " ms");
  const int64_t seconds = (time.count() + 500'000) / 1'000'000;
  if (seconds < 60) return absl::StrCat(seconds, " s");
  constexpr int64_t kDay = int64_t{24} * 60;  // minutes
  const int64_t minutes = (seconds + 30) / 60;
  if (minutes < 60) return absl::StrCat(minutes, " min");
  if (minutes < 2 * kDay) return absl::StrFormat("%d h %d min", minutes / 60, minutes % 60);
  return absl::StrCat(minutes / kDay, " days");
}

std::string TimeText(absl::Time at, absl::Time now) {
  const absl::TimeZone zone = absl::LocalTimeZone();
  const char* form = at - now < absl::Hours(20) ? "%H:%M" : "%Y-%m-%d %H:%M";
  return absl::FormatTime(form, at, zone);
}

}  // namespace

std::optional<std::vector<int>> CheapestLevels(const AdmissionState& state, Jobs jobs) {
  std::vector<int> levels;
  for (const AdmissionJob* job : jobs) {
    EBB_CHECK(!job->levels.empty());
    levels.push_back(Allowed(state, *job, 0));
    if (levels.back() < 0) return std::nullopt;
  }
  for (;;) {
    const Excess now = ExcessOf(state, jobs, levels);
    if (now.Fits()) return Relaxed(state, jobs, std::move(levels));
    double best = 0;
    std::vector<int> chosen;
    for (size_t j = 0; j < jobs.size(); ++j) {
      int level = Allowed(state, *jobs[j], levels[j] + 1);
      for (; level >= 0; level = Allowed(state, *jobs[j], level + 1)) {
        std::vector<int> changed = levels;
        changed[j] = level;
        const Excess after = ExcessOf(state, jobs, changed);
        const double price = Need(*jobs[j], level).Price() - Need(*jobs[j], levels[j]).Price();
        const double paid = std::max(price, 1.0);
        const double worth = after.Fits() ? 1e30 / paid : (now.pool - after.pool) / Bytes(1) / paid;
        if (worth <= best) continue;
        best = worth;
        chosen = std::move(changed);
      }
    }
    if (best == 0) {
      auto same = SameLevel(state, jobs);
      if (same) same = Relaxed(state, jobs, *std::move(same));
      return same;
    }
    levels = std::move(chosen);
  }
}

std::vector<Verdict> Forecast(const AdmissionState& state, const ChooseLevels& choose) {
  Course course(state, choose);
  std::vector<Verdict> verdicts;
  for (const AdmissionJob& job : state.waiting) verdicts.push_back(course.Admit(job));
  return verdicts;
}

Verdict Ask(AdmissionState state, const AdmissionJob& job, const ChooseLevels& choose) {
  state.waiting.push_back(job);
  return Forecast(state, choose).back();
}

std::string InWords(const Verdict& verdict, std::optional<absl::Time> now) {
  switch (verdict.kind) {
    case Verdict::Kind::kFitsNow:
      return "fits now";
    case Verdict::Kind::kAfter: {
      const std::string after = absl::StrCat("after j-", verdict.after.value());
      if (verdict.paused) return absl::StrCat(after, ", which is paused");
      if (!verdict.wait) return absl::StrCat(after, ", whose end is not known yet");
      if (!now) return absl::StrCat(after, " in about ", Span(*verdict.wait), " of device time");
      const absl::Time at = *now + absl::Microseconds(verdict.wait->count());
      return absl::StrCat(after, " at about ", TimeText(at, *now), " (in ", Span(*verdict.wait),
                          ")");
    }
    case Verdict::Kind::kNever: {
      constexpr const char* kWhose[] = {" of the pool", " (resources.memory_max)",
                                        " of the host's memory (ebbd --host_memory)"};
      const char* whose = kWhose[static_cast<int>(verdict.limit)];
      std::string needs = FormatBytes(verdict.needs), most = FormatBytes(verdict.most);
      if (needs == most) {  // they differ in digits that are not shown
        needs = absl::StrCat(verdict.needs.count(), " bytes");
        most = absl::StrCat(verdict.most.count(), " bytes");
      }
      if (verdict.at_least) needs = absl::StrCat("at least ", needs, " without recompute");
      return absl::StrCat("never: needs ", needs, ", at most ", most, whose);
    }
  }
  return "";
}

std::string InWords(const AdmissionLedger& ledger) {
  const std::string pool =
      absl::StrCat("needs ", FormatBytes(ledger.region), " and a lane of ",
                   FormatBytes(ledger.lane), "; the pool of ", FormatBytes(ledger.pool), " holds ",
                   FormatBytes(ledger.others), " of other jobs");
  if (!ledger.HostIsShort()) return pool;
  const char* with = ledger.host_instead ? "; with less of that it would start, but " : "; it ";
  return absl::StrCat(ledger.Total() > ledger.pool ? pool + with : "", "needs ",
                      FormatBytes(ledger.host), " of the host's memory; the ",
                      FormatBytes(ledger.host_limit), " for jobs (ebbd --host_memory) hold ",
                      FormatBytes(ledger.host_others), " of other jobs");
}

std::string InWords(absl::Span<const AdmissionJob> before) {
  if (before.empty()) return "";
  const std::string first = absl::StrCat("; j-", before[0].id.value());
  return before.size() == 1
             ? first + " is before it"
             : absl::StrCat(first, " and ", before.size() - 1, " more are before it");
}

}  // namespace ebb::runtime
