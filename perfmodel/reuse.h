// How often the rows of an embedding table are looked up, and what caches make of it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace ebb::perfmodel {

// Rows of a table in classes that are looked up alike often.
struct Popularity {
  struct Class {
    double rows = 0;   // > 0
    double share = 0;  // of all look-ups, by these rows together
  };
  std::vector<Class> classes;  // shares sum to 1

  double rows() const;
};

// Every row alike often.
Popularity UniformPopularity(int64_t rows);
// The k-th row in proportion to 1 / k^skew; 0 is uniform. Rows beyond the first hundred are joined
// in classes whose members differ by a tenth.
Popularity ZipfPopularity(int64_t rows, double skew);

// Different rows among so many look-ups, each drawn by its own.
double ExpectedUnique(const Popularity& popularity, double look_ups);
// Part of the look-ups that find their row in a cache of the `cached_rows` that were used last, by
// Che's approximation (Che, Tung, Wang, "Hierarchical web caching systems", IEEE JSAC 2002). With
// every look-up `streamed` rows' worth of other data (indices, results) pass through it as well.
double HitRate(const Popularity& popularity, double cached_rows, double streamed = 0);

// The same of pages of `rows_per_page` (>= 1) rows, frequent rows being scattered over them: each
// row that is looked up more often than a page of the others has a page of its own.
Popularity PagePopularity(const Popularity& popularity, double rows_per_page);

// What is kept of a table's look-ups, in bounded memory: rows whose hash falls below a threshold
// (which halves when they are too many), each with its count, stand for all others; rows that are
// looked up often are drawn from the stream and counted from then on. Deterministic; one thread.
class ReuseSketch {
 public:
  // Negative indices are not counted.
  void Add(absl::Span<const int64_t> indices);
  void Add(absl::Span<const int32_t> indices);

  int64_t look_ups() const { return look_ups_; }
  double distinct() const;  // rows that have been looked up, estimated
  // Of a table of so many rows; uniform before anything was looked up. The share of rows that were
  // never seen is that of those seen once (Good and Turing's estimate).
  Popularity popularity(int64_t table_rows) const;

 private:
  static constexpr size_t kSampled = 4096;  // rows kept, at most
  static constexpr size_t kHeavy = 4096;
  struct Held {
    int64_t count = 0;
    int64_t since = 0;  // look-ups before it was held
  };

  void AddOne(int64_t row);
  void DropHalf();
  void DropLightest();
  double ShareOf(const Held& held) const;

  int64_t look_ups_ = 0;
  uint64_t threshold_ = ~uint64_t{0};  // hashes up to here are sampled
  absl::flat_hash_map<int64_t, int64_t> sampled_;
  absl::flat_hash_map<int64_t, Held> heavy_;
};

}  // namespace ebb::perfmodel
