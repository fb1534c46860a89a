#include "bench/kernel_data.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "data/gzip.h"

namespace ebb::bench {
namespace {

using graph::Graph;
using graph::Role;

constexpr Bytes kMaxTable = MiB(256);
// So that no product of dimensions overflows.
constexpr int64_t kMaxDimension = 1 << 20;
constexpr double kMaxWork = 1e15;

// The cells of a line; a quoted one may hold commas, and "" for a quote. A quote must end in its
// line.
absl::StatusOr<std::vector<std::string>> CellsOf(absl::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back().push_back(line[++i]);
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back().push_back(line[i]);
    }
  }
  if (quoted) return absl::InvalidArgumentError("a quoted cell does not end in its line");
  return cells;
}

// A line by the names of the header's columns.
class Row {
 public:
  Row(const std::map<std::string, size_t>& columns, std::vector<std::string> cells)
      : columns_(columns), cells_(std::move(cells)) {}

  absl::StatusOr<std::string> Text(const std::string& column) const {
    const auto it = columns_.find(column);
    if (it == columns_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the header (line 1) has no column ", column));
    }
    return cells_[it->second];
  }
  absl::StatusOr<double> Positive(const std::string& column) const {
    EBB_ASSIGN_OR_RETURN(const std::string text, Text(column));
    double value = 0;
    if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", column, ": '", Escaped(text), "' is no number above 0"));
    }
    return value;
  }
  absl::StatusOr<int64_t> Whole(const std::string& column, int64_t low) const {
    EBB_ASSIGN_OR_RETURN(const std::string text, Text(column));
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < low || value > kMaxDimension) {
      return absl::InvalidArgumentError(absl::StrCat("column ", column, ": '", Escaped(text),
                                                     "' is no whole number from ", low, " to ",
                                                     kMaxDimension));
    }
    return value;
  }

 private:
  const std::map<std::string, size_t>& columns_;
  std::vector<std::string> cells_;
};

// Dimensions that multiply to what the kernel has to do.
absl::Status CheckWork(const std::vector<int64_t>& dimensions) {
  double work = 1;
  for (const int64_t dimension : dimensions) work *= static_cast<double>(dimension);
  if (work <= kMaxWork) return absl::OkStatus();
  return absl::InvalidArgumentError("its dimensions are too large together for one kernel");
}

absl::StatusOr<Graph> Product(MeasuredOp op, const Row& row) {
  EBB_ASSIGN_OR_RETURN(const int64_t b, row.Whole("B", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t m, row.Whole("M", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t n, row.Whole("N", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t k, row.Whole("K", 1));
  EBB_RETURN_IF_ERROR(CheckWork({b, m, n, k}));
  Graph graph;
  if (op == MeasuredOp::kLinear) {  // one weight for the whole batch
    const ValueId x = graph.AddValue("x", {graph::DType::kF32, {b * m, n}}, Role::kInput);
    const ValueId w = graph.AddValue("w", {graph::DType::kF32, {k, n}}, Role::kParam);
    EBB_RETURN_IF_ERROR(graph.Add("Gemm", "y", {x, w}, {{"trans_b", int64_t{1}}}).status());
  } else {
    const ValueId x = graph.AddValue("x", {graph::DType::kF32, {b, m, n}}, Role::kInput);
    const ValueId w = graph.AddValue("w", {graph::DType::kF32, {b, n, k}}, Role::kInput);
    EBB_RETURN_IF_ERROR(graph.Add("MatMul", "y", {x, w}).status());
  }
  return graph;
}

absl::StatusOr<Graph> Convolution(const Row& row) {
  EBB_ASSIGN_OR_RETURN(const int64_t batch, row.Whole("B", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t in, row.Whole("Input_Channel", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t out, row.Whole("Output_Channel", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t kernel, row.Whole("Kernel_Szie", 1));  // the tables' spelling
  EBB_ASSIGN_OR_RETURN(const int64_t size, row.Whole("Input_Size", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t stride, row.Whole("Stride", 1));
  EBB_ASSIGN_OR_RETURN(const int64_t pad, row.Whole("Padding", 0));
  EBB_RETURN_IF_ERROR(CheckWork({batch, in, out, size + 2 * pad, size + 2 * pad, kernel, kernel}));
  Graph graph;
  const ValueId x =
      graph.AddValue("x", {graph::DType::kF32, {batch, in, size, size}}, Role::kInput);
  const ValueId w =
      graph.AddValue("w", {graph::DType::kF32, {out, in, kernel, kernel}}, Role::kParam);
  EBB_RETURN_IF_ERROR(graph
                          .Add("Conv", "y", {x, w},
                               {{"strides", std::vector<int64_t>{stride, stride}},
                                {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                                {"dilations", std::vector<int64_t>{1, 1}},
                                {"groups", int64_t{1}}})
                          .status());
  return graph;
}

absl::StatusOr<MeasuredKernel> ParseKernel(MeasuredOp op, const Row& row) {
  MeasuredKernel kernel{.op = op};
  EBB_ASSIGN_OR_RETURN(const double millis, row.Positive("Latency"));
  kernel.micros = millis * 1e3;
  if (op != MeasuredOp::kConv) {
    EBB_ASSIGN_OR_RETURN(kernel.graph, Product(op, row));
    return kernel;
  }
  EBB_ASSIGN_OR_RETURN(std::string launched, row.Text("Kernels"));
  absl::AsciiStrToLower(&launched);
  kernel.transformed =
      absl::StrContains(launched, "winograd") || absl::StrContains(launched, "fft");
  EBB_ASSIGN_OR_RETURN(kernel.graph, Convolution(row));
  return kernel;
}

absl::StatusOr<std::string> Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(path);
  file.peek();  // a folder opens, but has no bytes
  if (file.bad()) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!data::IsGzip(bytes)) return bytes;
  auto text = data::Gunzip(bytes, kMaxTable);
  if (!text.ok()) return Annotate(text.status(), path);
  return text;
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
  std::map<std::string, size_t> columns;
  std::vector<MeasuredKernel> kernels;
  int64_t number = 0;
  size_t width = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::string where = absl::StrCat(source, ":", number);
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty() && number > 1) continue;
    auto cells = CellsOf(line);
    if (!cells.ok()) return Annotate(cells.status(), where);
    if (number == 1) {
      width = cells->size();
      for (size_t c = 0; c < width; ++c) columns.emplace((*cells)[c], c);
      continue;
    }
    if (cells->size() != width) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", cells->size(), " cells, but the header has ", width));
    }
    auto kernel = ParseKernel(op, Row(columns, *std::move(cells)));
    if (!kernel.ok()) return Annotate(kernel.status(), where);
    kernels.push_back(*std::move(kernel));
  }
  if (kernels.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":", number, ": the table has no rows below its header"));
  }
  return kernels;
}

absl::StatusOr<std::vector<MeasuredKernel>> ReadKernels(MeasuredOp op, const std::string& folder,
                                                        const std::string& gpu) {
  const std::string path = absl::StrCat(folder, "/", Name(op), "/", gpu, ".csv");
  for (const std::string& name : {path, path + ".gz"}) {
    const auto text = Contents(name);
    if (text.ok()) return ParseKernels(op, *text, name);
    if (!absl::IsNotFound(text.status())) return text.status();
  }
  return absl::NotFoundError(absl::StrCat(
      "there is neither ", path, " nor ", path,
      ".gz: --data takes a folder with linear/GPU.csv, bmm/GPU.csv and conv/GPU.csv "
      "(or .csv.gz), and --gpu the name of the files (docs/benchmarks.md, `roofline`)"));
}

}  // namespace ebb::bench
