// Cases of the layers of words and clicks. Bags of rows, with indices and offsets that point
// outside. Recurrent layers: both directions, with and without what is optional, steps and units
// around the widths of the vector loops.
#include "tests/device/cpu_case_families.h"

namespace ebb::testing {
namespace {

using graph::Attrs;

struct Sizes {
  int64_t steps, batch, hidden;
};

void LstmCases(const Sizes& s, const Attrs& attrs, bool states, Cases& cases) {
  const Shape wide = {s.steps, s.batch, 4 * s.hidden}, seq = {s.steps, s.batch, s.hidden};
  const CaseInput r = F({4 * s.hidden, s.hidden}, -0.5, 0.5);
  const CaseInput state = states ? F({s.batch, s.hidden}) : Absent();
  cases.push_back({"Lstm", {F(wide), r, state, state}, attrs, {}, {}});
  const CaseInput gates = F(wide, 0.1, 0.9);
  cases.push_back({"LstmGrad",
                   {gates, F(seq), F(seq), r, F(seq), states ? F(seq) : Absent(), state, state},
                   attrs,
                   {},
                   {}});
}

void GruCases(const Sizes& s, const Attrs& attrs, bool optional, Cases& cases) {
  const Shape wide = {s.steps, s.batch, 3 * s.hidden}, seq = {s.steps, s.batch, s.hidden};
  const CaseInput r = F({3 * s.hidden, s.hidden}, -0.5, 0.5);
  const CaseInput state = optional ? F({s.batch, s.hidden}) : Absent();
  const CaseInput bias = optional ? F({3 * s.hidden}) : Absent();
  cases.push_back({"Gru", {F(wide), r, bias, state}, attrs, {}, {}});
  const CaseInput gates = F(wide, 0.1, 0.9);
  cases.push_back({"GruGrad", {gates, F(seq), F(seq), r, F(seq), state}, attrs, {}, {}});
}

void BagCases(const std::string& mode, graph::DType index, int64_t last_offset, Cases& cases) {
  const Attrs attrs = {{"mode", mode}, {"include_last_offset", last_offset}};
  const CaseInput indices = Of(index, {40}, -12, 14);  // of 10 rows
  for (const int64_t width : {1, 19, 64}) {
    // Random offsets are in no order: bags are empty, or share indices.
    const CaseInput offsets = Of(index, {6 + last_offset}, -3, 45);
    cases.push_back({"EmbeddingBag", {F({10, width}), indices, offsets}, attrs, {}, {}});
    Attrs grad = attrs;
    grad.Set("shape", Ints{10, width});
    cases.push_back({"EmbeddingBagGrad", {F({6, width}), indices, offsets}, grad, {}, {}});
  }
}

}  // namespace

void EmbeddingBags(Cases& cases) {
  for (const char* mode : {"sum", "mean"}) {
    for (const int64_t last_offset : {0, 1}) {
      BagCases(mode, graph::DType::kI64, last_offset, cases);
      BagCases(mode, graph::DType::kI32, last_offset, cases);
    }
  }
}

void Recurrent(Cases& cases) {
  for (const Sizes& s : std::vector<Sizes>{{1, 1, 1}, {5, 3, 7}, {4, 20, 33}, {3, 2, 64}}) {
    for (const int64_t reverse : {0, 1}) {
      for (const bool optional : {false, true}) {
        LstmCases(s, {{"gates", optional ? "ifco" : "iofc"}, {"reverse", reverse}}, optional,
                  cases);
        for (const int64_t linear : {0, 1}) {
          GruCases(s,
                   {{"gates", optional ? "rzh" : "zrh"},
                    {"reverse", reverse},
                    {"linear_before_reset", linear}},
                   optional, cases);
        }
      }
    }
  }
}

}  // namespace ebb::testing
