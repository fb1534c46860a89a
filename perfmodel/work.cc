#include "perfmodel/work.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/op.h"

namespace ebb::perfmodel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NumElements;
using graph::Shape;
using graph::TensorType;

struct FamilyRow {
  Family family;
  absl::string_view name;
};
constexpr FamilyRow kFamilies[] = {
    {Family::kGemm, "gemm"},
    {Family::kBatchedGemm, "batched_gemm"},
    {Family::kConv, "conv"},
    {Family::kConvGradInput, "conv_grad_input"},
    {Family::kConvGradWeight, "conv_grad_weight"},
    {Family::kNorm, "norm"},
    {Family::kSoftmax, "softmax"},
    {Family::kDropout, "dropout"},
    {Family::kElementwise, "elementwise"},
    {Family::kPool, "pool"},
    {Family::kReduction, "reduction"},
    {Family::kTranspose, "transpose"},
    {Family::kConcat, "concat"},
    {Family::kGather, "gather"},
    {Family::kGatherGrad, "gather_grad"},
    {Family::kRecurrent, "recurrent"},
    {Family::kOptimizer, "optimizer"},
    {Family::kCopy, "copy"},
    {Family::kAttention, "attention"},
};

const TensorType& InType(const Graph& graph, const Node& node, size_t i) {
  return graph.value(node.inputs[i]).type;
}
const TensorType& OutType(const Graph& graph, const Node& node) {
  return graph.value(node.outputs[0]).type;
}
int64_t Product(Shape::const_iterator begin, Shape::const_iterator end) {
  int64_t product = 1;
  for (auto it = begin; it != end; ++it) product *= *it;
  return product;
}

int64_t Per(int64_t whole, int64_t part) { return part > 0 ? whole / part : 0; }

// ---- How a family's numbers are read off a node.

void Elements(const Graph& graph, const Node& node, Work* work) {
  int64_t most = 0;
  for (const ValueId id : node.inputs) {
    if (id.valid()) most = std::max(most, NumElements(graph.value(id).type.shape));
  }
  for (const ValueId id : node.outputs) {
    most = std::max(most, NumElements(graph.value(id).type.shape));
  }
  work->m = most;
}

void Products(const Graph& graph, const Node& node, Work* work) {
  const Shape& a = InType(graph, node, 0).shape;
  const Shape& b = InType(graph, node, 1).shape;
  const Shape& y = OutType(graph, node).shape;
  const bool trans_a = node.attrs.Int("trans_a", 0) != 0;
  work->m = y[y.size() - 2];
  work->n = y[y.size() - 1];
  work->k = trans_a ? a[a.size() - 2] : a[a.size() - 1];
  work->batch = Product(y.begin(), y.end() - 2);
  if (Product(b.begin(), b.end() - 2) == 1 && !trans_a) {  // one b for all: one product
    work->m *= work->batch;
    work->batch = 1;
  }
  work->family = work->batch == 1 ? Family::kGemm : Family::kBatchedGemm;
}

void Convolutions(const Graph& graph, const Node& node, Work* work) {
  const bool to_input = work->family == Family::kConvGradInput;
  const bool to_weight = work->family == Family::kConvGradWeight;
  const Shape& w = to_weight ? OutType(graph, node).shape : InType(graph, node, 1).shape;
  const Shape& x = to_input    ? OutType(graph, node).shape
                   : to_weight ? InType(graph, node, 1).shape
                               : InType(graph, node, 0).shape;
  const Shape& y =
      to_input || to_weight ? InType(graph, node, 0).shape : OutType(graph, node).shape;
  const int64_t groups = node.attrs.Int("groups", 1);
  work->batch = groups;
  work->window = Product(w.begin() + 2, w.end());
  work->stride = node.attrs.Ints("strides", {1})[0];
  const int64_t outputs = y[0] * Product(y.begin() + 2, y.end());
  const int64_t inputs = x[0] * Product(x.begin() + 2, x.end());
  const int64_t out = Per(w[0], groups), in = w[1];
  if (to_input) {
    work->m = inputs, work->n = in, work->k = out * work->window;
  } else if (to_weight) {
    work->m = out, work->n = in * work->window, work->k = outputs;
  } else {
    work->m = outputs, work->n = out, work->k = in * work->window;
  }
}

// Groups that a normalisation takes moments of: channels, samples' groups or rows.
void Norms(const Graph& graph, const Node& node, Work* work) {
  const bool gradient = absl::EndsWith(node.op->name, "Grad");
  const Shape& x = InType(graph, node, gradient ? 1 : 0).shape;
  const int64_t all = NumElements(x);
  if (absl::StartsWith(node.op->name, "Batch")) {
    work->m = x.size() > 1 ? x[1] : 1;
  } else if (absl::StartsWith(node.op->name, "Group")) {
    work->m = x[0] * node.attrs.Int("groups", 1);
  } else if (absl::StartsWith(node.op->name, "Lrn")) {
    work->m = all;
  } else {
    int64_t axis = node.attrs.Int("axis", -1);
    if (axis < 0) axis += static_cast<int64_t>(x.size());
    work->m = Product(x.begin(), x.begin() + axis);
  }
  work->n = Per(all, work->m);
}

// Softmax over an axis; cross entropy over the classes, the second axis.
void Softmaxes(const Graph& graph, const Node& node, Work* work) {
  Elements(graph, node, work);
  const Shape* widest = &OutType(graph, node).shape;
  for (const ValueId id : node.inputs) {
    if (id.valid() && NumElements(graph.value(id).type.shape) > NumElements(*widest)) {
      widest = &graph.value(id).type.shape;
    }
  }
  const auto rank = static_cast<int64_t>(widest->size());
  int64_t axis = node.attrs.Int("axis", absl::StrContains(node.op->name, "oftmax") ? -1 : 1);
  if (axis < 0) axis += rank;
  work->n = axis >= 0 && axis < rank ? (*widest)[static_cast<size_t>(axis)] : 1;
  work->m = Per(work->m, work->n);
}

void Reductions(const Graph& graph, const Node& node, Work* work) {
  Elements(graph, node, work);
  const int64_t elements = work->m;
  const int64_t results = node.outputs.empty() ? 1 : NumElements(OutType(graph, node).shape);
  work->m = std::max<int64_t>(std::min(results, elements), 1);
  work->n = Per(elements, work->m);
}

void Pools(const Graph& graph, const Node& node, Work* work) {
  Elements(graph, node, work);
  const std::vector<int64_t> kernel = node.attrs.Ints("kernel", {1});
  for (const int64_t k : kernel) work->window *= k;
  work->stride = node.attrs.Ints("strides", {1})[0];
}

// Rows of a table: Gather along the first axis, EmbeddingBag. The gradients make the whole table.
void Gathers(const Graph& graph, const Node& node, Work* work) {
  const bool gradient = work->family == Family::kGatherGrad;
  const bool bags = absl::StartsWith(node.op->name, "EmbeddingBag");
  const TensorType& table = gradient ? OutType(graph, node) : InType(graph, node, 0);
  const TensorType& indices = InType(graph, node, 1);
  const int64_t axis = bags ? 0 : node.attrs.Int("axis", 0);
  const auto at =
      static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(table.shape.size()) : axis);
  const int64_t rows = table.shape.empty() ? 1 : table.shape[std::min(at, table.shape.size() - 1)];
  work->k = rows;
  work->m = NumElements(indices.shape);
  work->n = Per(NumElements(table.shape), rows);
  if (bags)
    work->batch = gradient ? InType(graph, node, 0).shape[0] : OutType(graph, node).shape[0];
  // Only rows that are looked up are read; a gradient writes all of the table once, as zeros.
  const double row =
      static_cast<double>(work->n) * static_cast<double>(SizeOf(table.dtype).count());
  const double looked_up = static_cast<double>(work->m) * row;
  const double index = static_cast<double>(indices.bytes().count());
  const double results = bags ? static_cast<double>(work->batch) * row : looked_up;
  work->bytes = gradient
                    ? results + index + 2 * looked_up + static_cast<double>(table.bytes().count())
                    : looked_up + index + results;
}

void Recurrences(const Graph& graph, const Node& node, Work* work) {
  // Forward: pre [T,N,gates H]; backward: gates of that shape.
  const Shape& pre = InType(graph, node, 0).shape;
  work->batch = pre[0];
  work->m = pre[1];
  work->n = pre[2];
  work->k = Per(pre[2], absl::StartsWith(node.op->name, "Lstm") ? 4 : 3);
}

void Optimizers(const Graph& graph, const Node& node, Work* work) {
  work->m = node.inputs.empty() ? 0 : NumElements(InType(graph, node, 0).shape);
}

using Reader = void (*)(const Graph&, const Node&, Work*);
struct OpRow {
  Family family;
  Reader read;
};

// Ops whose rows in the op table do not say that they are elementwise.
const absl::flat_hash_map<absl::string_view, OpRow>& Ops() {
  constexpr OpRow kProduct = {Family::kGemm, Products};
  constexpr OpRow kNorm = {Family::kNorm, Norms};
  constexpr OpRow kSoftmax = {Family::kSoftmax, Softmaxes};
  constexpr OpRow kReduce = {Family::kReduction, Reductions};
  constexpr OpRow kPool = {Family::kPool, Pools};
  constexpr OpRow kMove = {Family::kConcat, Elements};
  constexpr OpRow kTurn = {Family::kTranspose, Elements};
  constexpr OpRow kCopy = {Family::kCopy, Elements};
  constexpr OpRow kMap = {Family::kElementwise, Elements};
  constexpr OpRow kRows = {Family::kGather, Gathers};
  constexpr OpRow kRowsGrad = {Family::kGatherGrad, Gathers};
  constexpr OpRow kScatter = {Family::kGatherGrad, Elements};
  constexpr OpRow kRecurrent = {Family::kRecurrent, Recurrences};
  constexpr OpRow kUpdate = {Family::kOptimizer, Optimizers};
  static const auto* const table = new absl::flat_hash_map<absl::string_view, OpRow>{
      {"Gemm", kProduct},
      {"MatMul", kProduct},
      {"Conv", {Family::kConv, Convolutions}},
      {"ConvGradInput", {Family::kConvGradInput, Convolutions}},
      {"ConvGradWeight", {Family::kConvGradWeight, Convolutions}},
      {"BatchNorm", kNorm},
      {"BatchNormGrad", kNorm},
      {"BatchNormInference", kNorm},
      {"BatchNormInferenceGrad", kNorm},
      {"GroupNorm", kNorm},
      {"GroupNormGrad", kNorm},
      {"LayerNorm", kNorm},
      {"LayerNormGrad", kNorm},
      {"Lrn", kNorm},
      {"LrnGrad", kNorm},
      {"RmsNorm", kNorm},
      {"RmsNormGrad", kNorm},
      {"Softmax", kSoftmax},
      {"SoftmaxGrad", kSoftmax},
      {"LogSoftmax", kSoftmax},
      {"LogSoftmaxGrad", kSoftmax},
      {"CrossEntropy", kSoftmax},
      {"CrossEntropyGrad", kSoftmax},
      {"CrossEntropySum", kSoftmax},
      {"TopKCorrect", kSoftmax},
      {"ClassCounts", kSoftmax},
      {"Dropout", {Family::kDropout, Elements}},
      {"DropoutGrad", {Family::kDropout, Elements}},
      {"AveragePool", kPool},
      {"AveragePoolGrad", kPool},
      {"MaxPool", kPool},
      {"MaxPoolGrad", kPool},
      {"ArgMax", kReduce},
      {"ArgMin", kReduce},
      {"BceSum", kReduce},
      {"BceWithLogits", kReduce},
      {"BinaryCorrect", kReduce},
      {"ClipFactor", kReduce},
      {"CumSum", kReduce},
      {"MseLoss", kReduce},
      {"MseSum", kReduce},
      {"NllLoss", kReduce},
      {"ReduceMax", kReduce},
      {"ReduceMean", kReduce},
      {"ReduceMin", kReduce},
      {"ReduceProd", kReduce},
      {"ReduceSum", kReduce},
      {"RowsSum", kReduce},
      {"SumTo", kReduce},
      {"TopK", kReduce},
      {"BceWithLogitsGrad", kMap},
      {"MseLossGrad", kMap},
      {"NllLossGrad", kMap},
      {"ReduceProdGrad", kMap},
      {"Expand", kMap},
      {"Where", kMap},
      {"ToChannelsLast", kTurn},
      {"ToPlain", kTurn},
      {"Transpose", kTurn},
      {"Concat", kMove},
      {"Pad", kMove},
      {"Slice", kMove},
      {"SliceGrad", kMove},
      {"Cast", kCopy},
      {"Fetch", kCopy},
      {"Store", kCopy},
      {"EmbeddingBag", kRows},
      {"EmbeddingBagGrad", kRowsGrad},
      {"Gather", kRows},
      {"GatherGrad", kRowsGrad},
      {"GatherElements", {Family::kGather, Elements}},
      {"GatherND", {Family::kGather, Elements}},
      {"GatherElementsGrad", kScatter},
      {"GatherNDGrad", kScatter},
      {"ScatterElements", kScatter},
      {"ScatterND", kScatter},
      {"Gru", kRecurrent},
      {"GruGrad", kRecurrent},
      {"Lstm", kRecurrent},
      {"LstmGrad", kRecurrent},
      {"AdagradUpdate", kUpdate},
      {"AdamUpdate", kUpdate},
      {"RmsPropUpdate", kUpdate},
      {"RowwiseAdagradUpdate", kUpdate},
      {"SgdUpdate", kUpdate},
      {"SparseRowwiseAdagradUpdate", {Family::kGatherGrad, Elements}},
  };
  return *table;
}

absl::StatusOr<OpRow> RowOf(absl::string_view op) {
  if (const auto it = Ops().find(op); it != Ops().end()) return it->second;
  const graph::OpDef* const def = graph::FindOp(op);
  if (def != nullptr && (def->elementwise || def->is_view)) {
    return OpRow{Family::kElementwise, Elements};
  }
  return absl::UnimplementedError(absl::StrCat("no model of times covers the op ", Escaped(op)));
}

graph::DType TypeOf(const Graph& graph, const Node& node) {
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *ids) {
      if (id.valid() && IsFloat(graph.value(id).type.dtype)) return graph.value(id).type.dtype;
    }
  }
  return graph::DType::kF32;
}

}  // namespace

absl::string_view Name(Family family) {
  for (const FamilyRow& row : kFamilies) {
    if (row.family == family) return row.name;
  }
  return "?";
}

absl::StatusOr<Family> ParseFamily(absl::string_view name) {
  std::string known;
  for (const FamilyRow& row : kFamilies) {
    if (row.name == name) return row.family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no family '", Escaped(name), "' of kernels; there are ", known));
}

absl::StatusOr<Family> FamilyOf(absl::string_view op) {
  EBB_ASSIGN_OR_RETURN(const OpRow row, RowOf(op));
  return row.family;
}

bool IsProduct(Family family) {
  return family <= Family::kConvGradWeight || family == Family::kRecurrent ||
         family == Family::kAttention;
}

absl::StatusOr<Work> WorkOf(const Graph& graph, const Node& node) {
  Work work;
  work.dtype = TypeOf(graph, node);
  if (node.op->is_view) return work;
  const graph::OpCost cost = CostOf(graph, node);
  work.flops = static_cast<double>(cost.flops.count());
  work.bytes = static_cast<double>(cost.bytes.count());
  absl::StatusOr<OpRow> row = RowOf(node.op->name);
  if (!row.ok()) return Annotate(row.status(), node.name);
  work.family = row->family;
  row->read(graph, node, &work);
  return work;
}

std::string ToString(const Work& work) {
  std::string text = absl::StrCat(Name(work.family), " ", graph::Name(work.dtype), " ");
  if (work.batch != 1) absl::StrAppend(&text, work.batch, "*");
  absl::StrAppend(&text, work.m, "x", work.n, "x", work.k);
  if (work.window != 1) absl::StrAppend(&text, " window ", work.window);
  if (work.stride != 1) absl::StrAppend(&text, " stride ", work.stride);
  return text;
}

}  // namespace ebb::perfmodel
