// The cases, by family; those of layers are in cpu_layer_cases.cc. Shapes are small, odd, and at
// the edges of blocks and vectors.
#include "tests/device/cpu_cases.h"

#include <algorithm>

#include "tests/device/cpu_case_families.h"

namespace ebb::testing {
namespace {

using graph::Attrs;
using graph::DType;

void Elementwise(Cases& cases) {
  const std::vector<std::pair<std::string, Attrs>> ops = {
      {"Relu", {}},
      {"LeakyRelu", {{"alpha", 0.2}}},
      {"Elu", {{"alpha", 1.3}}},
      {"Sigmoid", {}},
      {"Tanh", {}},
      {"Clip", {{"min", -1.5}, {"max", 2.0}}},
      {"Clip", {{"max", 0.5}}},
      {"HardTanh", {{"min", 0.0}, {"max", 4.0}}},
      {"HardSigmoid", {{"alpha", 0.3}, {"beta", 0.4}}},
      {"HardSwish", {}},
      {"Silu", {}},
      {"Softplus", {}},
      {"Gelu", {}},
      {"Gelu", {{"approximate", std::string("tanh")}}},
      {"Erf", {}},
  };
  for (const int64_t n : {1, 37, 4099}) {
    for (const auto& [op, attrs] : ops) {
      cases.push_back({op, {F({n}, -6, 6)}, attrs, {}, {}});
      cases.push_back({op + "Grad", {F({n}), F({n}, -6, 6)}, attrs, {}, {}});
    }
    for (const char* op : {"Exp", "Neg", "Abs", "Sign", "Identity", "Floor", "Ceil", "Round", "Sin",
                           "Cos", "Atan"}) {
      cases.push_back({op, {F({n}, -20, 20)}, {}, {}, {}});
    }
    for (const char* op : {"Log", "Sqrt", "Reciprocal"}) {
      cases.push_back({op, {F({n}, 0.1, 9)}, {}, {}, {}});
    }
    cases.push_back({"Scale", {F({n})}, {{"scale", 2.5}, {"shift", -0.25}}, {}, {}});
  }
  cases.push_back({"Relu", {F({2, 5, 3, 4})}, {}, {0}, {0}});
  const DType types[] = {DType::kF32, DType::kF64, DType::kI32,
                         DType::kI64, DType::kU8,  DType::kBool};
  for (const DType from : types) {
    for (const DType to : types) {
      const bool narrow = from == DType::kU8 || from == DType::kBool || to == DType::kU8;
      const double max = from == DType::kBool ? 2 : 90;
      cases.push_back({"Cast",
                       {Of(from, {3, 7}, narrow ? 0 : -90, max)},
                       {{"to", std::string(graph::Name(to))}},
                       {},
                       {}});
    }
  }
}

void Binary(Cases& cases) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{}, {}},
      {{1000}, {1000}},
      {{3, 1}, {1, 5}},
      {{4, 3, 5, 2}, {3, 1, 1}},
      {{4, 3, 5, 2}, {1}},
      {{6, 10}, {10}},
      {{1, 10}, {6, 1}},
      {{2, 1, 4, 1, 3}, {1, 5, 1, 6, 1}},
      {{6, 1, 32}, {8, 1}},
      {{6, 1, 32}, {8, 32}},
  };
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "GreaterEqual"}) {
    for (const auto& [a, b] : shapes) cases.push_back({op, {F(a), F(b, 0.5, 2)}, {}, {}, {}});
    cases.push_back({op, {F({2, 6, 3, 4}), F({2, 6, 3, 4}, 0.5, 2)}, {}, {0, 1}, {0}});
    cases.push_back({op, {F({2, 6, 3, 4}), F({2, 6, 1, 1}, 0.5, 2)}, {}, {0}, {0}});
    cases.push_back({op, {F({6, 1, 1}), F({2, 6, 3, 4}, 0.5, 2)}, {}, {1}, {0}});
    cases.push_back({op, {F({2, 6, 3, 4}), F({}, 0.5, 2)}, {}, {0}, {0}});
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    for (const DType type : {DType::kI32, DType::kI64}) {
      cases.push_back({op, {Of(type, {4, 5}, -9, 9), Of(type, {5}, 1, 9)}, {}, {}, {}});
    }
  }
  for (const char* op : {"Equal", "Less", "LessEqual"}) {
    for (const auto& [a, b] : shapes) {
      cases.push_back({op, {Of(DType::kI64, a, -3, 3), Of(DType::kI64, b, -3, 3)}, {}, {}, {}});
      cases.push_back({op, {F(a), F(b)}, {}, {}, {}});
    }
    cases.push_back({op, {F({2, 6, 3, 4}), F({2, 6, 1, 1})}, {}, {0}, {0}});
    cases.push_back({op, {Of(DType::kI32, {70}, -3, 3), Of(DType::kI32, {}, -3, 3)}, {}, {}, {}});
  }
  const auto flags = [](const Shape& shape) { return Of(DType::kBool, shape, 0, 2); };
  for (const char* op : {"And", "Or", "Xor", "Equal"}) {
    for (const auto& [a, b] : shapes) cases.push_back({op, {flags(a), flags(b)}, {}, {}, {}});
  }
  cases.push_back({"Not", {flags({70})}, {}, {}, {}});
  for (const int64_t fmod : {0, 1}) {
    const Attrs attrs = {{"fmod", fmod}};
    cases.push_back({"Mod", {F({40}, -9, 9), F({}, 0.5, 2)}, attrs, {}, {}});
    cases.push_back({"Mod", {F({4, 5}, -9, 9), F({5}, -2, -0.5)}, attrs, {}, {}});
    for (const DType type : {DType::kI32, DType::kI64}) {
      cases.push_back({"Mod", {Of(type, {90}, -9, 9), Of(type, {90}, -4, 4)}, attrs, {}, {}});
    }
  }
  for (const auto& [a, b] : shapes) {
    cases.push_back({"Pow", {F(a, 0.1, 3), F(b, -2, 2)}, {}, {}, {}});
  }
  for (const int64_t n : {1, 2, 5}) {
    OpCase sum{"AddN", {}, {}, {}, {}};
    for (int64_t i = 0; i < n; ++i) sum.inputs.push_back(F({3, 50}));
    cases.push_back(sum);
  }
  cases.push_back({"AddN", {F({2, 6, 3, 4}), F({2, 6, 3, 4})}, {}, {0, 1}, {0}});
  const std::vector<std::pair<Shape, Ints>> expansions = {{{}, {3, 4}},
                                                          {{5}, {7, 5}},
                                                          {{7, 1}, {7, 33}},
                                                          {{}, {}},
                                                          {{3, 1, 2}, {4, 3, 5, 2}},
                                                          {{1, 3, 1, 1}, {4, 3, 5, 2}}};
  for (const auto& [small, large] : expansions) {
    cases.push_back({"Expand", {F(small)}, {{"shape", large}}, {}, {}});
    cases.push_back({"SumTo",
                     {F(Shape(large.begin(), large.end()))},
                     {{"shape", Ints(small.begin(), small.end())}},
                     {},
                     {}});
  }
  cases.push_back({"SumTo", {F({300, 20})}, {{"shape", Ints{20}}}, {}, {}});
  cases.push_back({"SumTo", {F({4, 3, 5, 2})}, {{"shape", Ints{3, 1, 1}}}, {0}, {}});
  cases.push_back({"SumTo", {F({4, 3, 5, 2})}, {{"shape", Ints{4, 3, 1, 1}}}, {0}, {}});
  cases.push_back({"Expand", {F({4, 3, 1, 1})}, {{"shape", Ints{4, 3, 5, 2}}}, {}, {0}});
  cases.push_back({"Where", {Of(DType::kBool, {4, 1}, 0, 2), F({4, 9}), F({9})}, {}, {}, {}});
  cases.push_back(
      {"Where", {Of(DType::kBool, {2, 3, 4, 5}, 0, 2), F({2, 3, 4, 5}), F({1})}, {}, {0, 1}, {0}});
  cases.push_back({"Where",
                   {Of(DType::kBool, {6}, 0, 2), Of(DType::kI64, {2, 6}, -5, 5),
                    Of(DType::kI64, {2, 1}, -5, 5)},
                   {},
                   {},
                   {}});
}

void Movement(Cases& cases) {
  cases.push_back({"Fetch", {F({4, 6})}, {}, {}, {}});
  cases.push_back({"Store", {F({4, 6}), F({4, 6})}, {}, {}, {}});
  cases.push_back({"Reshape", {F({4, 6})}, {{"shape", Ints{3, 8}}}, {}, {}});
  for (const Ints& perm :
       {Ints{0, 1, 2, 3}, Ints{0, 2, 3, 1}, Ints{3, 1, 0, 2}, Ints{1, 0, 2, 3}}) {
    cases.push_back({"Transpose", {F({3, 20, 5, 18})}, {{"perm", perm}}, {0}, {}});
  }
  for (const DType type : {DType::kF32, DType::kI64, DType::kU8}) {
    for (const Shape& shape : {Shape{70, 40}, Shape{64, 64}, Shape{3, 100}}) {
      cases.push_back({"Transpose", {Of(type, shape, 0, 100)}, {{"perm", Ints{1, 0}}}, {}, {}});
    }
  }
  cases.push_back(
      {"Transpose", {Of(DType::kU8, {2, 3, 4}, 0, 9)}, {{"perm", Ints{2, 0, 1}}}, {}, {}});
  for (const int64_t axis : {0, 1, 2, 3}) {
    OpCase concat{"Concat", {}, {{"axis", axis}}, {0, 1, 2}, {0}};
    for (const int64_t n : {2, 1, 5}) {
      Shape shape = {2, 3, 4, 5};
      shape[static_cast<size_t>(axis)] = n + 1;
      concat.inputs.push_back(F(shape));
    }
    cases.push_back(concat);
  }
  cases.push_back({"Concat",
                   {Of(DType::kI64, {3}, -9, 9), Of(DType::kI64, {2}, -9, 9)},
                   {{"axis", int64_t{0}}},
                   {},
                   {}});
  const Attrs slices[] = {
      {{"starts", Ints{1, 0}}, {"ends", Ints{3, 4}}, {"axes", Ints{1, 3}}, {"steps", Ints{1, 2}}},
      {{"starts", Ints{4}}, {"ends", Ints{-1}}, {"axes", Ints{2}}, {"steps", Ints{-2}}},
      {{"starts", Ints{0}}, {"ends", Ints{2}}, {"axes", Ints{0}}, {"steps", Ints{1}}},
  };
  const Shape sliced[] = {{2, 2, 5, 2}, {2, 4, 3, 4}, {2, 4, 5, 4}};
  for (size_t i = 0; i < 3; ++i) {
    cases.push_back({"Slice", {F({2, 4, 5, 4})}, slices[i], {0}, {0}});
    Attrs grad = slices[i];
    grad.Set("shape", Ints{2, 4, 5, 4});
    cases.push_back({"SliceGrad", {F(sliced[i])}, grad, {0}, {0}});
  }
  for (const Ints& pads : {Ints{0, 0, 1, 2, 0, 0, 3, 0}, Ints{0, 2, 0, -1, 0, 1, -2, 0},
                           Ints{1, 0, 0, 0, 0, 0, 0, 0}}) {
    cases.push_back({"Pad", {F({2, 3, 4, 5})}, {{"pads", pads}, {"value", 0.5}}, {0}, {0}});
  }
  for (const DType type : {DType::kI32, DType::kI64}) {
    cases.push_back(
        {"Gather", {F({7, 5}), Of(type, {3, 4}, -9, 9)}, {{"axis", int64_t{0}}}, {}, {}});
    cases.push_back(
        {"Gather", {F({2, 7, 3}), Of(type, {4}, 0, 7)}, {{"axis", int64_t{1}}}, {}, {}});
    cases.push_back({"GatherGrad",
                     {F({2, 40, 3}), Of(type, {40}, -9, 9)},
                     {{"axis", int64_t{1}}, {"shape", Ints{2, 7, 3}}},
                     {},
                     {}});
  }
  cases.push_back({"ToChannelsLast", {F({2, 20, 5, 7})}, {}, {}, {0}});
  cases.push_back({"ToPlain", {F({2, 20, 5, 7})}, {}, {0}, {}});
}

void Reduce(Cases& cases) {
  const std::vector<std::pair<Shape, Ints>> sets = {
      {{4, 6, 5, 7}, {0, 2, 3}}, {{4, 6, 5, 7}, {2, 3}},
      {{4, 6, 5, 7}, {1}},       {{500, 30}, {0}},
      {{30, 5000}, {1}},         {{4, 6, 5, 7}, {0, 1, 2, 3}},
      {{3, 2, 3, 2, 3}, {1, 3}}, {{3, 2, 3, 2, 3}, {0, 2, 4}},
      {{1, 1}, {0, 1}},          {{9}, {0}}};
  for (const auto& [shape, axes] : sets) {
    for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"}) {
      cases.push_back({op, {Of(DType::kI64, shape, -9, 9)}, {{"axes", axes}}, {}, {}});
    }
    Shape kept = shape;
    for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
    cases.push_back({"ReduceProdGrad", {F(kept), F(shape, 0.9, 1.1)}, {{"axes", axes}}, {}, {}});
  }
  cases.push_back({"ReduceProd", {F({40, 6}, 0.9, 1.1)}, {{"axes", Ints{0}}}, {}, {}});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"}) {
    for (const auto& [shape, axes] : sets) {
      for (const int64_t keep : {0, 1}) {
        const Attrs attrs = {{"axes", axes}, {"keepdims", keep}};
        const bool last = shape.size() == 4 && axes != Ints{1};
        cases.push_back({op,
                         {F(shape, 0, 1)},
                         attrs,
                         last ? std::vector<size_t>{0} : std::vector<size_t>(),
                         {}});
      }
    }
    cases.push_back(
        {op, {F({4, 6, 5, 7})}, {{"axes", Ints{0}}, {"keepdims", int64_t{1}}}, {0}, {0}});
  }
}

void LossesAndMetrics(Cases& cases) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{6, 10}, {6}}, {{3, 1000}, {3}}, {{2, 5, 4, 20}, {2, 4, 20}}};
  for (const auto& [x, y] : shapes) {
    const double classes = static_cast<double>(x[1]);
    for (const DType type : {DType::kI32, DType::kI64}) {
      const CaseInput labels = Of(type, y, -1, classes);
      for (const char* reduction : {"mean", "sum", "none"}) {
        const CaseInput dloss = std::string(reduction) == "none" ? F(y) : F({}, 0.5, 1);
        for (const double smoothing : {0.0, 0.2}) {
          for (const CaseInput& weight : {Absent(), F({x[1]}, 0.5, 2)}) {
            const Attrs attrs = {{"reduction", std::string(reduction)},
                                 {"ignore_index", int64_t{2}},
                                 {"label_smoothing", smoothing}};
            cases.push_back({"CrossEntropy", {F(x, -5, 5), labels, weight}, attrs, {}, {}});
            cases.push_back(
                {"CrossEntropyGrad", {dloss, F(x, -6, -0.5), labels, weight}, attrs, {}, {}});
            if (smoothing != 0) continue;
            Attrs nll = attrs;
            nll.Erase("label_smoothing");
            cases.push_back({"NllLoss", {F(x, -5, 0), labels, weight}, nll, {}, {}});
            nll.Set("shape", Ints(x.begin(), x.end()));
            cases.push_back({"NllLossGrad", {dloss, labels, weight}, nll, {}, {}});
          }
        }
      }
      for (const CaseInput& valid : {Absent(), Of(DType::kI64, {1}, 2, 3)}) {
        const Attrs ignore = {{"ignore_index", int64_t{2}}};
        Attrs smooth = ignore;
        smooth.Set("label_smoothing", 0.1);
        Attrs top = ignore;
        top.Set("k", int64_t{3});
        cases.push_back({"CrossEntropySum", {F(x, -5, 5), labels, valid}, smooth, {}, {}});
        cases.push_back({"TopKCorrect", {F(x, -5, 5), labels, valid}, top, {}, {}});
        cases.push_back({"ClassCounts", {F(x, -5, 5), labels, valid}, ignore, {}, {}});
        const CaseInput weight = F({x[1]}, 0, 2);
        cases.push_back({"CrossEntropySum", {F(x, -5, 5), labels, valid, weight}, smooth, {}, {}});
        Attrs given = ignore;
        given.Set("log_prob", int64_t{1});
        cases.push_back({"CrossEntropySum", {F(x, -5, 0), labels, valid, weight}, given, {}, {}});
      }
    }
  }
  for (const std::string loss : {"MseLoss", "BceWithLogits"}) {
    for (const char* reduction : {"mean", "sum", "none"}) {
      const Attrs attrs = {{"reduction", std::string(reduction)}};
      const Shape x = {5, 700};
      const CaseInput dloss = std::string(reduction) == "none" ? F(x) : F({}, 0.5, 1);
      cases.push_back({loss, {F(x, -4, 4), F(x, 0, 1)}, attrs, {}, {}});
      cases.push_back({loss + "Grad", {dloss, F(x, -4, 4), F(x, 0, 1)}, attrs, {}, {}});
    }
  }
  for (const CaseInput& valid : {Absent(), Of(DType::kI64, {1}, 4, 5)}) {
    cases.push_back({"RowsSum", {F({6, 3, 50}, -4, 4), valid}, {}, {}, {}});
  }
  cases.push_back({"RowsSum", {F({})}, {}, {}, {}});
  for (const char* metric : {"MseSum", "BceSum", "BinaryCorrect"}) {
    cases.push_back({metric, {F({6, 50}, -4, 4), F({6, 50}, 0, 1), Absent()}, {}, {}, {}});
    cases.push_back(
        {metric, {F({6, 50}, -4, 4), F({6, 50}, 0, 1), Of(DType::kI64, {1}, 4, 5)}, {}, {}, {}});
  }
}

// `hyper` is random: a rate in [1, 3) and a step of the same size, which is after the first.
void Updates(Cases& cases) {
  const CaseInput hyper = Of(DType::kF64, {4}, 1.01, 3);
  const CaseInput first = Of(DType::kF64, {4}, 0.5, 1);
  for (const Shape& shape : {Shape{1}, Shape{33, 70}}) {
    for (const CaseInput& h : {hyper, first}) {
      cases.push_back({"SgdUpdate",
                       {F(shape), F(shape), h},
                       {{"weight_decay", 0.1}, {"lr_scale", 0.5}},
                       {},
                       {}});
      for (const int64_t nesterov : {0, 1}) {
        cases.push_back({"SgdUpdate",
                         {F(shape), F(shape), h, F(shape)},
                         {{"weight_decay", 0.1},
                          {"momentum", 0.9},
                          {"dampening", nesterov ? 0.0 : 0.2},
                          {"nesterov", nesterov}},
                         {},
                         {}});
      }
    }
    for (const int64_t decoupled : {0, 1}) {
      cases.push_back({"AdamUpdate",
                       {F(shape), F(shape), hyper, F(shape), F(shape, 0.1, 1)},
                       {{"weight_decay", 0.1}, {"decoupled", decoupled}, {"lr_scale", 0.01}},
                       {},
                       {}});
    }
  }
}

void AdaptiveUpdates(Cases& cases) {
  const CaseInput hyper = Of(DType::kF64, {4}, 1.01, 3);
  const Attrs common = {{"weight_decay", 0.1}, {"lr_scale", 0.01}};
  for (const Shape& shape : {Shape{1}, Shape{33, 70}}) {
    Attrs adagrad = common;
    adagrad.Set("lr_decay", 0.5);
    cases.push_back(
        {"AdagradUpdate", {F(shape), F(shape), hyper, F(shape, 0.1, 1)}, adagrad, {}, {}});
    for (const double momentum : {0.0, 0.9}) {
      for (const int64_t centered : {0, 1}) {
        Attrs rmsprop = common;
        rmsprop.Set("momentum", momentum);
        rmsprop.Set("centered", centered);
        const CaseInput velocity = momentum > 0 ? F(shape) : CaseInput{.absent = true};
        const CaseInput mean = centered ? F(shape, -0.1, 0.1) : CaseInput{.absent = true};
        const CaseInput square = F(shape, 0.5, 1);
        cases.push_back({"RmsPropUpdate",
                         {F(shape), F(shape), hyper, square, velocity, mean},
                         rmsprop,
                         {},
                         {}});
      }
    }
    for (const int64_t sparse : {0, 1}) {
      Attrs rowwise = common;
      rowwise.Set("sparse", sparse);
      cases.push_back({"RowwiseAdagradUpdate",
                       {F(shape), F(shape), hyper, F({shape[0]}, 0.1, 1)},
                       rowwise,
                       {},
                       {}});
    }
  }
  // Look-ups from the end, out of range, repeated.
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    cases.push_back({"SparseRowwiseAdagradUpdate",
                     {F({9, 20}), F({8, 5, 20}), hyper, F({9}, 0.1, 1), Of(dtype, {8, 5}, -9, 12)},
                     common,
                     {},
                     {}});
  }
  for (const char* mode : {"sum", "mean"}) {
    Attrs bags = common;
    bags.Set("mode", std::string(mode));
    cases.push_back({"SparseRowwiseAdagradUpdate",
                     {F({9, 20}), F({1, 20}), hyper, F({9}, 0.1, 1), Of(DType::kI64, {30}, -9, 12),
                      Of(DType::kI64, {1}, 3, 4)},
                     bags,
                     {},
                     {}});
  }
}

void Averages(Cases& cases) {
  const Attrs decay = {{"ema_decay", 0.9}};
  for (const CaseInput& h : {Of(DType::kF64, {4}, 1.01, 3), Of(DType::kF64, {4}, 0.5, 1)}) {
    for (const char* op : {"AdagradUpdate", "RowwiseAdagradUpdate"}) {
      cases.push_back({op, {F({70}), F({70}), h, F({70}, 0.1, 1), F({70})}, decay, {}, {}});
    }
    const CaseInput none{.absent = true};
    cases.push_back({"RmsPropUpdate",
                     {F({70}), F({70}), h, F({70}, 0.1, 1), none, none, F({70})},
                     decay,
                     {},
                     {}});
    cases.push_back(
        {"SgdUpdate", {F({33, 7}), F({33, 7}), h, {.absent = true}, F({33, 7})}, decay, {}, {}});
    cases.push_back(
        {"AdamUpdate", {F({70}), F({70}), h, F({70}), F({70}, 0.1, 1), F({70})}, decay, {}, {}});
  }
}

void Clipping(Cases& cases) {
  for (const double max_norm : {0.5, 1e6}) {  // scaled down, left alone
    cases.push_back(
        {"ClipFactor", {F({1}), F({33, 70}), F({4097})}, {{"max_norm", max_norm}}, {}, {}});
  }
  cases.push_back({"ClipFactor", {F({2, 6, 3, 4}), F({6})}, {{"max_norm", 1.0}}, {}, {}});
}

void Random(Cases& cases) {
  for (const int64_t n : {1, 63, 64, 1030}) {
    const Attrs ratio = {{"ratio", 0.3}};
    Attrs dropout = ratio;
    dropout.Set("stream", int64_t{7});
    cases.push_back({"Dropout", {F({n}), Of(DType::kI64, {2}, 3, 1000)}, dropout, {}, {}});
    cases.push_back({"DropoutGrad", {F({n}), Of(DType::kU8, {n}, 0, 2)}, ratio, {}, {}});
  }
}

}  // namespace

std::vector<OpCase> CpuCases() {
  Cases cases;
  Elementwise(cases);
  Binary(cases);
  Matmul(cases);
  Conv(cases);
  Pool(cases);
  Norm(cases);
  Movement(cases);
  Indices(cases);
  Reduce(cases);
  LossesAndMetrics(cases);
  Updates(cases);
  AdaptiveUpdates(cases);
  Averages(cases);
  Clipping(cases);
  Random(cases);
  Recurrent(cases);
  EmbeddingBags(cases);
  return cases;
}

}  // namespace ebb::testing
