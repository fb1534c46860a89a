// Cases of the layers of networks: products, convolutions, pooling and normalisation.
#include <algorithm>

#include "tests/device/cpu_case_families.h"

namespace ebb::testing {
namespace {

using graph::Attrs;
using graph::DType;

}  // namespace

void Matmul(Cases& cases) {
  for (const int64_t ta : {0, 1}) {
    for (const int64_t tb : {0, 1}) {
      const Attrs flags = {{"trans_a", ta}, {"trans_b", tb}};
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                       {3, 4, 5},
                                                                       {1, 64, 200},
                                                                       {64, 1, 200},
                                                                       {33, 47, 65},
                                                                       {128, 10, 784},
                                                                       {5, 7, 0},
                                                                       {16, 16, 2}}) {
        const Shape a = ta ? Shape{k, m} : Shape{m, k};
        const Shape b = tb ? Shape{n, k} : Shape{k, n};
        cases.push_back({"MatMul", {F(a), F(b)}, flags, {}, {}});
        Attrs gemm = flags;
        gemm.Set("alpha", 0.5);
        gemm.Set("beta", 2.0);
        cases.push_back({"Gemm", {F(a), F(b), F({n})}, gemm, {}, {}});
        cases.push_back({"Gemm", {F(a), F(b), F({m, 1})}, gemm, {}, {}});
        cases.push_back({"Gemm", {F(a), F(b)}, gemm, {}, {}});
      }
      const auto batch = [&](Shape lead_a, Shape lead_b) {
        for (const int64_t d : {ta ? 20 : 6, ta ? 6 : 20}) lead_a.push_back(d);
        for (const int64_t d : {tb ? 9 : 20, tb ? 20 : 9}) lead_b.push_back(d);
        cases.push_back({"MatMul", {F(lead_a), F(lead_b)}, flags, {}, {}});
      };
      batch({3}, {3});
      batch({4, 3}, {});
      batch({2, 1, 3}, {5, 1});
      batch({}, {4});
    }
  }
}

struct ConvCase {
  Shape x, w;
  Ints strides, pads, dilations;
  int64_t groups;
  Shape y;
};

void Conv(Cases& cases) {
  const std::vector<ConvCase> convs = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, {2, 5, 9, 8}},
      {{2, 1, 8, 8}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, {2, 16, 8, 8}},
      {{2, 16, 7, 7}, {32, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1, {2, 32, 4, 4}},
      {{3, 16, 6, 6}, {24, 16, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, {3, 24, 6, 6}},
      {{2, 16, 7, 7}, {8, 16, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1, {2, 8, 4, 4}},
      {{2, 12, 6, 5}, {12, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 12, {2, 12, 6, 5}},
      {{2, 12, 6, 5}, {6, 4, 3, 3}, {1, 1}, {1, 0, 0, 1}, {1, 1}, 3, {2, 6, 5, 4}},
      {{1, 4, 11, 10}, {4, 4, 3, 2}, {2, 1}, {2, 1, 1, 0}, {2, 3}, 1, {1, 4, 5, 8}},
      {{4, 20, 1, 1}, {7, 20, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, {4, 7, 1, 1}},
      {{2, 6, 5, 5}, {9, 6, 5, 5}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, {2, 9, 1, 1}},
      {{2, 5, 20}, {7, 5, 3}, {2}, {1, 1}, {1}, 1, {2, 7, 10}},
      {{1, 3, 5, 6, 4},
       {4, 3, 2, 3, 1},
       {1, 2, 1},
       {0, 1, 0, 1, 1, 0},
       {1, 1, 1},
       1,
       {1, 4, 5, 3, 4}},
  };
  for (const ConvCase& c : convs) {
    const Attrs attrs = {
        {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"groups", c.groups}};
    std::vector<size_t> x_last, y_last, both_last;
    const bool x_free = c.x[1] == 1 || (c.x[2] == 1 && c.x[3] == 1);
    const bool y_free = c.y[2] == 1 && (c.y.size() < 4 || c.y[3] == 1);
    if (c.x.size() == 4) {
      if (!x_free) x_last = {0};
      if (!y_free) y_last = {0};
      if (!y_free) both_last.push_back(0);
      if (!x_free) both_last.push_back(1);
    }
    cases.push_back({"Conv", {F(c.x), F(c.w)}, attrs, x_last, y_last});
    cases.push_back({"Conv", {F(c.x), F(c.w), F({c.w[0]})}, attrs, x_last, y_last});
    Attrs input = attrs;
    input.Set("input_shape", Ints(c.x.begin(), c.x.end()));
    cases.push_back({"ConvGradInput", {F(c.y), F(c.w)}, input, y_last, x_last});
    Attrs weight = attrs;
    weight.Set("weight_shape", Ints(c.w.begin(), c.w.end()));
    cases.push_back({"ConvGradWeight", {F(c.y), F(c.x)}, weight, both_last, {}});
  }
}

void Pool(Cases& cases) {
  struct PoolCase {
    Shape x;
    Ints kernel, strides, pads;
    Shape y;
  };
  const std::vector<PoolCase> pools = {
      {{2, 3, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {2, 3, 4, 4}},
      {{2, 20, 9, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {2, 20, 5, 4}},
      {{1, 300, 4, 4}, {3, 2}, {1, 1}, {0, 0, 0, 0}, {1, 300, 2, 3}},
      {{2, 3, 10}, {3}, {2}, {1, 0}, {2, 3, 5}},
      {{1, 2, 4, 5, 6}, {2, 2, 3}, {2, 1, 3}, {0, 0, 0, 0, 0, 0}, {1, 2, 2, 4, 2}},
  };
  for (const PoolCase& p : pools) {
    const bool flat = p.x.size() != 4;
    const auto last = [&](std::vector<size_t> ids) { return flat ? std::vector<size_t>() : ids; };
    const Attrs base = {{"kernel", p.kernel}, {"strides", p.strides}, {"pads", p.pads}};
    Attrs max = base;
    max.Set("dilations", Ints(p.kernel.size(), 1));
    cases.push_back({"MaxPool", {F(p.x)}, max, last({0}), last({0, 1})});
    max.Set("input_shape", Ints(p.x.begin(), p.x.end()));
    const bool padded = std::any_of(p.pads.begin(), p.pads.end(), [](int64_t n) { return n != 0; });
    if (!padded) {  // any position of the window is inside
      int64_t window = 1;
      for (const int64_t k : p.kernel) window *= k;
      cases.push_back({"MaxPoolGrad",
                       {F(p.y), Of(DType::kU8, p.y, 0, static_cast<double>(window))},
                       max,
                       last({0, 1}),
                       last({0})});
    }
    for (const Ints& counted : {Ints(p.kernel.size() * 2, 0), p.pads}) {
      Attrs average = base;
      average.Set("counted_pads", counted);
      cases.push_back({"AveragePool", {F(p.x)}, average, last({0}), last({0})});
      average.Set("input_shape", Ints(p.x.begin(), p.x.end()));
      cases.push_back({"AveragePoolGrad", {F(p.y)}, average, last({0}), last({0})});
    }
  }
  cases.push_back({"MaxPool",
                   {F({2, 3, 9, 9})},
                   {{"kernel", Ints{2, 3}},
                    {"strides", Ints{1, 2}},
                    {"pads", Ints{1, 1, 1, 1}},
                    {"dilations", Ints{2, 3}}},
                   {0},
                   {0, 1}});
}

void Norm(Cases& cases) {
  for (const Shape& x : {Shape{64, 7}, Shape{5, 300}, Shape{4, 6, 5, 3}, Shape{3, 20, 50, 60},
                         Shape{2, 3, 9}, Shape{2, 1, 4, 4}}) {
    const int64_t c = x[1];
    std::vector<size_t> one, two;
    if (x.size() == 4 && c > 1) one = {0}, two = {0, 1};
    const Attrs momentum = {{"momentum", 0.3}, {"epsilon", 1e-3}};
    const Attrs epsilon = {{"epsilon", 1e-3}};
    const CaseInput var = F({c}, 0.5, 2);
    cases.push_back({"BatchNorm", {F(x, 2, 3), F({c}), F({c}), F({c}), var}, momentum, one, one});
    cases.push_back({"BatchNormInference", {F(x), F({c}), F({c}), F({c}), var}, epsilon, one, one});
    for (const char* op : {"BatchNormGrad", "BatchNormInferenceGrad"}) {
      cases.push_back({op, {F(x), F(x), F({c}), F({c}), var}, epsilon, two, one});
    }
  }
  for (const auto& [x, axis] : std::vector<std::pair<Shape, int64_t>>{
           {{5, 768}, 1}, {{3, 70, 5}, 1}, {{2, 100, 33}, 2}, {{9}, 0}, {{4, 1}, 1}}) {
    const Shape weight(x.begin() + axis, x.end());
    Shape stats = x;
    std::fill(stats.begin() + axis, stats.end(), 1);
    const Attrs attrs = {{"axis", axis}};
    const Attrs epsilon = {{"axis", axis}, {"epsilon", 1e-3}};
    cases.push_back({"LayerNorm", {F(x, 2, 3), F(weight), F(weight)}, epsilon, {}, {}});
    cases.push_back({"LayerNorm", {F(x), F(weight)}, attrs, {}, {}});
    cases.push_back({"LayerNormGrad",
                     {F(x), F(x), F(weight, 0.5, 1.5), F(stats, -0.1, 0.1), F(stats, 1, 2)},
                     attrs,
                     {},
                     {}});
    cases.push_back({"RmsNorm", {F(x, 2, 3), F(weight)}, epsilon, {}, {}});
    cases.push_back(
        {"RmsNormGrad", {F(x), F(x), F(weight, 0.5, 1.5), F(stats, 1, 2)}, attrs, {}, {}});
  }
  for (const auto& [x, groups] : std::vector<std::pair<Shape, int64_t>>{{{3, 6, 5, 7}, 3},
                                                                        {{2, 6, 40}, 6},
                                                                        {{2, 6, 3000}, 1},
                                                                        {{4, 12}, 4},
                                                                        {{1, 4, 1, 1}, 2}}) {
    const Shape channel = {x[1]}, stats = {x[0], groups};
    cases.push_back({"GroupNorm",
                     {F(x, 2, 3), F(channel), F(channel)},
                     {{"groups", groups}, {"epsilon", 1e-3}},
                     {},
                     {}});
    cases.push_back({"GroupNormGrad",
                     {F(x), F(x), F(channel, 0.5, 1.5), F(stats, -0.1, 0.1), F(stats, 1, 2)},
                     {{"groups", groups}},
                     {},
                     {}});
  }
  for (const double beta : {0.75, 0.6}) {
    for (const int64_t size : {1, 4, 5}) {
      const Attrs attrs = {{"size", size}, {"alpha", 0.3}, {"beta", beta}, {"bias", 1.5}};
      cases.push_back({"Lrn", {F({2, 7, 3, 4}, -3, 3)}, attrs, {0}, {0}});
      cases.push_back({"LrnGrad", {F({2, 7, 3, 4}), F({2, 7, 3, 4}, -3, 3)}, attrs, {0, 1}, {0}});
    }
  }
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int64_t>>{{{5, 10}, 1},
                                                                          {{3, 1000}, 1},
                                                                          {{2, 9, 70}, 1},
                                                                          {{4, 6}, 0},
                                                                          {{7}, 0},
                                                                          {{2, 3, 4, 5}, 1}}) {
    const Attrs attrs = {{"axis", axis}};
    cases.push_back({"Softmax", {F(shape, -8, 8)}, attrs, {}, {}});
    cases.push_back(
        {"Softmax", {F(shape, -8, 8)}, {{"axis", axis}, {"zero_masked", int64_t{1}}}, {}, {}});
    cases.push_back({"LogSoftmax", {F(shape, -8, 8)}, attrs, {}, {}});
    cases.push_back({"SoftmaxGrad", {F(shape), F(shape, 0, 0.5)}, attrs, {}, {}});
    cases.push_back({"LogSoftmaxGrad", {F(shape), F(shape, -5, 0)}, attrs, {}, {}});
  }
}

}  // namespace ebb::testing
