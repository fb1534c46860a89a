#include "perfmodel/strategy.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

constexpr int64_t kMostRanks = 1 << 16;
constexpr int64_t kMostMicroBatches = 1 << 16;

absl::Status Fault(const Strategy& strategy, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("strategy ", ToString(strategy), ": ", what));
}

// "dp4": a number after a word.
bool Numbered(absl::string_view part, absl::string_view word, int64_t* number) {
  return absl::ConsumePrefix(&part, word) && absl::SimpleAtoi(part, number);
}

}  // namespace

std::string ToString(const Strategy& strategy) {
  std::vector<std::string> parts;
  const auto add = [&](absl::string_view word, int64_t number) {
    if (number != 1) parts.push_back(absl::StrCat(word, number));
  };
  add("dp", strategy.data);
  add("tp", strategy.tensor);
  add("pp", strategy.pipeline);
  add("m", strategy.micro_batches);
  if (strategy.pipeline > 1) parts.emplace_back(Name(strategy.schedule));
  add("v", strategy.chunks);
  if (strategy.zero > 0) parts.push_back(absl::StrCat("zero", strategy.zero));
  return parts.empty() ? "1 GPU" : absl::StrJoin(parts, "-");
}

absl::StatusOr<Strategy> ParseStrategy(absl::string_view text) {
  Strategy strategy;
  if (text == "1 GPU" || text == "1") return strategy;
  for (const absl::string_view part : absl::StrSplit(text, '-')) {
    int64_t zero = 0;
    if (Numbered(part, "dp", &strategy.data) || Numbered(part, "tp", &strategy.tensor) ||
        Numbered(part, "pp", &strategy.pipeline) || Numbered(part, "m", &strategy.micro_batches) ||
        Numbered(part, "v", &strategy.chunks)) {
      continue;
    }
    if (Numbered(part, "zero", &zero) && zero >= 0 && zero <= 3) {
      strategy.zero = static_cast<int>(zero);
    } else if (part == "gpipe") {
      strategy.schedule = Schedule::kGPipe;
    } else if (part == "1f1b") {
      strategy.schedule = Schedule::kOneForwardOneBackward;
    } else if (part == "interleaved") {
      strategy.schedule = Schedule::kInterleaved;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "strategy '", Escaped(text), "': '", Escaped(part),
          "' is none of dpN, tpN, ppN, mN (micro-batches), gpipe, 1f1b, interleaved, vN (stages of "
          "a rank), zero1 to zero3; as in dp2-tp2-pp2-m8-1f1b"));
    }
  }
  return strategy;
}

absl::Status CheckStrategy(const Strategy& strategy, int64_t batch) {
  for (const int64_t ranks : {strategy.data, strategy.tensor, strategy.pipeline}) {
    if (ranks < 1 || ranks > kMostRanks) {
      return Fault(strategy, absl::StrCat("ranks must be from 1 to ", kMostRanks));
    }
  }
  if (strategy.data * strategy.tensor > kMostRanks || strategy.ranks() > kMostRanks) {
    return Fault(strategy, absl::StrCat("more than ", kMostRanks, " ranks"));
  }
  if (strategy.micro_batches < 1 || strategy.micro_batches > kMostMicroBatches) {
    return Fault(strategy, absl::StrCat("micro-batches must be from 1 to ", kMostMicroBatches));
  }
  if (strategy.zero < 0 || strategy.zero > 3) return Fault(strategy, "there are ZeRO 0 to 3");
  if (!(strategy.bucket_bytes >= 1)) return Fault(strategy, "buckets must have 1 byte or more");
  const bool interleaved = strategy.schedule == Schedule::kInterleaved;
  if (strategy.chunks < 1 || strategy.chunks > 64 || (strategy.chunks > 1) != interleaved) {
    return Fault(strategy, "an interleaved schedule, and no other, has 2 to 64 stages a rank (v)");
  }
  if (interleaved && (strategy.pipeline < 2 || strategy.micro_batches % strategy.pipeline != 0)) {
    return Fault(strategy,
                 "an interleaved schedule needs 2 pipeline ranks or more, and micro-batches that "
                 "they divide");
  }
  if (batch < 1 || batch % (strategy.data * strategy.micro_batches) != 0) {
    return Fault(strategy,
                 absl::StrCat("a batch of ", batch, " is not divided by ", strategy.data,
                              " data ranks x ", strategy.micro_batches, " micro-batches"));
  }
  return absl::OkStatus();
}

std::vector<RankProgram> AllRanks(const Plan& plan) {
  const Strategy& s = plan.strategy;
  std::vector<RankProgram> ranks;
  for (int64_t stage = 0; stage < s.pipeline; ++stage) {
    for (int64_t data = 0; data < s.data; ++data) {
      for (int64_t tensor = 0; tensor < s.tensor; ++tensor) {
        RankProgram program = plan.programs[static_cast<size_t>(stage)];
        for (Task& task : program.tasks) {
          if (task.collective < 0) continue;
          // Its group: those that differ in what its scope is about.
          int64_t group = 0;
          switch (plan.scopes[static_cast<size_t>(task.collective)]) {
            case Plan::Scope::kPipeline:
              group = data * s.tensor + tensor;
              break;
            case Plan::Scope::kTensor:
              group = data;
              break;
            case Plan::Scope::kData:
              group = tensor;
              break;
          }
          task.collective = static_cast<int>(task.collective * s.data * s.tensor + group);
        }
        ranks.push_back(std::move(program));
      }
    }
  }
  return ranks;
}

}  // namespace ebb::perfmodel
