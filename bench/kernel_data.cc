#include "bench/kernel_data.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/tables.h"
#include "perfmodel/csv.h"

namespace ebb::bench {
namespace {

using graph::Graph;
using graph::Role;
using perfmodel::CsvRow;
using perfmodel::CsvTable;

// So that no product of dimensions overflows.
constexpr int64_t kMaxDimension = 1 << 20;
constexpr double kMaxWork = 1e15;

// Dimensions that multiply to what the kernel has to do.
absl::Status CheckWork(const CsvRow& row, const std::vector<int64_t>& dimensions) {
  double work = 1;
  for (const int64_t dimension : dimensions) work *= static_cast<double>(dimension);
  if (work <= kMaxWork) return absl::OkStatus();
  return row.Error("its dimensions are too large together for one kernel");
}

// What is wrong with a row's operands together.
absl::Status Placed(const CsvRow& row, const absl::StatusOr<ValueId>& made) {
  return made.ok() ? absl::OkStatus() : row.Error(made.status().message());
}

absl::StatusOr<Graph> Product(MeasuredOp op, const CsvRow& row) {
  EBB_ASSIGN_OR_RETURN(const int64_t b, row.Whole("B", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t m, row.Whole("M", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t n, row.Whole("N", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t k, row.Whole("K", 1, kMaxDimension));
  EBB_RETURN_IF_ERROR(CheckWork(row, {b, m, n, k}));
  Graph graph;
  if (op == MeasuredOp::kLinear) {  // one weight for the whole batch
    const ValueId x = graph.AddValue("x", {graph::DType::kF32, {b * m, n}}, Role::kInput);
    const ValueId w = graph.AddValue("w", {graph::DType::kF32, {k, n}}, Role::kParam);
    EBB_RETURN_IF_ERROR(Placed(row, graph.Add("Gemm", "y", {x, w}, {{"trans_b", int64_t{1}}})));
  } else {
    const ValueId x = graph.AddValue("x", {graph::DType::kF32, {b, m, n}}, Role::kInput);
    const ValueId w = graph.AddValue("w", {graph::DType::kF32, {b, n, k}}, Role::kInput);
    EBB_RETURN_IF_ERROR(Placed(row, graph.Add("MatMul", "y", {x, w})));
  }
  return graph;
}

absl::StatusOr<Graph> Convolution(const CsvRow& row) {
  EBB_ASSIGN_OR_RETURN(const int64_t batch, row.Whole("B", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t in, row.Whole("Input_Channel", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t out, row.Whole("Output_Channel", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t kernel,
                       row.Whole("Kernel_Szie", 1, kMaxDimension));  // the tables' spelling
  EBB_ASSIGN_OR_RETURN(const int64_t size, row.Whole("Input_Size", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t stride, row.Whole("Stride", 1, kMaxDimension));
  EBB_ASSIGN_OR_RETURN(const int64_t pad, row.Whole("Padding", 0, kMaxDimension));
  EBB_RETURN_IF_ERROR(
      CheckWork(row, {batch, in, out, size + 2 * pad, size + 2 * pad, kernel, kernel}));
  Graph graph;
  const ValueId x =
      graph.AddValue("x", {graph::DType::kF32, {batch, in, size, size}}, Role::kInput);
  const ValueId w =
      graph.AddValue("w", {graph::DType::kF32, {out, in, kernel, kernel}}, Role::kParam);
  EBB_RETURN_IF_ERROR(Placed(row, graph.Add("Conv", "y", {x, w},
                                            {{"strides", std::vector<int64_t>{stride, stride}},
                                             {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                                             {"dilations", std::vector<int64_t>{1, 1}},
                                             {"groups", int64_t{1}}})));
  return graph;
}

absl::StatusOr<MeasuredKernel> ParseKernel(MeasuredOp op, const CsvRow& row) {
  MeasuredKernel kernel{.op = op};
  EBB_ASSIGN_OR_RETURN(const double millis, row.Positive("Latency"));
  kernel.micros = millis * 1e3;
  if (op != MeasuredOp::kConv) {
    EBB_ASSIGN_OR_RETURN(kernel.graph, Product(op, row));
    return kernel;
  }
  EBB_ASSIGN_OR_RETURN(const absl::string_view kernels, row.Text("Kernels"));
  const std::string launched = absl::AsciiStrToLower(kernels);
  kernel.transformed =
      absl::StrContains(launched, "winograd") || absl::StrContains(launched, "fft");
  EBB_ASSIGN_OR_RETURN(kernel.graph, Convolution(row));
  return kernel;
}

}  // namespace

absl::string_view Name(MeasuredOp op) {
  switch (op) {
    case MeasuredOp::kLinear:
      return "linear";
    case MeasuredOp::kBmm:
      return "bmm";
    case MeasuredOp::kConv:
      return "conv";
  }
  return "";
}

absl::StatusOr<std::vector<MeasuredKernel>> ParseKernels(MeasuredOp op, absl::string_view text,
                                                         absl::string_view source) {
  EBB_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, source));
  std::vector<MeasuredKernel> kernels;
  for (const CsvRow& row : table.rows()) {
    EBB_ASSIGN_OR_RETURN(MeasuredKernel kernel, ParseKernel(op, row));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

absl::StatusOr<std::vector<MeasuredKernel>> ReadKernels(MeasuredOp op, const std::string& folder,
                                                        const std::string& gpu) {
  const std::string path = absl::StrCat(folder, "/", Name(op), "/", gpu, ".csv");
  for (const std::string& name : {path, path + ".gz"}) {
    const auto text = ReadTable(name);
    if (text.ok()) return ParseKernels(op, *text, name);
    if (!absl::IsNotFound(text.status())) return text.status();
  }
  return absl::NotFoundError(absl::StrCat(
      "there is neither ", path, " nor ", path,
      ".gz: --data takes a folder with linear/GPU.csv, bmm/GPU.csv and conv/GPU.csv "
      "(or .csv.gz), and --gpu the name of the files (docs/benchmarks.md, `roofline`)"));
}

}  // namespace ebb::bench
