// Latencies of single kernels that others measured, from the tables of one GPU: FOLDER/OP/GPU.csv
// or .csv.gz with a header line. Free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::bench {

// What a table is of, and its folder's name.
enum class MeasuredOp { kLinear, kBmm, kConv };
absl::string_view Name(MeasuredOp op);  // "linear", "bmm", "conv"

struct MeasuredKernel {
  MeasuredOp op = MeasuredOp::kLinear;
  double micros = 0;         // latency, with what its call costs the host
  bool transformed = false;  // a convolution by Winograd's algorithm or by Fourier transforms
  graph::Graph graph;        // one node, fp32
};

// Column Latency is milliseconds. Products (linear, bmm) are B times M x N by N x K; a convolution
// takes B x Input_Channel squares of Input_Size by Output_Channel kernels of Kernel_Szie, with
// Stride and Padding, and Kernels names what it launched. Other columns are ignored.
// InvalidArgument names file and line.
absl::StatusOr<std::vector<MeasuredKernel>> ParseKernels(MeasuredOp op, absl::string_view text,
                                                         absl::string_view source);

// The table of `op` in `folder`. NotFound says what the folder must hold.
absl::StatusOr<std::vector<MeasuredKernel>> ReadKernels(MeasuredOp op, const std::string& folder,
                                                        const std::string& gpu);

}  // namespace ebb::bench
