// Jobs of different precision on one CUDA device: each product and convolution is asked of the
// libraries as its job says, forward and both gradients, at every level of the memory ladder that
// the pool forces; and the bits of each job are those of its solo run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/mutex.h"
#include "tests/device/cuda_double/open_double.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using device::Precision;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Pair;

// How many products and convolutions were made, by precision.
class Asked {
 public:
  std::function<void(Precision)> Teller() {
    return [this](Precision precision) {
      MutexLock lock(&mu_);
      ++counts_[precision];
    };
  }
  std::map<Precision, int> counts() {
    MutexLock lock(&mu_);
    return counts_;
  }

 private:
  Mutex mu_;
  std::map<Precision, int> counts_ ABSL_GUARDED_BY(mu_);
};

std::vector<runtime::JobSpec> Jobs(graph::Precision precision) {
  std::vector<runtime::JobSpec> specs;
  for (const Net net : {Net::kMlp, Net::kCnn}) {
    JobOptions options{.net = net, .width = net == Net::kMlp ? 96 : 8, .steps = 8};
    options.also = [precision](runtime::JobSpec* spec) { spec->precision = precision; };
    specs.push_back(MakeJob(options));
  }
  return specs;
}

std::vector<std::string> Train(const std::vector<runtime::JobSpec>& specs, Bytes memory,
                               Asked* asked) {
  CudaDouble opened = OpenCudaDouble({.asked = asked->Teller()});
  auto engine = runtime::Engine::Create(std::move(opened.device), {.memory = memory});
  EXPECT_TRUE(engine.ok()) << engine.status();
  std::vector<JobId> jobs;
  for (const runtime::JobSpec& spec : specs) {
    const auto job = (*engine)->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    if (job.ok()) jobs.push_back(*job);
  }
  std::vector<std::string> bits;
  for (const JobId job : jobs) {
    EXPECT_EQ(WaitUntilFinal(**engine, job).state, runtime::JobState::kSucceeded);
    bits.push_back(Fingerprint(**engine, job));
  }
  return bits;
}

TEST(JobsInTf32, AskItOfTheLibrariesForwardAndBackwardBesideOthersThatDoNot) {
  std::vector<runtime::JobSpec> all;
  std::vector<std::string> solo;
  for (const graph::Precision precision : {graph::Precision::kTf32, graph::Precision::kFp32}) {
    const bool tf32 = precision == graph::Precision::kTf32;
    for (const runtime::JobSpec& spec : Jobs(precision)) {
      Asked asked;
      solo.push_back(Train({spec}, MiB(64), &asked).at(0));
      EXPECT_THAT(asked.counts(),
                  ElementsAre(Pair(tf32 ? Precision::kTf32 : Precision::kF32, Gt(2))));
      all.push_back(spec);
    }
  }
  EXPECT_NE(solo[0], solo[2]);
  EXPECT_NE(solo[1], solo[3]);
  for (const Bytes memory : {MiB(64), MiB(4)}) {
    SCOPED_TRACE(FormatBytes(memory));
    Asked asked;
    EXPECT_EQ(Train(all, memory, &asked), solo);
    EXPECT_THAT(asked.counts(),
                ElementsAre(Pair(Precision::kF32, Gt(4)), Pair(Precision::kTf32, Gt(4))));
  }
}

}  // namespace
}  // namespace ebb::testing
