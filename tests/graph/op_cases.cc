#include "tests/graph/op_cases.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace ebb::graph {
namespace {
using Ints = std::vector<int64_t>;

const Attrs kConv = {
    {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 2}}, {"dilations", Ints{1, 2}}, {"groups", 2}};
const Attrs kConv1 = {{"strides", Ints{1}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}};
const Attrs kMaxPool = {{"kernel", Ints{3, 2}},
                        {"strides", Ints{2, 2}},
                        {"pads", Ints{1, 0, 1, 1}},
                        {"dilations", Ints{1, 1}}};
const Attrs kAveragePool = {{"kernel", Ints{3, 2}},
                            {"strides", Ints{2, 2}},
                            {"pads", Ints{1, 0, 1, 1}},
                            {"counted_pads", Ints{1, 0, 1, 0}}};
const Attrs kLrn = {{"size", 5}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}};
const Attrs kSlice = {
    {"starts", Ints{1, 4}}, {"ends", Ints{3, -1}}, {"axes", Ints{0, 2}}, {"steps", Ints{1, -2}}};
const Attrs kDropout = {{"ratio", 0.5}, {"stream", 3}};
const Attrs kNone = {{"reduction", "none"}};
const Attrs kPads = {{"pads", Ints{1, -1, 0, 2}}, {"value", 1.5}};

Attrs With(Attrs attrs, const std::string& name, AttrValue value) {
  attrs.Set(name, std::move(value));
  return attrs;
}
Attrs Without(Attrs attrs, const std::string& name) {
  attrs.Erase(name);
  return attrs;
}

OpCase Bad(std::string op, std::string inputs, Attrs attrs, std::string refused) {
  return {std::move(op), std::move(inputs), std::move(attrs), "", std::move(refused)};
}

void AddUnary(std::vector<OpCase>& cases) {
  for (const char* op :
       {"Relu",        "LeakyRelu", "Elu",      "Sigmoid",    "Tanh",  "Clip",    "HardTanh",
        "HardSigmoid", "HardSwish", "Softplus", "Gelu",       "Erf",   "Exp",     "Log",
        "Sqrt",        "Neg",       "Abs",      "Reciprocal", "Scale", "Identity"}) {
    cases.push_back({op, "f32[2,0,3]", {}, "f32[2,0,3]", "", {0}});
    cases.push_back({op, "f64[]", {}, "f64[]", "", {0}});
  }
  cases.push_back({"Sign", "f32[4]", {}, "f32[4]", ""});
  for (const char* op : {"ReluGrad", "LeakyReluGrad", "EluGrad", "SigmoidGrad", "TanhGrad",
                         "ClipGrad", "HardTanhGrad", "HardSigmoidGrad", "HardSwishGrad",
                         "SoftplusGrad", "GeluGrad", "ErfGrad"}) {
    cases.push_back({op, "f32[2,3] f32[2,3]", {}, "f32[2,3]", ""});
  }
}

}  // namespace

std::vector<OpCase> AcceptedCases() {
  std::vector<OpCase> cases;
  AddUnary(cases);
  const std::vector<OpCase> rest = {
      {"LeakyRelu", "f32[4]", {{"alpha", 1}}, "f32[4]", "", {0}},  // an int is a float too
      {"Clip", "f32[4]", {{"min", 0.0}, {"max", HUGE_VAL}}, "f32[4]", "", {0}},
      {"Gelu", "f32[4]", {{"approximate", "tanh"}}, "f32[4]", "", {0}},
      {"Scale", "f32[4]", {{"scale", -2.0}, {"shift", 3.0}}, "f32[4]", "", {0}},
      {"Identity", "bool[4]", {}, "bool[4]", ""},
      {"Cast", "f32[4]", {{"to", "f64"}}, "f64[4]", "", {0}},
      {"Cast", "f32[4]", {{"to", "i64"}}, "i64[4]", ""},
      {"Cast", "u8[4]", {{"to", "f32"}}, "f32[4]", ""},

      {"Add", "f32[2,3] f32[2,3]", {}, "f32[2,3]", "", {0, 1}},
      {"Add", "f32[3] f32[2,1]", {}, "f32[2,3]", "", {0, 1}},
      {"Sub", "f32[2,1] f32[]", {}, "f32[2,1]", "", {0, 1}},
      {"Sub", "f32[1,2] f32[2]", {}, "f32[1,2]", "", {0, 1}},
      {"Mul", "f32[1] f32[2,3]", {}, "f32[2,3]", "", {0, 1}},
      {"Div", "f32[2,3] f32[3]", {}, "f32[2,3]", "", {0, 1}},
      {"Div", "i64[2] i64[]", {}, "i64[2]", ""},
      {"Pow", "f32[2,3] f32[]", {}, "f32[2,3]", "", {0, 1}},
      {"Max", "f32[2,1] f32[3]", {}, "f32[2,3]", "", {0, 1}},
      {"Min", "f32[2,3] f32[2,3]", {}, "f32[2,3]", "", {0, 1}},
      {"Min", "i32[0] i32[1]", {}, "i32[0]", ""},
      {"GreaterEqual", "f32[2,1] f32[3]", {}, "f32[2,3]", ""},
      {"AddN", "f32[2] f32[2] f32[2]", {}, "f32[2]", "", {0, 1, 2}},
      {"AddN", "f32[2]", {}, "f32[2]", "", {0}},
      {"SumTo", "f32[4,2,3]", {{"shape", Ints{2, 1}}}, "f32[2,1]", "", {0}},
      {"SumTo", "f32[4]", {{"shape", Ints{}}}, "f32[]", "", {0}},
      {"Expand", "f32[2,1]", {{"shape", Ints{4, 2, 3}}}, "f32[4,2,3]", "", {0}},
      {"Expand", "i64[1]", {{"shape", Ints{0}}}, "i64[0]", ""},

      {"MatMul", "f32[2,3] f32[3,4]", {}, "f32[2,4]", "", {0, 1}},
      {"MatMul", "f32[3,2] f32[4,3]", {{"trans_a", 1}, {"trans_b", 1}}, "f32[2,4]", "", {0, 1}},
      {"MatMul", "f32[5,2,3] f32[3,4]", {}, "f32[5,2,4]", "", {0, 1}},
      {"MatMul", "f32[5,2,3] f32[1,4,3]", {{"trans_b", 1}}, "f32[5,2,4]", "", {0, 1}},
      {"MatMul", "f32[5,3,2] f32[3,4]", {{"trans_a", 1}}, "f32[5,2,4]", "", {0, 1}},
      {"MatMul", "f32[6,1,2,3] f32[5,3,4]", {}, "f32[6,5,2,4]", "", {0, 1}},
      {"MatMul", "f32[2,3] f32[5,3,4]", {}, "f32[5,2,4]", "", {0, 1}},
      {"Gemm", "f32[2,3] f32[3,4]", {}, "f32[2,4]", "", {0, 1}},
      {"Gemm", "f32[3,2] f32[3,4] f32[4]", {{"trans_a", 1}}, "f32[2,4]", "", {0, 1, 2}},
      {"Gemm",
       "f32[2,3] f32[4,3] f32[1,4]",
       {{"trans_b", 1}, {"beta", 0.5}},
       "f32[2,4]",
       "",
       {0, 1, 2}},
      {"Gemm",
       "f32[3,2] f32[4,3] f32[2,1]",
       {{"trans_a", 1}, {"trans_b", 1}, {"alpha", 2.0}},
       "f32[2,4]",
       "",
       {0, 1, 2}},
      {"Gemm", "f32[2,3] f32[3,4] f32[2,4]", {}, "f32[2,4]", "", {0, 1, 2}},
      {"Gemm", "f32[2,3] f32[3,4] f32[]", {}, "f32[2,4]", "", {0, 1, 2}},
      {"Gemm", "f32[2,3] f32[3,4] -", {}, "f32[2,4]", "", {0, 1}},

      // (7 + 1 + 1 - 3) / 2 + 1 = 4, (8 + 0 + 2 - 5) / 1 + 1 = 6
      {"Conv", "f32[2,4,7,8] f32[6,2,3,3] f32[6]", kConv, "f32[2,6,4,6]", "", {0, 1, 2}},
      {"Conv", "f32[2,4,9] f32[6,4,3]", kConv1, "f32[2,6,7]", "", {0, 1}},
      {"Conv", "f32[0,4,9] f32[6,4,3] -", kConv1, "f32[0,6,7]", "", {0, 1}},
      {"ConvGradInput", "f32[2,6,4,6] f32[6,2,3,3]", With(kConv, "input_shape", Ints{2, 4, 7, 8}),
       "f32[2,4,7,8]", ""},
      {"ConvGradWeight", "f32[2,6,4,6] f32[2,4,7,8]", With(kConv, "weight_shape", Ints{6, 2, 3, 3}),
       "f32[6,2,3,3]", ""},
      // (7 + 2 - 3) / 2 + 1 = 4, (8 + 1 - 2) / 2 + 1 = 4
      {"MaxPool", "f32[2,3,7,8]", kMaxPool, "f32[2,3,4,4] u8[2,3,4,4]", "", {0}},
      {"MaxPoolGrad", "f32[2,3,4,4] u8[2,3,4,4]", With(kMaxPool, "input_shape", Ints{2, 3, 7, 8}),
       "f32[2,3,7,8]", ""},
      {"AveragePool", "f32[2,3,7,8]", kAveragePool, "f32[2,3,4,4]", "", {0}},
      {"AveragePoolGrad", "f32[2,3,4,4]", With(kAveragePool, "input_shape", Ints{2, 3, 7, 8}),
       "f32[2,3,7,8]", ""},

      {"BatchNorm",
       "f32[2,3,4] f32[3] f32[3] f32[3] f32[3]",
       {{"momentum", 0.2}},
       "f32[2,3,4] f32[3] f32[3]",
       "",
       {0, 1, 2}},
      {"BatchNormGrad",
       "f32[2,3] f32[2,3] f32[3] f32[3] f32[3]",
       {{"epsilon", 1e-3}},
       "f32[2,3] f32[3] f32[3]",
       ""},
      {"BatchNormInference",
       "f32[2,3,4,4] f32[3] f32[3] f32[3] f32[3]",
       {{"epsilon", 1e-3}},
       "f32[2,3,4,4]",
       "",
       {0, 1, 2}},
      {"BatchNormInferenceGrad",
       "f32[2,3] f32[2,3] f32[3] f32[3] f32[3]",
       {},
       "f32[2,3] f32[3] f32[3]",
       ""},
      {"LayerNorm",
       "f32[2,5,3,4] f32[3,4] f32[3,4]",
       {{"axis", 2}, {"epsilon", 1e-12}},
       "f32[2,5,3,4] f32[2,5,1,1] f32[2,5,1,1]",
       "",
       {0, 1, 2}},
      {"LayerNorm", "f32[0,3] f32[3]", {{"axis", 1}}, "f32[0,3] f32[0,1] f32[0,1]", "", {0, 1}},
      {"LayerNormGrad",
       "f32[2,3] f32[2,3] f32[3] f32[2,1] f32[2,1]",
       {{"axis", 1}},
       "f32[2,3] f32[3] f32[3]",
       ""},
      {"LayerNormGrad",
       "f32[3] f32[3] f32[3] f32[1] f32[1]",
       {{"axis", 0}},
       "f32[3] f32[3] f32[3]",
       ""},
      {"Lrn", "f32[2,3,4,4]", kLrn, "f32[2,3,4,4]", "", {0}},
      {"LrnGrad", "f32[2,3,4,4] f32[2,3,4,4]", kLrn, "f32[2,3,4,4]", ""},
      {"Softmax", "f32[2,3]", {{"axis", 1}}, "f32[2,3]", "", {0}},
      {"SoftmaxGrad", "f32[2,3] f32[2,3]", {{"axis", 0}}, "f32[2,3]", ""},
      {"LogSoftmax", "f32[2,3]", {{"axis", 0}}, "f32[2,3]", "", {0}},
      {"LogSoftmaxGrad", "f32[2,3] f32[2,3]", {{"axis", 1}}, "f32[2,3]", ""},

      {"Reshape", "f32[2,6]", {{"shape", Ints{3, 4}}}, "f32[3,4]", "", {0}},
      {"Reshape", "i64[1]", {{"shape", Ints{}}}, "i64[]", ""},
      {"Reshape", "f32[0,6]", {{"shape", Ints{5, 0}}}, "f32[5,0]", "", {0}},
      {"Transpose", "f32[2,3,4]", {{"perm", Ints{2, 0, 1}}}, "f32[4,2,3]", "", {0}},
      {"Transpose", "i64[]", {{"perm", Ints{}}}, "i64[]", ""},
      {"Concat", "f32[2,3] f32[2,0] f32[2,4]", {{"axis", 1}}, "f32[2,7]", "", {0, 1, 2}},
      {"Concat", "i64[2]", {{"axis", 0}}, "i64[2]", ""},
      {"Slice", "f32[4,2,5]", kSlice, "f32[2,2,3]", "", {0}},
      {"Slice",
       "i64[4]",
       {{"starts", Ints{3}}, {"ends", Ints{1}}, {"axes", Ints{0}}, {"steps", Ints{1}}},
       "i64[0]",
       ""},
      {"Slice",
       "f32[4]",
       {{"starts", Ints{}}, {"ends", Ints{}}, {"axes", Ints{}}, {"steps", Ints{}}},
       "f32[4]",
       "",
       {0}},
      {"SliceGrad", "f32[2,2,3]", With(kSlice, "shape", Ints{4, 2, 5}), "f32[4,2,5]", ""},
      {"Pad", "f32[2,3]", kPads, "f32[3,4]", "", {0}},
      {"Pad", "f32[2]", {{"pads", Ints{-2, 3}}, {"mode", "constant"}}, "f32[3]", "", {0}},
      {"Gather", "f32[5,6] i64[2,3]", {{"axis", 0}}, "f32[2,3,6]", "", {0}},
      {"Gather", "i64[5,6] i32[]", {{"axis", 1}}, "i64[5]", ""},
      {"GatherGrad", "f32[2,3,6] i64[2,3]", {{"axis", 0}, {"shape", Ints{5, 6}}}, "f32[5,6]", ""},
      {"Where", "bool[2,1] f32[3] f32[]", {}, "f32[2,3]", "", {1, 2}},
      {"Where", "bool[2] i64[2] i64[2]", {}, "i64[2]", ""},
      {"ToChannelsLast", "f32[2,3,4,4]", {}, "f32[2,3,4,4]", "", {0}},
      {"ToPlain", "f32[2,3,4]", {}, "f32[2,3,4]", "", {0}},
      {"ToPlain", "u8[2,3,4,5]", {}, "u8[2,3,4,5]", ""},
      {"Fetch", "f32[3,4]", {}, "f32[3,4]", ""},
      {"Store", "f32[3,4] f32[3,4]", {}, "", ""},

      {"ReduceSum", "f32[2,3,4]", {{"axes", Ints{0, 2}}, {"keepdims", 0}}, "f32[3]", "", {0}},
      {"ReduceSum", "f32[0,3]", {{"axes", Ints{0}}}, "f32[1,3]", "", {0}},
      {"ReduceMean", "f32[2,3,4]", {{"axes", Ints{1}}, {"keepdims", 1}}, "f32[2,1,4]", "", {0}},
      {"ReduceMean", "f32[2,1]", {{"axes", Ints{1}}, {"keepdims", 0}}, "f32[2]", "", {0}},
      {"ReduceMax", "f32[2,3]", {{"axes", Ints{0, 1}}, {"keepdims", 0}}, "f32[]", ""},
      {"ReduceMin", "f32[2,3]", {{"axes", Ints{1}}}, "f32[2,1]", ""},

      {"CrossEntropy", "f32[4,10] i64[4]", {}, "f32[] f32[4,10]", "", {0}},
      {"CrossEntropy",
       "f32[4,10,3] i32[4,3] f32[10]",
       {{"reduction", "none"}, {"ignore_index", -1}, {"label_smoothing", 0.1}},
       "f32[4,3] f32[4,10,3]",
       "",
       {0}},
      {"CrossEntropyGrad", "f32[] f32[4,10] i64[4]", {{"reduction", "sum"}}, "f32[4,10]", ""},
      {"CrossEntropyGrad", "f32[4] f32[4,10] i64[4] f32[10]", kNone, "f32[4,10]", ""},
      {"NllLoss", "f32[4,10] i64[4] f32[10]", {}, "f32[]", "", {0}},
      {"NllLoss", "f32[4,10,2,2] i64[4,2,2]", kNone, "f32[4,2,2]", "", {0}},
      {"NllLossGrad", "f32[] i64[4]", {{"shape", Ints{4, 10}}}, "f32[4,10]", ""},
      {"MseLoss", "f32[4,2] f32[4,2]", {}, "f32[]", "", {0}},
      {"MseLoss", "f32[4,2] f32[4,2]", kNone, "f32[4,2]", "", {0}},
      {"MseLossGrad", "f32[] f32[4,2] f32[4,2]", {{"reduction", "sum"}}, "f32[4,2]", ""},
      {"BceWithLogits", "f32[4] f32[4]", {{"reduction", "sum"}}, "f32[]", "", {0}},
      {"BceWithLogitsGrad", "f32[4] f32[4] f32[4]", kNone, "f32[4]", ""},

      {"CrossEntropySum", "f32[4,10] i64[4] i64[1]", {{"label_smoothing", 0.1}}, "f32[] f32[]", ""},
      {"TopKCorrect", "f64[4,10] i64[4]", {{"k", 5}}, "f32[] f32[]", ""},
      {"MseSum", "f32[4,2] f32[4,2] i64[1]", {}, "f32[] f32[]", ""},
      {"BceSum", "f32[4] f32[4]", {}, "f32[] f32[]", ""},
      {"BinaryCorrect", "f32[4] f32[4] -", {}, "f32[] f32[]", ""},

      {"SgdUpdate", "f32[3,4] f32[3,4] f64[4]", {{"weight_decay", 1e-4}}, "", ""},
      {"SgdUpdate", "f32[3] f32[3] f64[4] f32[3]", {{"momentum", 0.9}, {"nesterov", 1}}, "", ""},
      {"AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3]", {{"decoupled", 1}}, "", ""},
      {"SgdUpdate", "f32[3] f32[3] f64[4] - f32[3]", {{"ema_decay", 0.9}}, "", ""},
      {"AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3] f32[3]", {{"ema_decay", 0.9}}, "", ""},
      {"ClipFactor", "f32[3] f32[2,0] f32[]", {{"max_norm", 1.0}}, "f32[]", ""},
      {"Dropout", "f32[4,5] i64[2]", kDropout, "f32[4,5] u8[4,5]", "", {0}},
      {"DropoutGrad", "f32[4,5] u8[4,5]", {{"ratio", 0.5}}, "f32[4,5]", ""},
  };
  cases.insert(cases.end(), rest.begin(), rest.end());
  return cases;
}

std::vector<OpCase> RefusedCases() {
  std::vector<OpCase> cases;
  for (const OpDef* op : AllOps()) {  // an attribute nobody knows, and no inputs at all
    cases.push_back(Bad(std::string(op->name), "", {}, "takes"));
  }
  for (const OpCase& test : AcceptedCases()) {
    const bool known = test.attrs.Has("keepdims") || test.op.rfind("Reduce", 0) == 0;
    if (!known)
      cases.push_back(Bad(test.op, test.inputs, With(test.attrs, "keepdims", 1),
                          "there is no attribute keepdims"));
  }
  for (const char* op : {"Relu", "Exp", "Scale", "Softplus"}) {
    cases.push_back(Bad(op, "i64[2]", {}, "i64[2], needs f32 or f64"));
  }
  const std::vector<OpCase> rest = {
      Bad("Relu", "f32[281474976710656,2]", {}, "too large"),
      Bad("ReluGrad", "f32[2,3] f32[3,2]", {}, "input 1 is f32[3,2], needs f32[2,3]"),
      Bad("ReluGrad", "f32[2] f64[2]", {}, "needs f32[2]"),
      Bad("Elu", "f32[2]", {{"alpha", "1"}}, "must be a float"),
      Bad("Elu", "f32[2]", {{"alpha", std::nan("")}}, "needs to be finite"),
      Bad("Clip", "f32[2]", {{"min", std::nan("")}}, "min is not a number"),
      Bad("HardTanh", "f32[2]", {{"min", 1.0}, {"max", 1.0}}, "needs to be less than max"),
      Bad("HardTanh", "f32[2]", {{"max", HUGE_VAL}}, "max"),
      Bad("Gelu", "f32[2]", {{"approximate", "erf"}}, "needs one of: none, tanh"),
      Bad("Cast", "f32[2]", {{"to", "f16"}}, "to is \"f16\", needs one of"),
      Bad("Cast", "f32[2]", {}, "attribute to (a string) is missing"),
      Bad("Add", "f32[2] f32[3]", {}, "shapes that broadcast"),
      Bad("Add", "f32[2] f64[2]", {}, "one type"),
      Bad("Add", "u8[2] u8[2]", {}, "needs f32, f64, i32 or i64"),
      Bad("Mul", "f32[1,1048576] f32[1073741824,1]", {}, "too large"),
      Bad("Pow", "i64[2] i64[2]", {}, "needs f32 or f64"),
      Bad("GreaterEqual", "i64[2] i64[2]", {}, "needs f32 or f64"),
      Bad("AddN", "f32[2] f32[1]", {}, "input 1 is f32[1], needs f32[2]"),
      Bad("SumTo", "f32[4,2]", {{"shape", Ints{3}}}, "[3] does not broadcast to [4,2]"),
      Bad("SumTo", "f32[2]", {{"shape", Ints{4, 2}}}, "[4,2] does not broadcast to [2]"),
      Bad("Expand", "f32[2]", {{"shape", Ints{2, 1}}}, "[2] does not broadcast to [2,1]"),
      Bad("Expand", "f32[1]", {{"shape", Ints{-1}}}, "dimension -1"),
      Bad("Expand", "f32[1]", {{"shape", Ints(9, 1)}}, "at most 8"),
      Bad("Expand", "f32[1]", {{"shape", Ints{1 << 30, 1 << 30}}}, "too large"),
      Bad("MatMul", "f32[3] f32[3,4]", {}, "a is f32[3], needs a rank from 2"),
      Bad("MatMul", "f32[2,3] f32[4,3]", {}, "as many columns in a as rows in b"),
      Bad("MatMul", "f32[2,3] f64[3,4]", {}, "one type"),
      Bad("MatMul", "f32[5,2,3] f32[6,3,4]", {}, "leading axes do not broadcast"),
      Bad("MatMul", "f32[2,3] f32[3,4]", {{"trans_a", 2}}, "trans_a is 2"),
      Bad("Gemm", "f32[1,2,3] f32[3,4]", {}, "needs rank 2"),
      Bad("Gemm", "f32[2,3] f32[3,4] f32[2]", {}, "c is f32[2], needs to broadcast to f32[2,4]"),
      Bad("Gemm", "f32[2,3] f32[3,4] f32[1,2,4]", {}, "needs to broadcast"),
      Bad("Gemm", "f32[2,3] f32[3,4]", {{"alpha", HUGE_VAL}}, "needs to be finite"),

      Bad("Conv", "f32[2,4] f32[6,2]", kConv, "rank from 3 to 5"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3]", kConv, "need one rank"),
      Bad("Conv", "f32[2,4,7,8] f64[6,2,3,3]", kConv, "needs x's type f32"),
      Bad("Conv", "f32[2,4,7,8] f32[6,3,3,3]", kConv, "w needs 2 channels on axis 1"),
      Bad("Conv", "f32[2,5,7,8] f32[6,2,3,3]", kConv, "groups=2 must divide"),
      Bad("Conv", "f32[2,4,7,8] f32[5,2,3,3]", kConv, "groups=2 must divide"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", With(kConv, "groups", 0), "groups is 0"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3] f32[5]", kConv, "b is f32[5], needs f32[6]"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,0,3]", kConv, "has no elements"),
      Bad("Conv", "f32[2,4,1,8] f32[6,2,3,3]", With(kConv, "pads", Ints{0, 0, 0, 0}),
          "spans 3 positions of spatial dimension 0"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", Without(kConv, "strides"), "strides (ints) is"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", Without(kConv, "pads"), "pads (ints) is missing"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", Without(kConv, "dilations"), "dilations (ints) is"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", With(kConv, "strides", Ints{0, 1}), "strides has 0"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", With(kConv, "strides", Ints{1}), "has 1 ints"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", With(kConv, "pads", Ints{0, 0, -1, 0}), "has -1"),
      Bad("Conv", "f32[2,4,7,8] f32[6,2,3,3]", With(kConv, "dilations", Ints{1, 0}), "has 0"),
      Bad("ConvGradInput", "f32[2,6,4,6] f32[6,2,3,3]",
          With(kConv, "input_shape", Ints{2, 4, 7, 9}), "dy is f32[2,6,4,6], needs f32[2,6,4,7]"),
      Bad("ConvGradInput", "f32[2,6,4,6] f32[6,2,3,3]", With(kConv, "input_shape", Ints{2, 4, 7}),
          "one type and rank"),
      Bad("ConvGradWeight", "f32[2,6,4,6] f32[2,4,7,8]",
          With(kConv, "weight_shape", Ints{6, 2, 3, 2}), "dy is f32[2,6,4,6], needs"),
      Bad("MaxPool", "f32[2,3,7,8]", With(kMaxPool, "pads", Ints{3, 0, 0, 0}),
          "must be less than the window's extent 3"),
      Bad("MaxPool", "f32[2,3,70,80]", With(kMaxPool, "kernel", Ints{16, 16}), "more than 255"),
      Bad("MaxPool", "f32[2,3,70,80]", With(kMaxPool, "kernel", Ints{1 << 30, 1 << 30}),
          "more than 255"),
      Bad("MaxPool", "f32[2,3,7,8]", Without(kMaxPool, "kernel"), "kernel (ints) is missing"),
      Bad("MaxPool", "f32[2,3,0,8]", kMaxPool, "windows would lie outside"),
      // Positions -1 and 1 of an input that has only 0.
      Bad("MaxPool", "f32[1,1,1]",
          {{"kernel", Ints{2}}, {"strides", Ints{1}}, {"pads", Ints{1, 1}}, {"dilations", Ints{2}}},
          "windows would lie outside"),
      Bad("MaxPool", "f32[2,3,1,8]", With(kMaxPool, "pads", Ints{0, 0, 0, 0}), "spans 3"),
      Bad("MaxPoolGrad", "f32[2,3,4,4] f32[2,3,4,4]",
          With(kMaxPool, "input_shape", Ints{2, 3, 7, 8}), "needs u8[2,3,4,4]"),
      Bad("MaxPoolGrad", "f32[2,3,4,3] u8[2,3,4,3]",
          With(kMaxPool, "input_shape", Ints{2, 3, 7, 8}), "needs f32[2,3,4,4]"),
      Bad("AveragePool", "f32[2,3,7,8]", With(kAveragePool, "counted_pads", Ints{1, 1, 1, 0}),
          "more than the pad 0"),
      Bad("AveragePool", "f32[2,3,7,8]", With(kAveragePool, "dilations", Ints{1, 1}),
          "there is no attribute dilations"),
      Bad("AveragePoolGrad", "f32[2,3,4,4]", With(kAveragePool, "input_shape", Ints{2, 3, 9, 8}),
          "needs f32[2,3,5,4]"),

      Bad("BatchNorm", "f32[2,3,4] f32[3] f32[3] f32[4] f32[3]", {}, "f32[4], needs f32[3]"),
      Bad("BatchNorm", "f32[3] f32[3] f32[3] f32[3] f32[3]", {}, "rank from 2 to 5"),
      Bad("BatchNorm", "f32[0,3] f32[3] f32[3] f32[3] f32[3]", {}, "no elements to normalise"),
      Bad("BatchNorm", "f32[2,3] f32[3] f32[3] f32[3] f32[3]", {{"epsilon", -1.0}}, "epsilon"),
      Bad("BatchNorm", "f32[2,3] f32[3] f32[3] f32[3] f32[3]", {{"momentum", 1.5}}, "momentum"),
      Bad("BatchNormGrad", "f32[2,4] f32[2,3] f32[3] f32[3] f32[3]", {}, "needs f32[2,3]"),
      Bad("BatchNormInference", "f32[2,3] f32[3] f32[3] f64[3] f32[3]", {}, "needs f32[3]"),
      Bad("BatchNormInferenceGrad", "f32[2,3] f32[2,3] f32[2] f32[3] f32[3]", {}, "needs f32[3]"),
      Bad("LayerNorm", "f32[2,3] f32[2]", {{"axis", 1}}, "scale is f32[2], needs f32[3]"),
      Bad("LayerNorm", "f32[2,3] f32[3] f32[2,3]", {{"axis", 1}}, "needs f32[3]"),
      Bad("LayerNorm", "f32[2,3] f32[3]", {{"axis", 2}}, "axis is 2"),
      Bad("LayerNorm", "f32[2,3] f32[3]", {}, "axis (an int) is missing"),
      Bad("LayerNorm", "f32[2,0] f32[0]", {{"axis", 1}}, "no elements to normalise"),
      Bad("LayerNorm", "f32[2,3] f32[3]", {{"axis", 1}, {"epsilon", -1.0}}, "epsilon"),
      Bad("LayerNormGrad", "f32[2,3] f32[2,3] f32[3] f32[2] f32[2,1]", {{"axis", 1}},
          "needs f32[2,1]"),
      Bad("LayerNormGrad", "f32[2,4] f32[2,3] f32[3] f32[2,1] f32[2,1]", {{"axis", 1}},
          "needs f32[2,3]"),
      Bad("Lrn", "f32[2,3,4]", With(kLrn, "size", 0), "size is 0"),
      Bad("Lrn", "f32[2,3,4]", Without(kLrn, "bias"), "bias (a float) is missing"),
      Bad("Lrn", "f32[2]", kLrn, "rank from 2"),
      Bad("LrnGrad", "f32[2,3] f32[2,4]", kLrn, "needs f32[2,3]"),
      Bad("Softmax", "f32[2,3]", {{"axis", 2}}, "axis is 2, needs to be from 0 to 1"),
      Bad("Softmax", "f32[2,3]", {{"axis", -1}}, "axis is -1"),
      Bad("Softmax", "f32[]", {{"axis", 0}}, "no axes"),
      Bad("Softmax", "f32[2]", {}, "axis (an int) is missing"),
      Bad("LogSoftmaxGrad", "f32[2,3] f32[2]", {{"axis", 0}}, "needs f32[2,3]"),

      Bad("Reshape", "f32[2,6]", {{"shape", Ints{3, 5}}}, "of 12 elements, the shape [3,5] has 15"),
      Bad("Reshape", "f32[2,6]", {{"shape", Ints{-1, 6}}}, "dimensions must be bound"),
      Bad("Reshape", "f32[2,6]", {{"shape", Ints{INT64_C(0x100000000), INT64_C(0x100000000), 12}}},
          "too large"),
      Bad("Transpose", "f32[2,3]", {{"perm", Ints{0, 0}}}, "perm names an axis twice"),
      Bad("Transpose", "f32[2,3]", {{"perm", Ints{0, 2}}}, "perm has 2"),
      Bad("Transpose", "f32[2,3]", {{"perm", Ints{0}}}, "perm has 1 ints, needs 2"),
      Bad("Concat", "f32[2,3] f32[3,3]", {{"axis", 1}}, "input 1 is f32[3,3]"),
      Bad("Concat", "f32[2,3] f64[2,3]", {{"axis", 1}}, "input 1 is f64[2,3]"),
      Bad("Concat", "f32[2,3] f32[2]", {{"axis", 1}}, "input 1 is f32[2]"),
      Bad("Concat", "f32[] f32[]", {{"axis", 0}}, "no axes"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "steps", Ints{1, 0}), "step must not be 0"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "starts", Ints{5, 4}), "leave axis 0 of 4"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "starts", Ints{1, 5}), "leave axis 2 of 5"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "ends", Ints{5, -1}), "leave axis 0 of 4"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "ends", Ints{-1, -1}), "leave axis 0 of 4"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "axes", Ints{2, 0}), "must be ascending"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "axes", Ints{0, 3}), "axis 3 of a tensor of rank 3"),
      Bad("Slice", "f32[4,2,5]", With(kSlice, "starts", Ints{1}), "starts has 1 ints, needs 2"),
      Bad("Slice", "f32[4,2,0]", With(kSlice, "starts", Ints{1, 0}), "leave axis 2 of 0"),
      Bad("SliceGrad", "f32[2,2,2]", With(kSlice, "shape", Ints{4, 2, 5}), "needs f32[2,2,3]"),
      Bad("Pad", "f32[2,3]", With(kPads, "pads", Ints{1, -2, 0, -2}), "cut more than axis 1"),
      Bad("Pad", "f32[2,3]", With(kPads, "pads", Ints{1, 1}), "pads has 2 ints, needs 4"),
      Bad("Pad", "f32[2,3]", With(kPads, "mode", "reflect"), "needs one of: constant"),
      Bad("Pad", "f32[2,3]", With(kPads, "pads", Ints{0, 0, INT64_C(1) << 48, 0}), "too large"),
      Bad("Gather", "f32[5,6] f32[2]", {{"axis", 0}}, "indices is f32[2], needs i32 or i64"),
      Bad("Gather", "f32[] i64[2]", {{"axis", 0}}, "no axes"),
      Bad("Gather", "f32[1,1,1,1,1] i64[1,1,1,1,1]", {{"axis", 0}}, "at most 8"),
      Bad("GatherGrad", "f32[2,6] i64[3]", {{"axis", 0}, {"shape", Ints{5, 6}}}, "needs f32[3,6]"),
      Bad("Where", "f32[2] f32[2] f32[2]", {}, "they need bool"),
      Bad("Where", "bool[2] f32[2] f32[3]", {}, "shapes that broadcast"),
      Bad("Where", "bool[3] f32[2] f32[2]", {}, "shapes that broadcast"),
      Bad("Where", "bool[2] f32[2] f64[2]", {}, "one type"),
      Bad("ToChannelsLast", "f32[2,3]", {}, "rank from 3 to 5"),

      Bad("ReduceSum", "f32[2,3]", {{"axes", Ints{}}}, "at least one axis"),
      Bad("ReduceSum", "f32[2,3]", {}, "axes (ints) is missing"),
      Bad("ReduceSum", "f32[2,3]", {{"axes", Ints{1, 0}}}, "must be ascending"),
      Bad("ReduceSum", "f32[2,3]", {{"axes", Ints{0, 0}}}, "must be ascending"),
      Bad("ReduceSum", "f32[2,3]", {{"axes", Ints{-1}}}, "the axis -1"),
      Bad("ReduceMean", "f32[0,3]", {{"axes", Ints{0}}}, "no elements to reduce"),
      Bad("ReduceMax", "i64[2]", {{"axes", Ints{0}}}, "needs f32 or f64"),
      Bad("ReduceMin", "f32[2]", {{"axes", Ints{0}}, {"keepdims", 2}}, "keepdims is 2"),

      Bad("CrossEntropy", "f32[4,10] f32[4]", {}, "labels is f32[4], needs i32 or i64"),
      Bad("CrossEntropy", "f32[4,10] i64[4,1]", {}, "labels are i64[4,1], need the shape [4]"),
      Bad("CrossEntropy", "f32[10] i64[10]", {}, "[N,C,...]"),
      Bad("CrossEntropy", "f32[4,0] i64[4]", {}, "C >= 1"),
      Bad("CrossEntropy", "f32[4,10] i64[4] f32[4]", {}, "weight is f32[4], needs f32[10]"),
      Bad("CrossEntropy", "f32[4,10] i64[4]", {{"label_smoothing", 2.0}}, "label_smoothing"),
      Bad("CrossEntropy", "f32[4,10] i64[4]", {{"reduction", "avg"}}, "mean, sum, none"),
      Bad("CrossEntropyGrad", "f32[] f32[4,10] i64[4]", kNone, "dloss is f32[], needs f32[4]"),
      Bad("NllLoss", "f32[4,10] i64[5]", {}, "need the shape [4]"),
      Bad("NllLoss", "f32[4,10] i64[4]", {{"label_smoothing", 0.1}}, "no attribute"),
      Bad("NllLossGrad", "f32[] i64[4]", {{"shape", Ints{4}}}, "[N,C,...]"),
      Bad("NllLossGrad", "f32[4] i64[4]", {{"shape", Ints{4, 10}}}, "needs f32[]"),
      Bad("MseLoss", "f32[4,1] f32[4]", {}, "target is f32[4], needs f32[4,1]"),
      Bad("MseLossGrad", "f32[4] f32[4] f32[4]", {}, "dloss is f32[4], needs f32[]"),
      Bad("BceWithLogits", "f32[4] i64[4]", {}, "target is i64[4], needs f32[4]"),
      Bad("BceWithLogitsGrad", "f32[] f32[4] f32[3]", {}, "needs f32[4]"),

      Bad("CrossEntropySum", "f32[4,10] i64[4] i64[2]", {}, "valid is i64[2], needs i64[1]"),
      Bad("TopKCorrect", "f32[4,10] i64[4]", {{"k", 0}}, "k is 0"),
      Bad("TopKCorrect", "f32[4,10] i64[4]", {}, "k (an int) is missing"),
      Bad("MseSum", "f32[] f32[]", {}, "rank from 1"),
      Bad("BceSum", "f32[4] f32[3]", {}, "needs f32[4]"),
      Bad("BinaryCorrect", "f32[4] f32[4] f32[1]", {}, "needs i32 or i64"),

      Bad("Store", "f32[3] f32[4]", {}, "copy is f32[4], needs f32[3]"),
      Bad("SgdUpdate", "f32[3] f32[4] f64[4]", {}, "grad is f32[4], needs f32[3]"),
      Bad("SgdUpdate", "f32[3] f32[3] f32[4]", {}, "hyper is f32[4], needs f64[4]"),
      Bad("SgdUpdate", "f32[3] f32[3] f64[4]", {{"momentum", 0.9}}, "needs a velocity"),
      Bad("SgdUpdate", "f32[3] f32[3] f64[4] f32[2]", {}, "velocity is f32[2]"),
      Bad("SgdUpdate", "f32[3] f32[3] f64[4]", {{"nesterov", 1}}, "nesterov needs momentum"),
      Bad("AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3]", {{"beta1", 1.0}}, "less than 1"),
      Bad("AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f64[3]", {}, "v is f64[3], needs f32[3]"),
      Bad("SgdUpdate", "f32[3] f32[3] f64[4] - f32[2]", {{"ema_decay", 0.9}}, "ema is f32[2]"),
      Bad("SgdUpdate", "f32[3] f32[3] f64[4]", {{"ema_decay", 0.9}}, "needs an ema, input 4"),
      Bad("AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3] f32[3]", {{"ema_decay", 1.0}},
          "less than 1"),
      Bad("ClipFactor", "f32[3] f64[3]", {{"max_norm", 1.0}}, "of one type"),
      Bad("ClipFactor", "f32[3]", {{"max_norm", 0.0}}, "max_norm must be above 0"),
      Bad("ClipFactor", "i64[3]", {{"max_norm", 1.0}}, "needs f32 or f64"),
      Bad("Dropout", "f32[4] i64[2]", With(kDropout, "ratio", 1.0), "less than 1"),
      Bad("Dropout", "f32[4] i64[2]", Without(kDropout, "stream"), "stream (an int) is missing"),
      Bad("Dropout", "f32[4] i64[3]", kDropout, "rng is i64[3], needs i64[2]"),
      Bad("DropoutGrad", "f32[4] u8[5]", {{"ratio", 0.5}}, "mask is u8[5], needs u8[4]"),
  };
  cases.insert(cases.end(), rest.begin(), rest.end());
  return cases;
}

TensorType ParseType(const std::string& text) {
  const size_t bracket = text.find('[');
  EBB_CHECK(bracket != std::string::npos && text.back() == ']');
  TensorType type{ParseDType(text.substr(0, bracket)).value(), {}};
  const std::string dims = text.substr(bracket + 1, text.size() - bracket - 2);
  for (absl::string_view word : absl::StrSplit(dims, ',', absl::SkipEmpty())) {
    int64_t dim = 0;
    EBB_CHECK(absl::SimpleAtoi(word, &dim));
    type.shape.push_back(dim);
  }
  return type;
}

std::vector<std::string> Words(const std::string& text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

std::vector<ValueId> AddInputs(Graph& graph, const OpCase& test) {
  const std::vector<int>& mutates = FindOp(test.op)->mutates;
  std::vector<ValueId> inputs;
  for (const std::string& word : Words(test.inputs)) {
    const int i = static_cast<int>(inputs.size());
    const bool mutated = std::find(mutates.begin(), mutates.end(), i) != mutates.end();
    inputs.push_back(word == "-" ? ValueId()
                                 : graph.AddValue(absl::StrCat("x", i), ParseType(word),
                                                  mutated ? Role::kBuffer : Role::kInput));
  }
  return inputs;
}

std::string Describe(const OpCase& test) {
  return absl::StrCat(test.op, "(", test.inputs, ") ", ToString(test.attrs));
}

}  // namespace ebb::graph
