#include "tests/device/grad_cases.h"

#include "absl/strings/str_cat.h"

namespace ebb::device {
namespace {

using Cases = std::vector<GradCase>;

Cases Elementwise() {
  Cases cases;
  auto unary = [&](const std::string& op, double min, double max, std::vector<double> kinks = {}) {
    cases.push_back({absl::StrCat("x = input f64[3,7]; y = ", op), min, max, std::move(kinks)});
  };
  unary("Relu(x)", -1, 1, {0});
  unary("LeakyRelu(x)", -1, 1, {0});
  unary("LeakyRelu(x) {alpha=0.3}", -1, 1, {0});
  unary("Elu(x)", -2, 2, {0});
  unary("Elu(x) {alpha=0.7}", -2, 2, {0});
  unary("Sigmoid(x)", -4, 4);
  unary("Tanh(x)", -2, 2);
  unary("Clip(x) {min=-0.5, max=0.25}", -1, 1, {-0.5, 0.25});
  unary("Clip(x) {min=0.0}", -1, 1, {0});
  unary("Clip(x) {max=0.0}", -1, 1, {0});
  unary("HardTanh(x)", -2, 2, {-1, 1});
  unary("HardTanh(x) {min=0.0, max=0.5}", -1, 1, {0, 0.5});
  unary("HardSigmoid(x)", -4, 4, {-2.5, 2.5});
  unary("HardSigmoid(x) {alpha=0.5, beta=0.25}", -3, 3, {-0.5, 1.5});
  unary("Silu(x)", -5, 5);
  unary("HardSwish(x)", -5, 5, {-3, 3});
  unary("Softplus(x)", -4, 4);
  unary("Gelu(x)", -3, 3);
  unary("Gelu(x) {approximate=\"tanh\"}", -3, 3);
  unary("Erf(x)", -2, 2);
  unary("Exp(x)", -2, 2);
  unary("Log(x)", 0.2, 3);
  unary("Sqrt(x)", 0.2, 3);
  unary("Neg(x)", -1, 1);
  unary("Abs(x)", -1, 1, {0});
  unary("Reciprocal(x)", 0.3, 2);
  unary("Sin(x)", -3, 3);
  unary("Cos(x)", -3, 3);
  unary("Atan(x)", -3, 3);
  unary("Scale(x) {scale=-2.5, shift=0.5}", -1, 1);
  unary("Cast(x) {to=\"f64\"}", -1, 1);
  unary("Identity(x)", -1, 1);
  return cases;
}

Cases Binary() {
  Cases cases;
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}) {
    for (const char* shapes : {"[2,3] [2,3]", "[2,3] [3]", "[2,1] [1,3]", "[4,1,3] [2,1]",
                               "[2,3] []", "[] [2,3]", "[] []"}) {
      const std::string text = shapes;
      const size_t gap = text.find(' ');
      cases.push_back({absl::StrCat("a = input f64", text.substr(0, gap), "; b = input f64",
                                    text.substr(gap + 1), "; y = ", op, "(a, b)"),
                       0.5, 2});
    }
  }
  cases.push_back({"a = input f64[3,2]; y = Mul(a, a)"});
  for (const char* fmod : {"0", "1"}) {  // whole numbers of b in a: none, one or more
    cases.push_back({absl::StrCat("a = input f64[3,4]; s = Scale(a) {scale=-7.0}; "
                                  "b = input f64[4]; y = Mod(s, b) {fmod=",
                                  fmod, "}"),
                     0.5, 2});
  }
  cases.push_back({"a = input f64[5]; y = AddN(a)"});
  cases.push_back(
      {"a = input f64[2,2]; b = input f64[2,2]; c = input f64[2,2]; "
       "y = AddN(a, b, c, a)"});
  cases.push_back({"x = input f64[4,3,2]; y = SumTo(x) {shape=[3,1]}"});
  cases.push_back({"x = input f64[2,3]; y = SumTo(x) {shape=[2,3]}"});
  cases.push_back({"x = input f64[2,3]; y = SumTo(x) {shape=[]}"});
  cases.push_back({"x = input f64[3,1]; y = Expand(x) {shape=[4,3,2]}"});
  cases.push_back({"x = input f64[]; y = Expand(x) {shape=[2,2]}"});
  return cases;
}

Cases Matmul() {
  Cases cases;
  for (const char* flags : {"0 0", "0 1", "1 0", "1 1"}) {
    const bool trans_a = flags[0] == '1', trans_b = flags[2] == '1';
    const std::string a = trans_a ? "3,2" : "2,3", b = trans_b ? "4,3" : "3,4";
    const std::string attrs = absl::StrCat("trans_a=", trans_a, ", trans_b=", trans_b);
    for (const char* lead : {" ", "5, 5,", "5,1, 2,", "2,2, ", " 3,", "5, 1,"}) {
      const std::string text = lead;
      const size_t gap = text.find(' ');
      cases.push_back({absl::StrCat("a = input f64[", text.substr(0, gap), a, "]; b = input f64[",
                                    text.substr(gap + 1), b, "]; y = MatMul(a, b) {", attrs, "}")});
    }
    cases.push_back({absl::StrCat("a = input f64[", a, "]; b = input f64[", b,
                                  "]; y = Gemm(a, b) {", attrs, ", alpha=0.5}")});
    for (const char* c : {"2,4", "4", "2,1", "1,1", ""}) {
      cases.push_back(
          {absl::StrCat("a = input f64[", a, "]; b = input f64[", b, "]; c = input f64[", c,
                        "]; y = Gemm(a, b, c) {", attrs, ", alpha=-1.5, beta=0.25}")});
    }
  }
  return cases;
}

Cases Conv() {
  Cases cases;
  auto conv = [&](const char* x, const char* w, const char* attrs, int filters) {
    const std::string head = absl::StrCat("x = input f64", x, "; w = input f64", w, "; ");
    cases.push_back({absl::StrCat(head, "y = Conv(x, w) {", attrs, "}")});
    cases.push_back(
        {absl::StrCat(head, "b = input f64[", filters, "]; y = Conv(x, w, b) {", attrs, "}")});
  };
  conv("[2,3,5]", "[2,3,3]", "strides=[1], pads=[1,1], dilations=[1]", 2);
  conv("[1,2,5,4]", "[3,2,3,2]", "strides=[1,1], pads=[0,0,0,0], dilations=[1,1]", 3);
  conv("[2,2,5,6]", "[2,2,3,3]", "strides=[2,3], pads=[1,0,2,1], dilations=[1,1]", 2);
  conv("[1,2,7,6]", "[2,2,3,2]", "strides=[2,1], pads=[2,1,1,0], dilations=[2,3]", 2);
  conv("[2,4,4,4]", "[6,2,3,3]", "strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=2", 6);
  conv("[1,3,4,4]", "[6,1,2,2]", "strides=[1,2], pads=[0,1,0,1], dilations=[1,1], groups=3", 6);
  conv("[2,3,3,3]", "[4,3,1,1]", "strides=[2,2], pads=[0,0,0,0], dilations=[1,1]", 4);
  auto transposed = [&](const char* x, const char* w, const char* attrs) {
    cases.push_back({absl::StrCat("x = input f64", x, "; w = input f64", w,
                                  "; y = ConvGradInput(x, w) {", attrs, "}")});
  };
  transposed("[2,3,4]", "[3,2,3]", "strides=[2], pads=[1,0], dilations=[1], input_shape=[2,2,8]");
  transposed("[1,4,3,2]", "[4,3,2,3]",
             "strides=[1,2], pads=[0,1,0,1], dilations=[2,1], groups=2, input_shape=[1,6,5,3]");
  conv("[1,2,3,4,3]", "[2,1,2,2,3]",
       "strides=[1,2,1], pads=[0,1,1,1,0,1], dilations=[1,1,1], groups=2", 2);
  return cases;
}

Cases Pool() {
  Cases cases;
  auto pool = [&](const char* op, const char* x, const char* attrs) {
    cases.push_back({absl::StrCat("x = input f64", x, "; y = ", op, "(x) {", attrs, "}")});
  };
  for (const char* attrs : {"kernel=[2,2], strides=[2,2], pads=[0,0,0,0]",
                            "kernel=[3,2], strides=[1,2], pads=[1,0,2,1]",
                            "kernel=[3,3], strides=[2,1], pads=[2,1,0,2]",
                            "kernel=[1,1], strides=[2,2], pads=[0,0,0,0]"}) {
    pool("MaxPool", "[2,2,5,6]", absl::StrCat(attrs, ", dilations=[1,1]").c_str());
    pool("AveragePool", "[2,2,5,6]", absl::StrCat(attrs, ", counted_pads=[0,0,0,0]").c_str());
  }
  pool("MaxPool", "[1,2,7,8]", "kernel=[2,3], strides=[1,2], pads=[1,2,1,1], dilations=[2,2]");
  pool("MaxPool", "[2,3,6]", "kernel=[3], strides=[2], pads=[1,1], dilations=[1]");
  pool("MaxPool", "[1,2,3,4,4]",
       "kernel=[2,2,3], strides=[1,2,1], pads=[0,1,1,0,0,1], dilations=[1,1,1]");
  pool("AveragePool", "[2,3,6]", "kernel=[3], strides=[2], pads=[1,2], counted_pads=[1,0]");
  pool("AveragePool", "[1,2,5,5]",
       "kernel=[3,3], strides=[2,2], pads=[1,1,1,2], counted_pads=[1,1,1,1]");
  pool("AveragePool", "[1,2,3,4,4]",
       "kernel=[2,2,3], strides=[1,2,1], pads=[0,1,1,0,0,1], counted_pads=[0,1,0,0,0,1]");
  return cases;
}

Cases Norm() {
  Cases cases;
  auto batch = [&](const char* op, const char* x, const char* attrs) {
    cases.push_back({absl::StrCat("x = input f64", x,
                                  "; s = input f64[3]; b = input f64[3]; m = buffer f64[3]; "
                                  "v = buffer f64[3]; y = ",
                                  op, "(x, s, b, m, v) {", attrs, "}"),
                     0.2, 2});
  };
  for (const char* x : {"[4,3]", "[2,3,4]", "[2,3,2,3]", "[2,3,2,1,2]"}) {
    batch("BatchNorm", x, "epsilon=0.01, momentum=0.3");
    batch("BatchNormInference", x, "epsilon=0.01");
  }
  for (const char* text : {"x = input f64[4,5]; s = input f64[5]; b = input f64[5]; "
                           "y = LayerNorm(x, s, b) {axis=1, epsilon=0.01}",
                           "x = input f64[2,3,2,2]; s = input f64[2,2]; b = input f64[2,2]; "
                           "y = LayerNorm(x, s, b) {axis=2, epsilon=0.1}",
                           "x = input f64[2,3,4]; s = input f64[4]; y = LayerNorm(x, s) {axis=2}",
                           "x = input f64[6]; s = input f64[6]; y = LayerNorm(x, s) {axis=0}",
                           "x = input f64[2,3,4]; s = input f64[3,4]; "
                           "y = RmsNorm(x, s) {axis=1, epsilon=0.1}",
                           "x = input f64[5]; s = input f64[5]; y = RmsNorm(x, s) {axis=0}"}) {
    cases.push_back({text, 0.2, 2});
  }
  for (const char* text : {"x = input f64[2,6,3]; s = input f64[6]; b = input f64[6]; "
                           "y = GroupNorm(x, s, b) {groups=3, epsilon=0.01}",
                           "x = input f64[2,4,2,2]; s = input f64[4]; b = input f64[4]; "
                           "y = GroupNorm(x, s, b) {groups=4, epsilon=0.1}",
                           "x = input f64[3,6]; s = input f64[6]; b = input f64[6]; "
                           "y = GroupNorm(x, s, b) {groups=1}"}) {
    cases.push_back({text, 0.2, 2});
  }
  for (const char* attrs :
       {"size=3, alpha=0.5, beta=0.75, bias=2.0", "size=4, alpha=1.0, beta=0.5, bias=1.0",
        "size=9, alpha=0.3, beta=1.5, bias=1.0", "size=1, alpha=0.3, beta=0.75, bias=1.0"}) {
    cases.push_back({absl::StrCat("x = input f64[2,5,2,2]; y = Lrn(x) {", attrs, "}")});
  }
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const char* axis : {"0", "1", "2"}) {
      cases.push_back(
          {absl::StrCat("x = input f64[3,4,2]; y = ", op, "(x) {axis=", axis, "}"), -2, 2});
    }
  }
  return cases;
}

Cases Movement() {
  Cases cases;
  for (const char* text :
       {"y = Reshape(x) {shape=[4,6]}", "y = Transpose(x) {perm=[2,0,1]}",
        "y = Transpose(x) {perm=[0,1,2]}", "y = Concat(x, x) {axis=2}", "y = Concat(x) {axis=0}",
        "y = Slice(x) {starts=[1], ends=[3], axes=[1], steps=[1]}",
        "y = Slice(x) {starts=[1,3], ends=[-1,0], axes=[0,2], steps=[-1,-2]}",
        "y = Slice(x) {starts=[0,1], ends=[3,4], axes=[1,2], steps=[2,2]}",
        "y = Pad(x) {pads=[1,0,2,0,3,1], value=1.5}", "y = Pad(x) {pads=[0,-1,-2,0,1,0]}",
        "y = ToChannelsLast(x)", "y = ToPlain(x)"}) {
    cases.push_back({absl::StrCat("x = input f64[2,3,4]; ", text)});
  }
  cases.push_back({"x = input f64[2,3]; y = Transpose(x) {perm=[1,0]}"});
  cases.push_back({"x = input f64[2,3,4]; z = input f64[2,2,4]; y = Concat(x, z, x) {axis=1}"});
  cases.push_back({"x = input f64[5,3]; i = constant i64[4] 1 -1 1 9; y = Gather(x, i) {axis=0}"});
  cases.push_back(
      {"x = input f64[2,4,3]; i = constant i32[2,2] 3 -5 0 3; "
       "y = Gather(x, i) {axis=1}"});
  cases.push_back({"x = input f64[4]; i = constant i64[] 2; y = Gather(x, i) {axis=0}"});
  for (const char* text :
       {"x = input f64[3,4]; i = constant i64[2,5] 0 1 1 -1 9 3 3 3 0 -9; "
        "y = GatherElements(x, i) {axis=1}",
        "x = input f64[3,2]; i = constant i32[4,2] 0 1 1 2 0 0 -1 0; "
        "y = GatherElements(x, i) {axis=0}",
        "x = input f64[3,4]; i = constant i64[2,3] 0 1 3 2 -4 1; u = input f64[2,3]; "
        "y = ScatterElements(x, i, u) {axis=1}",
        "x = input f64[4]; i = constant i64[5] 0 0 -1 2 7; u = input f64[5]; "
        "y = ScatterElements(x, i, u) {axis=0, reduction=\"add\"}",
        "x = input f64[3,4,2]; i = constant i64[3,2] 0 1 2 -1 0 1; y = GatherND(x, i)",
        "x = input f64[2,3,2]; i = constant i64[2,2,1] 0 2 1 1; y = GatherND(x, i) {batch_dims=1}",
        "x = input f64[4,2]; i = constant i64[2,1] 3 1; u = input f64[2,2]; "
        "y = ScatterND(x, i, u)",
        "x = input f64[3,2]; i = constant i64[3,2] 0 1 0 1 2 0; u = input f64[3]; "
        "y = ScatterND(x, i, u) {reduction=\"add\"}",
        "x = input f64[2,3,2]; y = CumSum(x) {axis=1}",
        "x = input f64[5]; y = CumSum(x) {axis=0, exclusive=1, reverse=1}",
        "x = input f64[2,5]; y, i = TopK(x) {axis=1, k=3}",
        "x = input f64[4,3]; y, i = TopK(x) {axis=0, k=2, largest=0}"}) {
    cases.push_back({text});
  }
  cases.push_back(
      {"c = constant bool[2,3] 1 0 1 0 0 1; a = input f64[2,3]; b = input f64[2,3]; "
       "y = Where(c, a, b)"});
  cases.push_back(
      {"c = constant bool[3] 1 0 1; a = input f64[2,1]; b = input f64[]; "
       "y = Where(c, a, b)"});
  return cases;
}

Cases Reduce() {
  Cases cases;
  cases.push_back({"x = input f64[2,3]; z = Relu(x); y = ReduceProd(z) {axes=[1]}", -0.3, 1, {0}});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    for (const char* attrs : {"axes=[0], keepdims=0", "axes=[1,2], keepdims=1",
                              "axes=[0,2], keepdims=0", "axes=[0,1,2], keepdims=0", "axes=[1]"}) {
      cases.push_back({absl::StrCat("x = input f64[2,3,4]; y = ", op, "(x) {", attrs, "}")});
    }
  }
  return cases;
}

Cases Loss() {
  Cases cases;
  const std::string flat = "x = input f64[4,3]; labels = constant i64[4] 2 0 -100 1; ";
  const std::string spatial =
      "x = input f64[2,3,2,2]; labels = constant i32[2,2,2] 2 0 1 1 0 7 -1 2; ";
  const std::string weight = "w = constant f64[3] 0.5 2 1.25; ";
  for (const char* reduction : {"mean", "sum", "none"}) {
    for (const std::string& data : {flat, spatial}) {
      for (const char* smoothing : {"0.0", "0.2"}) {
        const std::string attrs = absl::StrCat(
            " {label_smoothing=", smoothing, ", ignore_index=-100, reduction=\"", reduction, "\"}");
        cases.push_back({data + "y = CrossEntropy(x, labels)" + attrs});
        cases.push_back({data + weight + "y = CrossEntropy(x, labels, w)" + attrs});
      }
      const std::string attrs = absl::StrCat(" {reduction=\"", reduction, "\", ignore_index=1}");
      cases.push_back({data + "y = NllLoss(x, labels)" + attrs});
      cases.push_back({data + weight + "y = NllLoss(x, labels, w)" + attrs});
    }
    for (const char* op : {"MseLoss", "BceWithLogits"}) {
      cases.push_back({absl::StrCat("x = input f64[3,4]; t = buffer f64[3,4]; y = ", op,
                                    "(x, t) {reduction=\"", reduction, "\"}"),
                       0, 1});
    }
  }
  return cases;
}

Cases Random() {
  return {{"x = input f64[3,7]; rng = constant i64[2] 5 9; "
           "y, mask = Dropout(x, rng) {ratio=0.4, stream=3}"},
          {"x = input f64[5]; rng = constant i64[2] 5 9; "
           "y, mask = Dropout(x, rng) {ratio=0.0, stream=0}"}};
}

// Inputs of recurrent ops: name and shape, of N sequences.
std::string Inputs(const std::string& names, const char* batch) {
  std::string text;
  if (names.find("rb") != std::string::npos) text += "; rb = input f64[6]";
  for (const char* state : {"h0", "c0"}) {
    if (names.find(state) != std::string::npos) {
      absl::StrAppend(&text, "; ", state, " = input f64[", batch, ",2]");
    }
  }
  return text;
}

Cases EmbeddingBags() {
  Cases cases;
  for (const char* mode : {"sum", "mean"}) {
    cases.push_back(
        {absl::StrCat("w = input f64[5,3]; i = constant i64[7] 0 4 2 4 -1 9 1; "
                      "o = constant i64[4] 0 3 3 5; y = EmbeddingBag(w, i, o) {mode=\"",
                      mode, "\"}")});
    cases.push_back(
        {absl::StrCat("w = input f64[5,3]; i = constant i32[7] 0 4 2 4 4 3 1; "
                      "o = constant i32[3] 0 2 5; y = EmbeddingBag(w, i, o) {mode=\"",
                      mode, "\", include_last_offset=1}")});
  }
  return cases;
}

Cases Recurrent() {
  Cases cases;
  for (const auto& [steps, batch] :
       {std::pair("4", "3"), std::pair("1", "2"), std::pair("3", "1")}) {
    for (const bool reverse : {false, true}) {
      const auto lstm = [&, s = steps, n = batch](const char* gates, const std::string& states,
                                                  const char* outputs, const char* then) {
        cases.push_back({absl::StrCat("pre = input f64[", s, ",", n, ",8]; r = input f64[8,2]",
                                      Inputs(states, n), "; ", outputs, " = Lstm(pre, r", states,
                                      ") {gates=\"", gates, "\", reverse=", reverse, "}", then)});
      };
      lstm("iofc", "", "y, c, g", "");
      lstm("ifco", ", h0, c0", "y, c, g", "");
      lstm("ifco", ", h0", "h, y, g", "");
      lstm("ifco", ", -, c0", "h, c, g", "; y = Mul(h, c)");
      const auto gru = [&, s = steps, n = batch](const char* gates, const std::string& others,
                                                 bool linear) {
        cases.push_back(
            {absl::StrCat("pre = input f64[", s, ",", n, ",6]; r = input f64[6,2]",
                          Inputs(others, n), "; y, m, g = Gru(pre, r", others, ") {gates=\"", gates,
                          "\", reverse=", reverse, ", linear_before_reset=", linear, "}")});
      };
      for (const bool linear : {false, true}) {
        gru("zrh", "", linear);
        gru("rzh", ", rb, h0", linear);
        gru("rzh", ", -, h0", linear);
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<GradCase> GradCases() {
  Cases all;
  for (const Cases& family : {Elementwise(), Binary(), Matmul(), Conv(), Pool(), Norm(), Movement(),
                              Reduce(), Loss(), Random(), Recurrent(), EmbeddingBags()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace ebb::device
