// Whether a job fits now, after which other job, or never, and the bytes behind the answer. Pure
// functions over plain structs: no clock, no device, no job but what is told of it here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "base/units.h"

namespace ebb::runtime {

// What a job takes when it is held in one of the ways in which it can be.
struct LevelNeed {
  std::string name;
  Bytes region;           // its own in the pool: resident state and staged batches
  Bytes lane;             // its largest step; a lane is shared
  Bytes host;             // on the host
  Bytes copied;           // between the two, by a training step
  double exposed_us = 0;  // of a training step, for which it waits for that
  bool at_least = false;  // the lane is a lower bound: the step, in which nothing is
                          // recomputed then, was too large to be planned
  // What waits is dear, what is only copied is cheap: a microsecond is worth a megabyte.
  double Price() const { return exposed_us * 1e6 + static_cast<double>(copied.count()); }
};

struct AdmissionJob {
  JobId id;                       // invalid: not submitted
  std::vector<LevelNeed> levels;  // at least one; earlier ones are better
  Bytes cap;                      // of region and lane; 0: none
  // Device time that it takes once admitted, or that a running one has left; nullopt: not known.
  std::optional<Micros> left;
  bool paused = false;  // a paused job has no end
};

struct AdmissionState {
  Bytes pool;
  Bytes granule;
  Bytes host;        // what all may take of the host's memory; 0: no limit
  Bytes host_taken;  // of it, by what the jobs below share: until the last of them ends
  std::vector<AdmissionJob> running;
  std::vector<AdmissionJob> waiting;  // first come, first admitted
};

// A level for each of the jobs with which all of them fit at once; nullopt: there is none. Asked
// where not all of them fit at their first levels, and for a job alone.
using ChooseLevels = std::function<std::optional<std::vector<int>>(
    const AdmissionState& state, absl::Span<const AdmissionJob* const> jobs)>;
// Such levels for which the steps copy little. Begins with every job's first one; each time takes
// the change that is enough for the least price or, when none is, frees the most for a byte copied.
std::optional<std::vector<int>> CheapestLevels(const AdmissionState& state,
                                               absl::Span<const AdmissionJob* const> jobs);

// Who needs which bytes of the pool at the moment that the verdict speaks of.
struct AdmissionLedger {
  Bytes pool;
  Bytes others;       // regions of other jobs; for kAfter those of now
  Bytes region;       // the job's own
  Bytes peak;         // its largest step
  Bytes lane;         // the largest step of all, which the smallest lane must hold
  Bytes host;         // the job's own on the host
  Bytes host_others;  // of other jobs there, as `others`
  Bytes host_limit;   // 0: none
  // kAfter: with less of the pool it would start now; `host` and `host_others` are those of then.
  bool host_instead = false;
  Bytes Total() const { return others + region + lane; }
  bool HostIsShort() const { return host_limit > Bytes(0) && host + host_others > host_limit; }
};

struct Verdict {
  enum class Kind { kFitsNow, kAfter, kNever };
  enum class Limit { kPool, kCap, kHost };
  Kind kind = Kind::kFitsNow;
  int level = 0;               // kNever: the one that comes closest
  JobId after;                 // kAfter: the job whose end lets it start
  std::optional<Micros> wait;  // kAfter: until then, in device time; nullopt: not known
  bool paused = false;         // kAfter: `after` is paused, and so has no end
  Limit limit = Limit::kPool;  // kNever: what is too small
  Bytes needs;                 // kNever: the least it takes of that; `at_least` as in LevelNeed
  bool at_least = false;
  Bytes most;  // kNever: what there is
  AdmissionLedger ledger;
};

// One for every waiting job, in order. Running jobs end in the order of the time that they have
// left, those without one last; whenever one ends, waiting jobs start in their order.
std::vector<Verdict> Forecast(const AdmissionState& state,
                              const ChooseLevels& choose = CheapestLevels);
// Of a job that came last.
Verdict Ask(AdmissionState state, const AdmissionJob& job,
            const ChooseLevels& choose = CheapestLevels);

// "fits now", "after j-3 at about 14:02 (in 12 min)", "never: needs 9.0 GiB, at most 4.0 GiB".
// `now` in the time zone of whoever reads it; nullopt: the device's time is not the wall's.
std::string InWords(const Verdict& verdict, std::optional<absl::Time> now);
// "needs 1.2 GiB and a lane of 3.0 GiB; the pool of 4.0 GiB holds 2.1 GiB of other jobs", and the
// same of the host's memory where that is what is short.
std::string InWords(const AdmissionLedger& ledger);
// "; j-5 and 2 more are before it"; nothing where nobody waits before it.
std::string InWords(absl::Span<const AdmissionJob> before);

}  // namespace ebb::runtime
