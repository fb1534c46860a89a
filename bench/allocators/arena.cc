// Best fit and BFC: one arena of holes and chunks in use.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "bench/allocators/allocators.h"

namespace ebb::bench {
namespace {

struct BestFitRules {
  static constexpr int kBins = 1;
  static bool Cuts(int64_t hole, int64_t bytes) { return hole > bytes; }
};
struct BfcRules {
  static constexpr int kBins = 21;
  static bool Cuts(int64_t hole, int64_t bytes) {
    return hole >= 2 * bytes || hole - bytes >= int64_t{128} << 20;
  }
};

template <class Rules>
class Arena final : public ReplayAllocator {
 public:
  Handle Allocate(const TraceBuffer& buffer) override {
    const int64_t bytes = AlignUp(buffer.bytes, Bytes(256)).count();
    for (int bin = BinOf(bytes); bin < Rules::kBins; ++bin) {
      const auto it = bins_[bin].lower_bound({bytes, 0});
      if (it == bins_[bin].end()) continue;
      const auto [hole, at] = *it;
      RemoveHole(at, hole);
      if (!Rules::Cuts(hole, bytes)) return Use(at, hole);
      AddHole(at + bytes, hole - bytes);
      return Use(at, bytes);
    }
    // From what has never been used, and the hole before it.
    int64_t at = top_;
    if (!holes_.empty()) {
      const auto last = std::prev(holes_.end());
      if (last->first + last->second == top_) {
        at = last->first;
        RemoveHole(last->first, last->second);
      }
    }
    top_ = at + bytes;
    peak_ = std::max(peak_, top_);
    return Use(at, bytes);
  }

  void Free(Handle handle) override {
    const auto used = used_.find(handle);
    int64_t at = used->first, bytes = used->second;
    used_.erase(used);
    const auto next = holes_.lower_bound(at);
    const bool joins_next = next != holes_.end() && next->first == at + bytes;
    const auto before = next == holes_.begin() ? holes_.end() : std::prev(next);
    const bool joins_before = before != holes_.end() && before->first + before->second == at;
    if (joins_next) {
      bytes += next->second;
      RemoveHole(next->first, next->second);
    }
    if (joins_before) {
      at = before->first;
      bytes += before->second;
      RemoveHole(before->first, before->second);
    }
    AddHole(at, bytes);
  }

  Bytes peak() const override { return Bytes(peak_); }

 private:
  static int BinOf(int64_t bytes) {
    if (Rules::kBins == 1) return 0;
    const int doublings = std::bit_width(static_cast<uint64_t>(bytes) >> 8) - 1;
    return std::clamp(doublings, 0, Rules::kBins - 1);
  }
  Handle Use(int64_t at, int64_t bytes) {
    used_.emplace(at, bytes);
    return at;
  }
  void AddHole(int64_t at, int64_t bytes) {
    holes_.emplace(at, bytes);
    bins_[BinOf(bytes)].emplace(bytes, at);
  }
  void RemoveHole(int64_t at, int64_t bytes) {
    holes_.erase(at);
    bins_[BinOf(bytes)].erase({bytes, at});
  }

  int64_t top_ = 0, peak_ = 0;
  std::map<int64_t, int64_t> holes_;                                      // by address
  std::array<std::set<std::pair<int64_t, int64_t>>, Rules::kBins> bins_;  // (bytes, address)
  absl::flat_hash_map<int64_t, int64_t> used_;                            // by address
};

}  // namespace

std::unique_ptr<ReplayAllocator> MakeBestFit() { return std::make_unique<Arena<BestFitRules>>(); }
std::unique_ptr<ReplayAllocator> MakeBfc() { return std::make_unique<Arena<BfcRules>>(); }

}  // namespace ebb::bench
