// Host evaluation of functions of one element.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/status.h"
#include "model/host_fold.h"

namespace ebb::model {
namespace {

using Tensors = std::vector<HostTensor>;

struct UnaryRow {
  absl::string_view op;
  double (*fn)(double);
};
constexpr UnaryRow kUnary[] = {{"Neg", [](double x) { return -x; }},
                               {"Abs", [](double x) { return std::fabs(x); }},
                               {"Sqrt", [](double x) { return std::sqrt(x); }},
                               {"Exp", [](double x) { return std::exp(x); }},
                               {"Log", [](double x) { return std::log(x); }},
                               {"Reciprocal", [](double x) { return 1 / x; }},
                               {"Floor", [](double x) { return std::floor(x); }},
                               {"Ceil", [](double x) { return std::ceil(x); }},
                               {"Round", [](double x) { return std::nearbyint(x); }},
                               {"Sin", [](double x) { return std::sin(x); }},
                               {"Cos", [](double x) { return std::cos(x); }},
                               {"Sign", [](double x) { return x > 0   ? 1.0
                                                              : x < 0 ? -1.0
                                                                      : x; }},
                               {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }}};

absl::StatusOr<Tensors> FoldUnary(const NodeView& node, HostBudget& budget) {
  const auto* row = std::find_if(std::begin(kUnary), std::end(kUnary),
                                 [&](const UnaryRow& r) { return r.op == node.op(); });
  Tensors list(1);
  auto out_tensor = budget.Allocate({node.type(0).dtype, node.shape(0)});
  if (!out_tensor.ok()) return node.Invalid(out_tensor.status().message());
  list[0] = *std::move(out_tensor);
  VisitDType(node.type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto in = node.host(0)->as<T>();
    auto out = list[0].as<T>();
    for (size_t i = 0; i < in.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        out[i] = static_cast<T>(row->fn(in[i]));
      } else {
        out[i] = static_cast<T>(SaturatedInt(row->fn(static_cast<double>(in[i]))));
      }
    }
  });
  return list;
}

constexpr FoldRow kRows[] = {
    {"Neg", FoldUnary, 1, 1},   {"Abs", FoldUnary, 1, 1},  {"Sqrt", FoldUnary, 1, 1},
    {"Exp", FoldUnary, 1, 1},   {"Log", FoldUnary, 1, 1},  {"Reciprocal", FoldUnary, 1, 1},
    {"Floor", FoldUnary, 1, 1}, {"Ceil", FoldUnary, 1, 1}, {"Round", FoldUnary, 1, 1},
    {"Sin", FoldUnary, 1, 1},   {"Cos", FoldUnary, 1, 1},  {"Sign", FoldUnary, 1, 1},
    {"Not", FoldUnary, 1, 1}};

}  // namespace

absl::Span<const FoldRow> FoldUnaries() { return kRows; }

}  // namespace ebb::model
