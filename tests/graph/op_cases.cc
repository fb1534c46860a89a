#include "tests/graph/op_cases.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "tests/graph/op_case_attrs.h"

namespace ebb::graph {
namespace {

void AddUnary(std::vector<OpCase>& cases) {
  for (const char* op : {"Relu",       "LeakyRelu",   "Elu",       "Sigmoid", "Tanh",     "Clip",
                         "HardTanh",   "HardSigmoid", "HardSwish", "Silu",    "Softplus", "Gelu",
                         "Erf",        "Exp",         "Log",       "Sqrt",    "Neg",      "Abs",
                         "Reciprocal", "Scale",       "Identity",  "Sin",     "Cos",      "Atan"}) {
    cases.push_back({op, "f32[2,0,3]", {}, "f32[2,0,3]", "", {0}});
    cases.push_back({op, "f64[]", {}, "f64[]", "", {0}});
  }
  for (const char* op : {"Sign", "Floor", "Ceil", "Round"}) {
    cases.push_back({op, "f32[4]", {}, "f32[4]", ""});
  }
  for (const char* op : {"ReluGrad", "LeakyReluGrad", "EluGrad", "SigmoidGrad", "TanhGrad",
                         "ClipGrad", "HardTanhGrad", "HardSigmoidGrad", "HardSwishGrad", "SiluGrad",
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
      {"Mod", "f32[2,1] f32[3]", {}, "f32[2,3]", "", {0, 1}},
      {"Mod", "f32[2] f32[2]", {{"fmod", 1}}, "f32[2]", "", {0, 1}},
      {"Mod", "i64[2] i64[]", {}, "i64[2]", ""},
      {"Equal", "f32[2,1] f32[3]", {}, "bool[2,3]", ""},
      {"Equal", "bool[2] bool[2]", {}, "bool[2]", ""},
      {"Less", "i64[2] i64[]", {}, "bool[2]", ""},
      {"LessEqual", "f32[0] f32[1]", {}, "bool[0]", ""},
      {"And", "bool[2,1] bool[3]", {}, "bool[2,3]", ""},
      {"Or", "bool[2] bool[]", {}, "bool[2]", ""},
      {"Xor", "bool[2] bool[2]", {}, "bool[2]", ""},
      {"Not", "bool[2,0]", {}, "bool[2,0]", ""},
      {"AddN", "f32[2] f32[2] f32[2]", {}, "f32[2]", "", {0, 1, 2}},
      {"AddN", "f32[2]", {}, "f32[2]", "", {0}},
      {"SumTo", "f32[4,2,3]", {{"shape", Ints{2, 1}}}, "f32[2,1]", "", {0}},
      {"SumTo", "f32[4]", {{"shape", Ints{}}}, "f32[]", "", {0}},
      {"Expand", "f32[2,1]", {{"shape", Ints{4, 2, 3}}}, "f32[4,2,3]", "", {0}},
      {"Expand", "i64[1]", {{"shape", Ints{0}}}, "i64[0]", ""},
      {"Expand", "bool[1]", {{"shape", Ints{2, 3}}}, "bool[2,3]", ""},

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
      {"ConvGradInput",
       "f32[2,6,4,6] f32[6,2,3,3]",
       With(kConv, "input_shape", Ints{2, 4, 7, 8}),
       "f32[2,4,7,8]",
       "",
       {0, 1}},
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
      {"RmsNorm",
       "f32[2,5,3,4] f32[3,4]",
       {{"axis", 2}, {"epsilon", 1e-12}},
       "f32[2,5,3,4] f32[2,5,1,1]",
       "",
       {0, 1}},
      {"RmsNormGrad", "f32[2,3] f32[2,3] f32[3] f32[2,1]", {{"axis", 1}}, "f32[2,3] f32[3]", ""},
      {"GroupNorm",
       "f32[2,6,3,4] f32[6] f32[6]",
       {{"groups", 3}, {"epsilon", 1e-3}},
       "f32[2,6,3,4] f32[2,3] f32[2,3]",
       "",
       {0, 1, 2}},
      {"GroupNorm",
       "f32[0,4] f32[4] f32[4]",
       {{"groups", 4}},
       "f32[0,4] f32[0,4] f32[0,4]",
       "",
       {0, 1, 2}},
      {"GroupNormGrad",
       "f32[2,6,5] f32[2,6,5] f32[6] f32[2,2] f32[2,2]",
       {{"groups", 2}},
       "f32[2,6,5] f32[6] f32[6]",
       ""},
      {"Lrn", "f32[2,3,4,4]", kLrn, "f32[2,3,4,4]", "", {0}},
      {"LrnGrad", "f32[2,3,4,4] f32[2,3,4,4]", kLrn, "f32[2,3,4,4]", ""},
      {"Softmax", "f32[2,3]", {{"axis", 1}}, "f32[2,3]", "", {0}},
      {"Softmax", "f32[2,3]", {{"axis", 1}, {"zero_masked", 1}}, "f32[2,3]", "", {0}},
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
      {"Where", "bool[2] bool[2] bool[]", {}, "bool[2]", ""},
      {"Pad", "bool[2]", {{"pads", Ints{0, 3}}}, "bool[5]", ""},
      {"GatherElements", "f32[5,6] i64[4,7]", {{"axis", 1}}, "f32[4,7]", "", {0}},
      {"GatherElements", "bool[5] i32[0]", {{"axis", 0}}, "bool[0]", ""},
      {"GatherElementsGrad",
       "f32[4,7] i64[4,7]",
       {{"axis", 1}, {"shape", Ints{5, 6}}},
       "f32[5,6]",
       ""},
      {"ScatterElements", "f32[5,6] i64[4,7] f32[4,7]", {{"axis", 1}}, "f32[5,6]", "", {0, 2}},
      {"ScatterElements",
       "f32[5] i64[4] f32[4]",
       {{"axis", 0}, {"reduction", "add"}},
       "f32[5]",
       "",
       {0, 2}},
      {"ScatterElements", "bool[5] i64[4] bool[4]", {{"axis", 0}}, "bool[5]", ""},
      {"ScatterElements",
       "i64[5] i64[4] i64[4]",
       {{"axis", 0}, {"reduction", "max"}},
       "i64[5]",
       ""},
      {"GatherND", "f32[5,6,2] i64[3,2]", {}, "f32[3,2]", "", {0}},
      {"GatherND", "f32[5,6,2] i32[5,4,1]", {{"batch_dims", 1}}, "f32[5,4,2]", "", {0}},
      {"GatherNDGrad", "f32[3,2] i64[3,2]", {{"shape", Ints{5, 6, 2}}}, "f32[5,6,2]", ""},
      {"ScatterND", "f32[5,6] i64[4,1] f32[4,6]", {}, "f32[5,6]", "", {0, 2}},
      {"ScatterND", "f32[5,6] i64[4,2] f32[4]", {{"reduction", "add"}}, "f32[5,6]", "", {0, 2}},
      {"CumSum", "f32[2,3]", {{"axis", 1}, {"exclusive", 1}}, "f32[2,3]", "", {0}},
      {"CumSum", "i64[2]", {{"axis", 0}, {"reverse", 1}}, "i64[2]", ""},
      {"TopK", "f32[2,5]", {{"axis", 1}, {"k", 3}}, "f32[2,3] i64[2,3]", "", {0}},
      {"TopK", "i32[5]", {{"axis", 0}, {"k", 5}, {"largest", 0}}, "i32[5] i64[5]", ""},
      {"ArgMax", "f32[2,5]", {{"axis", 1}}, "i64[2,1]", ""},
      {"ArgMin", "i64[2,5]", {{"axis", 0}, {"keepdims", 0}, {"last", 1}}, "i64[5]", ""},
      {"ToChannelsLast", "f32[2,3,4,4]", {}, "f32[2,3,4,4]", "", {0}},
      {"ToPlain", "f32[2,3,4]", {}, "f32[2,3,4]", "", {0}},
      {"ToPlain", "u8[2,3,4,5]", {}, "u8[2,3,4,5]", ""},
      {"Fetch", "f32[3,4]", {}, "f32[3,4]", ""},
      {"Store", "f32[3,4] f32[3,4]", {}, "", ""},

      {"ReduceSum", "f32[2,3,4]", {{"axes", Ints{0, 2}}, {"keepdims", 0}}, "f32[3]", "", {0}},
      {"ReduceSum", "f32[0,3]", {{"axes", Ints{0}}}, "f32[1,3]", "", {0}},
      {"ReduceMean", "f32[2,3,4]", {{"axes", Ints{1}}, {"keepdims", 1}}, "f32[2,1,4]", "", {0}},
      {"ReduceMean", "f32[2,1]", {{"axes", Ints{1}}, {"keepdims", 0}}, "f32[2]", "", {0}},
      {"ReduceMax", "f32[2,3]", {{"axes", Ints{0, 1}}, {"keepdims", 0}}, "f32[]", "", {0}},
      {"ReduceMin", "f32[2,3]", {{"axes", Ints{1}}}, "f32[2,1]", "", {0}},
      {"ReduceMin", "i32[2,3]", {{"axes", Ints{1}}}, "i32[2,1]", ""},
      {"ReduceSum", "i64[2,3]", {{"axes", Ints{1}}, {"keepdims", 0}}, "i64[2]", ""},
      {"ReduceProd", "f32[2,3]", {{"axes", Ints{1}}, {"keepdims", 0}}, "f32[2]", "", {0}},
      {"ReduceProdGrad", "f32[2,1] f32[2,3]", {{"axes", Ints{1}}}, "f32[2,3]", ""},

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
      {"CrossEntropySum", "f32[4,10] i64[4] - f32[10]", {{"log_prob", 1}}, "f32[] f32[]", ""},
      {"ClassCounts", "f32[4,10,2] i32[4,2] i64[1]", {{"ignore_index", -1}}, "f32[3,10]", ""},
      {"RowsSum", "f32[4,2,3] i64[1]", {}, "f32[] f32[]", ""},
      {"RowsSum", "f64[]", {}, "f32[] f32[]", ""},
      {"TopKCorrect", "f64[4,10] i64[4]", {{"k", 5}}, "f32[] f32[]", ""},
      {"MseSum", "f32[4,2] f32[4,2] i64[1]", {}, "f32[] f32[]", ""},
      {"BceSum", "f32[4] f32[4]", {}, "f32[] f32[]", ""},
      {"BinaryCorrect", "f32[4] f32[4] -", {}, "f32[] f32[]", ""},

      {"SgdUpdate", "f32[3,4] f32[3,4] f64[4]", {{"weight_decay", 1e-4}}, "", ""},
      {"SgdUpdate", "f32[3] f32[3] f64[4] f32[3]", {{"momentum", 0.9}, {"nesterov", 1}}, "", ""},
      {"AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3]", {{"decoupled", 1}}, "", ""},
      {"SgdUpdate", "f32[3] f32[3] f64[4] - f32[3]", {{"ema_decay", 0.9}}, "", ""},
      {"AdamUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3] f32[3]", {{"ema_decay", 0.9}}, "", ""},
      {"AdagradUpdate", "f32[3] f32[3] f64[4] f32[3] f32[3]", {{"ema_decay", 0.9}}, "", ""},
      {"RmsPropUpdate", "f32[3] f32[3] f64[4] f32[3]", {{"alpha", 0.9}}, "", ""},
      {"RmsPropUpdate",
       "f32[3] f32[3] f64[4] f32[3] - f32[3] f32[3]",
       {{"centered", 1}, {"ema_decay", 0.9}},
       "",
       ""},
      {"RowwiseAdagradUpdate", "f32[3,4] f32[3,4] f64[4] f32[3]", {{"sparse", 1}}, "", ""},
      {"SparseRowwiseAdagradUpdate", "f32[9,4] f32[2,5,4] f64[4] f32[9] i64[2,5]", {}, "", ""},
      {"SparseRowwiseAdagradUpdate",
       "f32[9,4] f32[3,4] f64[4] f32[9] i64[7] i64[4]",
       {{"mode", "mean"}, {"include_last_offset", 1}},
       "",
       ""},
      {"ClipFactor", "f32[3] f32[2,0] f32[]", {{"max_norm", 1.0}}, "f32[]", ""},
      {"Dropout", "f32[4,5] i64[2]", kDropout, "f32[4,5] u8[4,5]", "", {0}},
      {"DropoutGrad", "f32[4,5] u8[4,5]", {{"ratio", 0.5}}, "f32[4,5]", ""},
      {"EmbeddingBag", "f32[7,3] i64[9] i64[4]", {{"mode", "sum"}}, "f32[4,3]", "", {0}},
      {"EmbeddingBag", "f32[7,3] i32[0] i32[1]", kBag, "f32[0,3]", "", {0}},
      {"EmbeddingBagGrad", "f32[3,5] i64[9] i64[4]", With(kBag, "shape", Ints{7, 5}), "f32[7,5]",
       ""},
      {"Lstm",
       "f32[5,2,12] f32[12,3] - f32[2,3]",
       kLstm,
       "f32[5,2,3] f32[5,2,3] f32[5,2,12]",
       "",
       {0, 1, 3}},
      {"Lstm",
       "f32[5,2,12] f32[12,3] f32[2,3]",
       With(kLstm, "reverse", 1),
       "f32[5,2,3] f32[5,2,3] f32[5,2,12]",
       "",
       {0, 1, 2}},
      {"LstmGrad", "f32[5,2,12] f32[5,2,3] f32[5,2,3] f32[12,3] - f32[5,2,3] f32[2,3]", kLstm,
       "f32[5,2,12] f32[12,3] f32[2,3] f32[2,3]", ""},
      {"Gru",
       "f32[5,2,9] f32[9,3] f32[9] f32[2,3]",
       kGru,
       "f32[5,2,3] f32[5,2,3] f32[5,2,9]",
       "",
       {0, 1, 2, 3}},
      {"Gru",
       "f32[5,0,9] f32[9,3]",
       With(kGru, "linear_before_reset", 0),
       "f32[5,0,3] f32[5,0,3] f32[5,0,9]",
       "",
       {0, 1}},
      {"GruGrad", "f32[5,2,9] f32[5,2,3] f32[5,2,3] f32[9,3] f32[5,2,3] -", kGru,
       "f32[5,2,9] f32[9,3] f32[9] f32[2,3]", ""},
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
