#include "runtime/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/time/clock.h"
#include "runtime/batch_search.h"

namespace ebb::runtime {
namespace {

using ::testing::HasSubstr;
using Kind = Verdict::Kind;

constexpr Micros Minutes(int64_t n) { return Micros(n * 60'000'000); }

AdmissionJob Job(int64_t id, Bytes region, Bytes lane, std::optional<Micros> left = std::nullopt) {
  return {.id = JobId(id), .levels = {{"resident", region, lane, Bytes(0)}}, .left = left};
}
AdmissionState Pool(Bytes pool) { return {.pool = pool, .granule = MiB(1)}; }

TEST(Admission, FitsBesideOthersWhenRegionsAndTheLargestStepDo) {
  AdmissionState state = Pool(MiB(100));
  EXPECT_EQ(Ask(state, Job(1, MiB(40), MiB(60))).kind, Kind::kFitsNow);
  state.running = {Job(1, MiB(40), MiB(30), Minutes(1))};
  EXPECT_EQ(Ask(state, Job(2, MiB(30), MiB(20))).kind, Kind::kFitsNow);
  EXPECT_EQ(Ask(state, Job(2, MiB(30), MiB(30))).kind, Kind::kFitsNow);
  EXPECT_EQ(Ask(state, Job(2, MiB(30), MiB(31))).kind, Kind::kAfter);
  EXPECT_EQ(Ask(state, Job(2, MiB(31), MiB(20))).kind, Kind::kAfter);
}

TEST(Admission, RoundsWhatIsMappedUpToGranules) {
  AdmissionState state = Pool(MiB(4));
  state.running = {Job(1, KiB(1), KiB(1))};
  EXPECT_EQ(Ask(state, Job(2, MiB(1) + Bytes(1), KiB(1))).kind, Kind::kFitsNow);
  EXPECT_EQ(Ask(state, Job(2, MiB(2) + Bytes(1), KiB(1))).kind, Kind::kAfter);
}

TEST(Admission, TheLedgerIsWhatTheAnswerRestsOn) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(40), MiB(30))};
  const Verdict verdict = Ask(state, Job(2, MiB(20), KiB(500)));
  EXPECT_EQ(verdict.ledger.pool, MiB(100));
  EXPECT_EQ(verdict.ledger.others, MiB(40));
  EXPECT_EQ(verdict.ledger.region, MiB(20));
  EXPECT_EQ(verdict.ledger.peak, KiB(500));
  EXPECT_EQ(verdict.ledger.lane, MiB(30));
  EXPECT_EQ(verdict.ledger.Total(), MiB(90));
  EXPECT_EQ(InWords(verdict.ledger),
            "needs 20.0 MiB and a lane of 30.0 MiB; the pool of 100.0 MiB holds 40.0 MiB of other "
            "jobs");
}

TEST(Admission, NamesTheFirstJobWhoseEndIsEnoughAndWhen) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(20), MiB(10), Minutes(40)), Job(2, MiB(20), MiB(10), Minutes(12)),
                   Job(3, MiB(20), MiB(10), Minutes(5))};
  const Verdict verdict = Ask(state, Job(4, MiB(50), MiB(10)));
  EXPECT_EQ(verdict.kind, Kind::kAfter);  // 60 + 50 + 10 > 100; j-3's end frees 20
  EXPECT_EQ(verdict.after, JobId(3));
  EXPECT_EQ(verdict.wait, Minutes(5));
  const Verdict larger = Ask(state, Job(4, MiB(70), MiB(10)));
  EXPECT_EQ(larger.after, JobId(2));  // j-3's alone is not enough
  EXPECT_EQ(larger.wait, Minutes(12));
  EXPECT_EQ(larger.ledger.others, MiB(60));  // what stands in the way now
}

TEST(Admission, TheLargestLaneOfOthersCountsUntilItsJobEnds) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(1), MiB(90), Minutes(3)), Job(2, MiB(1), MiB(5), Minutes(1))};
  const Verdict verdict = Ask(state, Job(3, MiB(10), MiB(5)));
  EXPECT_EQ(verdict.after, JobId(1));
  EXPECT_EQ(verdict.wait, Minutes(3));
}

TEST(Admission, WaitingJobsStartInTheirOrderAndRunToTheirEnds) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(80), MiB(10), Minutes(10))};
  state.waiting = {Job(2, MiB(60), MiB(10), Minutes(7)), Job(3, MiB(5), MiB(10), Minutes(1)),
                   Job(4, MiB(50), MiB(10))};
  const std::vector<Verdict> verdicts = Forecast(state);
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(verdicts[0].after, JobId(1));
  EXPECT_EQ(verdicts[0].wait, Minutes(10));
  EXPECT_EQ(verdicts[1].after, JobId(1));  // small, but not before j-2
  EXPECT_EQ(verdicts[1].wait, Minutes(10));
  EXPECT_EQ(verdicts[2].after, JobId(2));
  EXPECT_EQ(verdicts[2].wait, Minutes(17));
}

TEST(Admission, AnUnknownEndHasNoTimeAndComesLastButForPausedJobs) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(30), MiB(10)), Job(2, MiB(30), MiB(10), Minutes(9)),
                   Job(3, MiB(30), MiB(10), Minutes(1))};
  state.running[2].paused = true;
  Verdict verdict = Ask(state, Job(4, MiB(30), MiB(10)));
  EXPECT_EQ(verdict.after, JobId(2));
  EXPECT_EQ(verdict.wait, Minutes(9));
  verdict = Ask(state, Job(4, MiB(60), MiB(10)));
  EXPECT_EQ(verdict.after, JobId(1));
  EXPECT_FALSE(verdict.wait.has_value());
  EXPECT_EQ(InWords(verdict, absl::Now()), "after j-1, whose end is not known yet");
  verdict = Ask(state, Job(4, MiB(90), MiB(10)));
  EXPECT_EQ(verdict.after, JobId(3));
  EXPECT_EQ(InWords(verdict, absl::Now()), "after j-3, which is paused");
}

TEST(Admission, WhatNeverFitsSaysByHowMuch) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(90), MiB(1), Minutes(1))};
  Verdict verdict = Ask(state, Job(2, MiB(50), MiB(51)));
  EXPECT_EQ(verdict.kind, Kind::kNever);
  EXPECT_EQ(InWords(verdict, absl::Now()), "never: needs 101.0 MiB, at most 100.0 MiB of the pool");

  AdmissionJob capped = Job(2, MiB(5), MiB(5));
  capped.cap = MiB(8);
  verdict = Ask(state, capped);
  EXPECT_EQ(verdict.limit, Verdict::Limit::kCap);
  EXPECT_EQ(InWords(verdict, absl::Now()),
            "never: needs 10.0 MiB, at most 8.0 MiB (resources.memory_max)");
  // A difference that rounding would hide.
  state = {.pool = GiB(100) + KiB(4), .granule = KiB(4)};
  verdict = Ask(state, Job(2, GiB(50) + KiB(8), GiB(50)));
  EXPECT_EQ(InWords(verdict, absl::Now()),
            "never: needs 107374190592 bytes, at most 107374186496 bytes of the pool");
}

TEST(Admission, HostMemoryIsALimitOfItsOwn) {
  AdmissionState state = Pool(MiB(100));
  state.host = MiB(64);
  AdmissionJob job = Job(2, MiB(1), MiB(1), Minutes(1));
  job.levels[0].host = MiB(65);
  EXPECT_EQ(InWords(Ask(state, job), absl::Now()),
            "never: needs 65.0 MiB, at most 64.0 MiB of the host's memory (ebbd --host_memory)");
  job.levels[0].host = MiB(40);
  EXPECT_EQ(Ask(state, job).kind, Kind::kFitsNow);
  state.running = {Job(1, MiB(1), MiB(1), Minutes(2))};
  state.running[0].levels[0].host = MiB(20);
  EXPECT_EQ(Ask(state, job).kind, Kind::kFitsNow);
  state.host_taken = MiB(5);  // what running jobs share goes with the last of them
  EXPECT_EQ(Ask(state, job).kind, Kind::kAfter);
  EXPECT_EQ(Ask(state, job).after, JobId(1));
  const std::string host =
      "needs 40.0 MiB of the host's memory; the 64.0 MiB for jobs (ebbd --host_memory) hold "
      "25.0 MiB of other jobs";
  EXPECT_EQ(InWords(Ask(state, job).ledger), host);
  // The pool is named where it is short: beside the host's memory, or alone.
  state.running[0].levels[0].region = MiB(99);
  const std::string pool =
      "needs 1.0 MiB and a lane of 1.0 MiB; the pool of 100.0 MiB holds 99.0 MiB of other jobs";
  EXPECT_EQ(InWords(Ask(state, job).ledger), pool + "; it " + host);
  job.levels[0].host = MiB(39);
  EXPECT_EQ(InWords(Ask(state, job).ledger), pool);
}

TEST(Admission, AJobThatWouldStartWithMoreOfItsStateOnTheHostSaysThatTheHostIsShort) {
  AdmissionState state = Pool(MiB(100));
  state.running = {Job(1, MiB(60), MiB(10), Minutes(2))};
  AdmissionJob job = Job(2, MiB(50), MiB(10), Minutes(1));
  job.levels.push_back({"streamed", MiB(20), MiB(10), MiB(30)});
  EXPECT_EQ(Ask(state, job).kind, Kind::kFitsNow);
  state.host = MiB(64);
  state.host_taken = MiB(40);
  const Verdict verdict = Ask(state, job);
  EXPECT_EQ(verdict.kind, Kind::kAfter);
  EXPECT_EQ(InWords(verdict.ledger),
            "needs 50.0 MiB and a lane of 10.0 MiB; the pool of 100.0 MiB holds 60.0 MiB of other "
            "jobs; with less of that it would start, but needs 30.0 MiB of the host's memory; the "
            "64.0 MiB for jobs (ebbd --host_memory) hold 40.0 MiB of other jobs");
  // Where no level fits beside the other job, the host has no part in it.
  job.levels[1].region = MiB(50);
  EXPECT_EQ(InWords(Ask(state, job).ledger),
            "needs 50.0 MiB and a lane of 10.0 MiB; the pool of 100.0 MiB holds 60.0 MiB of other "
            "jobs");
}

TEST(Admission, SaysWhoIsBeforeAJob) {
  const std::vector<AdmissionJob> waiting = {Job(5, MiB(1), MiB(1)), Job(7, MiB(1), MiB(1)),
                                             Job(8, MiB(1), MiB(1))};
  const auto before = absl::MakeConstSpan(waiting);
  EXPECT_EQ(InWords(before.first(0)), "");
  EXPECT_EQ(InWords(before.first(1)), "; j-5 is before it");
  EXPECT_EQ(InWords(before), "; j-5 and 2 more are before it");
}

TEST(Admission, TakesTheFirstLevelsThatFit) {
  AdmissionState state = Pool(MiB(100));
  AdmissionJob job = Job(2, MiB(60), MiB(30));
  job.levels.push_back({"slots on the host", MiB(30), MiB(32), MiB(30)});
  job.levels.push_back({"streamed", MiB(4), MiB(40), MiB(60)});
  EXPECT_EQ(Ask(state, job).level, 0);
  state.running = {Job(1, MiB(20), MiB(10), Minutes(1))};
  Verdict verdict = Ask(state, job);
  EXPECT_EQ(verdict.kind, Kind::kFitsNow);
  EXPECT_EQ(verdict.level, 1);
  EXPECT_EQ(verdict.ledger.region, MiB(30));
  // Running jobs give way too: here j-1's second level saves more than the newcomer's.
  state.running[0] = Job(1, MiB(50), MiB(10), Minutes(1));
  state.running[0].levels.push_back({"streamed", MiB(1), MiB(12), MiB(50)});
  job.levels.resize(2);
  verdict = Ask(state, job);
  EXPECT_EQ(verdict.kind, Kind::kFitsNow);
  EXPECT_EQ(verdict.level, 0);
  // The cap bars levels that take more.
  job.cap = MiB(70);
  EXPECT_EQ(Ask(state, job).level, 1);
  job.cap = MiB(40);
  verdict = Ask(state, job);
  EXPECT_EQ(verdict.kind, Kind::kNever);
  EXPECT_EQ(verdict.needs, MiB(62));
}

// Forecasts of random queues, held against what they must mean: at no instant is more in the pool
// than fits, nobody starts before who came first, and nobody could have started earlier.
TEST(Admission, ForecastsOfRandomQueuesAreFeasibleFairAndPrompt) {
  std::mt19937_64 random(11);
  const auto dice = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  int waited = 0;
  for (int round = 0; round < 300; ++round) {
    AdmissionState state = Pool(MiB(100));
    struct Course {
      const AdmissionJob* job;
      Micros start, end;
    };
    const auto fits_at = [&](const std::vector<Course>& courses, Micros at,
                             const AdmissionJob* more) {
      Bytes regions, lane;
      const auto add = [&](const AdmissionJob& job) {
        regions += job.levels[0].region;
        lane = std::max(lane, job.levels[0].lane);
      };
      for (const Course& course : courses) {
        if (course.start <= at && at < course.end) add(*course.job);
      }
      if (more != nullptr) add(*more);
      return regions + lane <= state.pool;
    };
    int64_t next = 1;
    const auto draw = [&] {
      return Job(next++, MiB(dice(1, 40)), MiB(dice(1, 50)), Micros(dice(1, 1000)));
    };
    for (int tries = 0; tries < 6; ++tries) {
      const AdmissionJob job = draw();
      if (Ask(state, job).kind == Kind::kFitsNow) state.running.push_back(job);
    }
    for (int64_t n = dice(1, 12); n > 0; --n) state.waiting.push_back(draw());
    const std::vector<Verdict> verdicts = Forecast(state);
    std::vector<Course> courses;
    for (const AdmissionJob& job : state.running) courses.push_back({&job, Micros(0), *job.left});
    Micros latest;
    for (size_t i = 0; i < verdicts.size(); ++i) {
      const AdmissionJob& job = state.waiting[i];
      ASSERT_NE(verdicts[i].kind, Kind::kNever);
      const Micros start = verdicts[i].wait.value_or(Micros(0));
      ASSERT_GE(start, latest) << "round " << round;
      if (start > latest) {
        ASSERT_FALSE(fits_at(courses, start - Micros(1), &job)) << "round " << round;
      }
      if (verdicts[i].kind == Kind::kAfter) {
        ++waited;
        bool ends = false;
        for (const Course& course : courses) {
          ends |= course.job->id == verdicts[i].after && course.end == start;
        }
        ASSERT_TRUE(ends) << "round " << round;
      }
      latest = start;
      courses.push_back({&job, start, start + *job.left});
      ASSERT_TRUE(fits_at(courses, start, nullptr)) << "round " << round;
    }
  }
  EXPECT_GT(waited, 500);
}

TEST(Admission, SpeaksOfTheWallOrOfTheDevice) {
  Verdict verdict{.kind = Kind::kAfter, .after = JobId(3), .wait = Minutes(12)};
  absl::TimeZone zone = absl::LocalTimeZone();
  const absl::Time noon = absl::FromCivil(absl::CivilSecond(2024, 5, 6, 12, 0, 0), zone);
  EXPECT_EQ(InWords(verdict, noon), "after j-3 at about 12:12 (in 12 min)");
  EXPECT_EQ(InWords(verdict, std::nullopt), "after j-3 in about 12 min of device time");
  verdict.wait = Minutes(60 * 30);
  EXPECT_EQ(InWords(verdict, noon), "after j-3 at about 2024-05-07 18:00 (in 30 h 0 min)");
  verdict.wait = Micros(2'600'000);
  EXPECT_EQ(InWords(verdict, noon), "after j-3 at about 12:00 (in 3 s)");
  EXPECT_EQ(InWords(Verdict{}, noon), "fits now");
}

// --- the largest batch ---------------------------------------------------------------------------

struct Counted {
  int64_t largest = 0;
  int attempts = 0;
};
// Among jobs that take bytes(batch) of `limit`.
Counted Search(int64_t most, int64_t limit, const std::function<double(int64_t)>& bytes,
               bool told = true) {
  Counted counted;
  counted.largest = LargestBatch(most, Bytes(limit), [&](int64_t batch) -> BatchTrial {
    EXPECT_GE(batch, 1);
    EXPECT_LE(batch, most);
    ++counted.attempts;
    const auto needs = static_cast<int64_t>(bytes(batch));
    return {needs <= limit, told ? std::optional<Bytes>(Bytes(needs)) : std::nullopt};
  });
  return counted;
}

TEST(BatchSearch, FindsTheLargestOnLinesInAFewAttempts) {
  for (const int64_t largest : {1, 2, 7, 8, 93, 1000, 123'456}) {
    const auto line = [](int64_t batch) { return 5000.0 + 37.0 * static_cast<double>(batch); };
    const Counted counted = Search(1 << 24, 5000 + 37 * largest + 36, line);
    EXPECT_EQ(counted.largest, largest);
    EXPECT_LE(counted.attempts, 7) << largest;
  }
}

TEST(BatchSearch, FindsItOnStepsAndCurvesToo) {
  const auto steps = [](int64_t b) { return 1000.0 * static_cast<double>((b + 31) / 32); };
  EXPECT_EQ(Search(1 << 24, 10'500, steps).largest, 320);
  const auto square = [](int64_t b) { return static_cast<double>(b) * static_cast<double>(b); };
  const Counted counted = Search(1 << 24, 1'000'000'000, square);
  EXPECT_EQ(counted.largest, 31'622);
  EXPECT_LE(counted.attempts, 40);
  const auto flat = [](int64_t b) { return b < 5000 ? 10.0 : 1e6; };
  EXPECT_EQ(Search(1 << 24, 100, flat).largest, 4999);
  EXPECT_EQ(Search(1 << 24, 100, flat, false).largest, 4999);
}

TEST(BatchSearch, StaysWithinWhatIsAskedFor) {
  const auto line = [](int64_t b) { return static_cast<double>(b); };
  EXPECT_EQ(Search(64, 1000, line).largest, 64);
  EXPECT_EQ(Search(1, 1000, line).largest, 1);
  EXPECT_EQ(Search(0, 1000, line).largest, 0);
  EXPECT_EQ(Search(100, 0, line).largest, 0);
  EXPECT_LE(Search(64, 1000, line).attempts, 6);
}

TEST(BatchSearch, RoundsToMultiplesOfEightFromEightOn) {
  EXPECT_EQ(RoundedBatch(1), 1);
  EXPECT_EQ(RoundedBatch(7), 7);
  EXPECT_EQ(RoundedBatch(8), 8);
  EXPECT_EQ(RoundedBatch(103), 96);
}

}  // namespace
}  // namespace ebb::runtime
