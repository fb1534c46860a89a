// Jobs that are fed what the same jobs would read from a file, and what they must train to.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/feed.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {

using graph::DType;
using graph::HostTensor;
using runtime::Engine;
using runtime::Feed;
using runtime::JobInfo;
using runtime::JobSpec;
using runtime::JobState;

using Fields = std::map<std::string, HostTensor>;

inline constexpr int64_t kBatch = 32;
inline constexpr int64_t kSteps = 40;  // more than two epochs of 15 batches

inline JobOptions Options() {
  return {.net = Net::kMlp, .optim = Optim::kAdam, .batch = kBatch, .width = 16, .steps = kSteps};
}

inline JobSpec FedJob(JobOptions options = Options()) {
  JobSpec spec = MakeJob(options);
  spec.train = {};
  const bool images = options.net == Net::kCnn;
  const graph::Shape row = images ? graph::Shape{1, 8, 8} : graph::Shape{64};
  spec.train.feed =
      runtime::FeedSpec{.schema = {{"x", {DType::kF32, row}}, {"label", {DType::kI64, {}}}}};
  return spec;
}

// Step `step`'s batch of the job that reads its rows from a file.
inline Fields BatchOf(const JobSpec& file, int64_t step) {
  data::BatchSource source{.data = file.train.data,
                           .batch_size = file.batch_size,
                           .seed = file.seed_data,
                           .order = data::BatchSource::Order::kShuffled};
  source.rows.resize(static_cast<size_t>(source.data->rows()));
  std::iota(source.rows.begin(), source.rows.end(), 0);
  const int64_t batches = source.BatchesPerEpoch();
  const std::vector<int64_t> order = data::EpochOrder(source, step / batches);
  Fields fields;
  for (const auto& [name, tensor] : source.data->fields()) {
    graph::TensorType type = tensor.type;
    const auto row = static_cast<int64_t>(tensor.data.size()) / type.shape[0];
    type.shape[0] = file.batch_size;
    HostTensor part = HostTensor::Zeros(type);
    for (int64_t r = 0; r < file.batch_size; ++r) {
      const int64_t from = order[static_cast<size_t>(step % batches * file.batch_size + r)];
      std::memcpy(part.data.data() + r * row, tensor.data.data() + from * row,
                  static_cast<size_t>(row));
    }
    fields[name] = std::move(part);
  }
  return fields;
}

inline std::shared_ptr<Feed> FeedOf(const Engine& engine, JobId job) {
  auto feed = engine.FeedOf(job);
  EXPECT_TRUE(feed.ok()) << feed.status();
  return *std::move(feed);
}

inline absl::Time Soon() { return absl::Now() + absl::Minutes(2); }

inline Feed::Stream Opened(Feed& feed, const Feed::Client& client = {}) {
  const auto stream = feed.Open(client, absl::Now());
  EXPECT_TRUE(stream.ok()) << stream.status();
  return stream.value_or(0);
}

// Pushes batches [from, to) on a stream of its own.
inline void Push(Feed& feed, const JobSpec& file, int64_t from, int64_t to) {
  const Feed::Stream stream = Opened(feed);
  for (int64_t n = from; n < to; ++n) {
    ASSERT_TRUE(feed.AwaitRoom(stream, Soon())) << n;
    const absl::Status pushed = feed.Push(stream, n, BatchOf(file, n));
    ASSERT_TRUE(pushed.ok()) << pushed;
  }
  feed.Close(stream);
}

inline void End(Feed& feed, int64_t batches) {
  const Feed::Stream stream = Opened(feed);
  const absl::Status ended = feed.End(stream, batches);
  EXPECT_TRUE(ended.ok()) << ended;
  feed.Close(stream);
}

// All that training produced but sums over epochs, which a feed does not have.
inline std::string Bits(const Engine& engine, JobId job) {
  std::string bits;
  const auto result = engine.Result(job);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return bits;
  for (const auto* tensors : {&(*result)->weights, &(*result)->slots}) {
    for (const auto& [name, tensor] : std::map(tensors->begin(), tensors->end())) {
      absl::StrAppend(
          &bits, name,
          absl::string_view(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()));
    }
  }
  const auto points = engine.Metrics(job, 0);
  for (const runtime::MetricPoint& point : *points) {
    if (absl::StartsWith(point.name, "epoch/")) continue;
    absl::StrAppend(&bits, point.name, absl::Hex(std::bit_cast<uint64_t>(point.value)), "\n");
  }
  return bits;
}

inline std::string FromFile(const JobSpec& spec) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto job = engine->Submit(spec);
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
  return Bits(*engine, *job);
}

inline JobId Submitted(Engine& engine, JobSpec spec) {
  const auto job = engine.Submit(std::move(spec));
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : JobId();
}

// Waits until the job says that it waits for `batch`.
inline void AwaitHunger(const Engine& engine, JobId job, int64_t batch) {
  const std::string words = absl::StrCat("waits for data from its client (batch ", batch, "; ");
  const absl::Time deadline = Soon();
  while (!absl::StrContains(engine.Get(job)->why, words)) {
    ASSERT_LT(absl::Now(), deadline) << engine.Get(job)->why;
    ASSERT_FALSE(IsFinal(engine.Get(job)->state)) << engine.Get(job)->message;
    std::this_thread::yield();
  }
}

}  // namespace ebb::testing
