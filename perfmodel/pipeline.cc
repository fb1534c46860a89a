#include "perfmodel/pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace ebb::perfmodel {
namespace {

constexpr double kSlack = 1.01;

// Groups that greedy filling needs, each at most `most`.
int GroupsUnder(absl::Span<const double> micros, double most) {
  int groups = 1;
  double filled = 0;
  for (const double one : micros) {
    if (filled > 0 && filled + one > most) {
      ++groups;
      filled = 0;
    }
    filled += one;
  }
  return groups;
}

double LeastLongest(absl::Span<const double> micros, int groups) {
  double low = 0, high = 0;
  for (const double one : micros) {
    low = std::max(low, one);
    high += one;
  }
  for (int round = 0; round < 60 && low < high; ++round) {
    const double middle = low + (high - low) / 2;
    (GroupsUnder(micros, middle) <= groups ? high : low) = middle;
  }
  return high;
}

// What the rank with most to do has.
double MostOfARank(absl::Span<const double> lengths, int ranks) {
  double most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    double sum = 0;
    for (size_t g = static_cast<size_t>(rank); g < lengths.size();
         g += static_cast<size_t>(ranks)) {
      sum += lengths[g];
    }
    most = std::max(most, sum);
  }
  return most;
}

std::vector<double> LengthsOf(absl::Span<const int> firsts, absl::Span<const double> micros) {
  std::vector<double> lengths;
  for (size_t g = 0; g < firsts.size(); ++g) {
    const size_t end = g + 1 < firsts.size() ? static_cast<size_t>(firsts[g + 1]) : micros.size();
    lengths.push_back(std::accumulate(micros.begin() + firsts[g],
                                      micros.begin() + static_cast<int64_t>(end), 0.0));
  }
  return lengths;
}

// Cut where the running sum is nearest to that of `wanted` lengths, a unit a group at least.
std::vector<int> CutsAt(absl::Span<const double> wanted, absl::Span<const double> micros) {
  const int count = static_cast<int>(micros.size()), groups = static_cast<int>(wanted.size());
  std::vector<int> firsts = {0};
  double target = 0, sum = 0;
  int unit = 0;
  for (int g = 1; g < groups; ++g) {
    target += wanted[static_cast<size_t>(g) - 1];
    const int least = firsts.back() + 1, most = count - (groups - g);
    while (unit < most && (unit < least || sum + micros[static_cast<size_t>(unit)] / 2 < target)) {
      sum += micros[static_cast<size_t>(unit++)];
    }
    firsts.push_back(unit);
  }
  return firsts;
}

std::vector<PipelineSlot> InterleavedOrder(int64_t rank, int64_t ranks, int64_t micro_batches,
                                           int64_t chunks) {
  const int64_t all = micro_batches * chunks;
  const int64_t before = std::min(all, (ranks - rank - 1) * 2 + (chunks - 1) * ranks);
  const auto slot = [&](int64_t i, bool backward) {
    const int64_t chunk = i % (ranks * chunks) / ranks;
    return PipelineSlot{backward, i / (ranks * chunks) * ranks + i % ranks,
                        backward ? chunks - 1 - chunk : chunk};
  };
  std::vector<PipelineSlot> order;
  for (int64_t i = 0; i < before; ++i) order.push_back(slot(i, false));
  for (int64_t i = before; i < all; ++i) {
    order.push_back(slot(i, false));
    order.push_back(slot(i - before, true));
  }
  for (int64_t i = all - before; i < all; ++i) order.push_back(slot(i, true));
  return order;
}

}  // namespace

absl::string_view Name(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
      return "gpipe";
    case Schedule::kOneForwardOneBackward:
      return "1f1b";
    case Schedule::kInterleaved:
      return "interleaved";
  }
  return "?";
}

std::vector<PipelineSlot> PipelineOrder(Schedule schedule, int64_t rank, int64_t ranks,
                                        int64_t micro_batches, int64_t chunks) {
  if (schedule == Schedule::kInterleaved) {
    return InterleavedOrder(rank, ranks, micro_batches, chunks);
  }
  // A lone rank has nobody to keep busy: forward and backward of a micro-batch at a time.
  const int64_t before = schedule == Schedule::kGPipe && ranks > 1
                             ? micro_batches
                             : std::min(micro_batches, ranks - rank - 1);
  std::vector<PipelineSlot> order;
  for (int64_t i = 0; i < before; ++i) order.push_back({false, i, 0});
  for (int64_t i = before; i < micro_batches; ++i) {
    order.push_back({false, i, 0});
    order.push_back({true, i - before, 0});
  }
  for (int64_t i = micro_batches - before; i < micro_batches; ++i) order.push_back({true, i, 0});
  return order;
}

int64_t MostInFlight(absl::Span<const PipelineSlot> order) {
  int64_t now = 0, most = 0;
  for (const PipelineSlot& slot : order) {
    now += slot.backward ? -1 : 1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<int> BalancedCuts(absl::Span<const double> micros, absl::Span<const double> crossing,
                              int groups) {
  const int count = static_cast<int>(micros.size());
  EBB_CHECK(groups >= 1 && groups <= count && crossing.size() == micros.size());
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double most = LeastLongest(micros, groups) * kSlack;
  // fewest[i]: crossing bytes of the first i units in g groups; from[g][i]: the last one's begin.
  std::vector<double> fewest(static_cast<size_t>(count) + 1, kNever);
  fewest[0] = 0;
  std::vector<std::vector<int>> from;
  for (int g = 1; g <= groups; ++g) {
    std::vector<double> next(fewest.size(), kNever);
    from.emplace_back(fewest.size(), -1);
    for (int end = g; end <= count - (groups - g); ++end) {
      double sum = 0;
      for (int begin = end - 1; begin >= g - 1; --begin) {
        sum += micros[static_cast<size_t>(begin)];
        if (sum > most && begin < end - 1) break;
        const double cost = fewest[static_cast<size_t>(begin)] +
                            (begin > 0 ? crossing[static_cast<size_t>(begin)] : 0);
        if (cost < next[static_cast<size_t>(end)]) {
          next[static_cast<size_t>(end)] = cost;
          from.back()[static_cast<size_t>(end)] = begin;
        }
      }
    }
    fewest = std::move(next);
  }
  std::vector<int> firsts(static_cast<size_t>(groups));
  int end = count;
  for (int g = groups; g >= 1; --g) {
    end = from[static_cast<size_t>(g) - 1][static_cast<size_t>(end)];
    EBB_CHECK(end >= 0);
    firsts[static_cast<size_t>(g) - 1] = end;
  }
  return firsts;
}

std::vector<int> InterleavedCuts(absl::Span<const double> micros, absl::Span<const double> crossing,
                                 int ranks, int chunks) {
  std::vector<int> best = BalancedCuts(micros, crossing, ranks * chunks);
  if (chunks == 1) return best;
  std::vector<double> lengths = LengthsOf(best, micros), wanted = lengths;
  const double all = std::accumulate(micros.begin(), micros.end(), 0.0);
  double least = MostOfARank(lengths, ranks);
  for (int round = 0; round < 100 && all > 0; ++round) {
    for (size_t g = 0; g < wanted.size(); ++g) {
      double sum = 0;  // of the group's rank
      for (size_t i = g % static_cast<size_t>(ranks); i < lengths.size();
           i += static_cast<size_t>(ranks)) {
        sum += lengths[i];
      }
      if (sum > 0) wanted[g] *= std::sqrt(all / static_cast<double>(ranks) / sum);
    }
    const double scale = all / std::accumulate(wanted.begin(), wanted.end(), 0.0);
    for (double& one : wanted) one *= scale;
    const std::vector<int> firsts = CutsAt(wanted, micros);
    lengths = LengthsOf(firsts, micros);
    if (const double most = MostOfARank(lengths, ranks); most < least) least = most, best = firsts;
  }
  return best;
}

}  // namespace ebb::perfmodel
