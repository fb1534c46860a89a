// The cases of ops that read and write by index, or look for positions along an axis.
#include "tests/device/cpu_case_families.h"

namespace ebb::testing {

using graph::Attrs;
using graph::DType;

namespace {

// Sizes beyond those that are done at one go: of more indices than a block sorts, of rows that many
// share and rows that few do, of lines in several blocks.
void ManyIndices(Cases& cases) {
  for (const int64_t n : {256, 257, 3000}) {
    for (const int64_t rows : {3, 4000}) {
      const CaseInput indices =
          Of(DType::kI64, {n}, static_cast<double>(-rows - 1), static_cast<double>(rows + 1));
      cases.push_back({"GatherGrad",
                       {F({2, n, 5}), indices},
                       {{"axis", int64_t{1}}, {"shape", Ints{2, rows, 5}}},
                       {},
                       {}});
    }
    const CaseInput places = Of(DType::kI32, {n, 1}, -45, 45);
    for (const char* how : {"none", "add", "max"}) {
      const Attrs attrs = {{"reduction", std::string(how)}};
      cases.push_back({"ScatterND", {F({40, 3}), places, F({n, 3})}, attrs, {}, {}});
    }
    for (const int64_t axis : {0, 1}) {
      const Shape shape = axis == 0 ? Shape{n, 3} : Shape{3, n};
      for (const int64_t k : {int64_t{7}, int64_t{256}, n}) {
        const Attrs top = {{"axis", axis}, {"k", k}};
        cases.push_back({"TopK", {F(shape)}, top, {}, {}});
        cases.push_back({"TopK", {Of(DType::kI32, shape, -9, 9)}, top, {}, {}});
      }
      const Attrs along = {{"axis", axis}};
      cases.push_back({"CumSum", {Of(DType::kI64, shape, -9, 9)}, along, {}, {}});
      const Shape longer = axis == 0 ? Shape{5 * n, 3} : Shape{3, 5 * n};
      cases.push_back({"ArgMax", {Of(DType::kI32, longer, -99, 99)}, along, {}, {}});
    }
  }
}

}  // namespace

void Indices(Cases& cases) {
  ManyIndices(cases);
  for (const DType type : {DType::kI32, DType::kI64}) {
    const Attrs axis0 = {{"axis", int64_t{0}}}, axis1 = {{"axis", int64_t{1}}};
    cases.push_back({"GatherElements", {F({7, 5}), Of(type, {9, 4}, -9, 9)}, axis0, {}, {}});
    cases.push_back({"GatherElements", {F({3, 7, 2}), Of(type, {3, 5, 2}, -7, 7)}, axis1, {}, {}});
    cases.push_back({"GatherElementsGrad",
                     {F({3, 50, 2}), Of(type, {3, 50, 2}, -9, 9)},
                     {{"axis", int64_t{1}}, {"shape", Ints{3, 7, 2}}},
                     {},
                     {}});
    cases.push_back({"GatherND", {F({4, 5, 6}), Of(type, {7, 2}, -6, 6)}, {}, {}, {}});
    cases.push_back({"GatherND",
                     {F({4, 5, 6}), Of(type, {4, 3, 1}, -5, 5)},
                     {{"batch_dims", int64_t{1}}},
                     {},
                     {}});
    cases.push_back({"GatherNDGrad",
                     {F({30, 6}), Of(type, {30, 2}, -6, 6)},
                     {{"shape", Ints{4, 5, 6}}},
                     {},
                     {}});
    for (const char* how : {"none", "add", "mul", "max", "min"}) {
      const Attrs nd = {{"reduction", std::string(how)}};
      Attrs elements = axis1;
      elements.Set("reduction", std::string(how));
      cases.push_back(
          {"ScatterElements", {F({3, 7}), Of(type, {2, 9}, -9, 9), F({2, 9})}, elements, {}, {}});
      cases.push_back({"ScatterND", {F({4, 6}), Of(type, {5, 1}, -5, 5), F({5, 6})}, nd, {}, {}});
      cases.push_back({"ScatterND",
                       {Of(type, {4, 6}, -9, 9), Of(type, {5, 2}, -5, 5), Of(type, {5}, -9, 9)},
                       nd,
                       {},
                       {}});
    }
  }
  cases.push_back({"GatherElements",
                   {Of(DType::kBool, {9}, 0, 2), Of(DType::kI64, {5}, -9, 9)},
                   {{"axis", int64_t{0}}},
                   {},
                   {}});
  for (const int64_t axis : {0, 1, 2}) {
    for (const int64_t flag : {0, 1}) {
      const Attrs sum = {{"axis", axis}, {"exclusive", flag}, {"reverse", 1 - flag}};
      cases.push_back({"CumSum", {F({3, 40, 5})}, sum, {}, {}});
      cases.push_back({"CumSum", {Of(DType::kI64, {3, 4, 5}, -9, 9)}, sum, {}, {}});
      const Attrs both = {{"axis", axis}, {"exclusive", flag}, {"reverse", flag}};
      cases.push_back({"CumSum", {F({3, 4, 5})}, both, {}, {}});
      const Attrs top = {{"axis", axis}, {"k", int64_t{3}}, {"largest", flag}};
      cases.push_back({"TopK", {F({3, 40, 5})}, top, {}, {}});
      cases.push_back({"TopK", {Of(DType::kI32, {3, 9, 5}, -3, 3)}, top, {}, {}});
      const Attrs arg = {{"axis", axis}, {"keepdims", flag}, {"last", flag}};
      for (const char* op : {"ArgMax", "ArgMin"}) {
        cases.push_back({op, {F({3, 40, 5})}, arg, {}, {}});
        cases.push_back({op, {Of(DType::kI64, {3, 9, 5}, -3, 3)}, arg, {}, {}});
      }
    }
  }
}

}  // namespace ebb::testing
