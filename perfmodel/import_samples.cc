#include "perfmodel/import_samples.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/csv.h"

namespace ebb::perfmodel {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

double D(int64_t value) { return static_cast<double>(value); }

Work Product(graph::DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k) {
  Work work{.family = batch == 1 ? Family::kGemm : Family::kBatchedGemm, .dtype = dtype};
  work.batch = batch, work.m = m, work.n = n, work.k = k;
  work.flops = 2 * D(batch) * D(m) * D(n) * D(k);
  work.bytes = D(SizeOf(dtype).count()) * D(batch) * (D(m) * D(k) + D(k) * D(n) + D(m) * D(n));
  return work;
}

// `operands` tensors of `elements` in and one out.
Work Map(graph::DType dtype, int64_t elements, double operands, double flops = 1) {
  Work work{.family = Family::kElementwise, .dtype = dtype, .m = elements};
  work.flops = flops * D(elements);
  work.bytes = D(SizeOf(dtype).count()) * (operands + 1) * D(elements);
  return work;
}

Work Rows(Family family, graph::DType dtype, int64_t m, int64_t n) {
  Work work = Map(dtype, m, 1);
  work.family = family, work.n = n;
  work.flops = (family == Family::kNorm ? 8 : 5) * D(m) * D(n);
  work.bytes *= D(n);
  return work;
}

absl::StatusOr<Work> Convolution(const CsvRow& row) {
  EBB_ASSIGN_OR_RETURN(const int64_t images, row.Whole("B", 1, kMost));
  EBB_ASSIGN_OR_RETURN(const int64_t in, row.Whole("Input_Channel", 1, kMost));
  EBB_ASSIGN_OR_RETURN(const int64_t out, row.Whole("Output_Channel", 1, kMost));
  EBB_ASSIGN_OR_RETURN(const int64_t kernel, row.Whole("Kernel_Szie", 1, 1 << 15));
  EBB_ASSIGN_OR_RETURN(const int64_t size, row.Whole("Input_Size", 1, 1 << 15));
  EBB_ASSIGN_OR_RETURN(const int64_t stride, row.Whole("Stride", 1, 1 << 15));
  EBB_ASSIGN_OR_RETURN(const int64_t padding, row.Whole("Padding", 0, 1 << 15));
  if (size + 2 * padding < kernel) return row.Error("the window is wider than the padded image");
  const int64_t side = (size + 2 * padding - kernel) / stride + 1;
  const int64_t window = kernel * kernel;
  const int64_t outputs = images * side * side;
  Work work{.family = Family::kConv, .m = outputs, .n = out, .k = in * window};
  work.window = window, work.stride = stride;
  work.flops = 2 * D(work.m) * D(work.n) * D(work.k);
  work.bytes =
      4 * (D(images) * D(in) * D(size) * D(size) + D(out) * D(work.k) + D(work.m) * D(work.n));
  return work;
}

absl::StatusOr<Work> NeuSightWork(const CsvRow& row) {
  constexpr auto kF32 = graph::DType::kF32;
  EBB_ASSIGN_OR_RETURN(const absl::string_view op, row.Text("OPName"));
  if (op == "conv") return Convolution(row);
  EBB_ASSIGN_OR_RETURN(const int64_t b, row.Whole("B", 1, kMost));
  if (op == "linear" || op == "bmm") {
    EBB_ASSIGN_OR_RETURN(const int64_t m, row.Whole("M", 1, kMost));
    EBB_ASSIGN_OR_RETURN(const int64_t inner, row.Whole("N", 1, kMost));
    EBB_ASSIGN_OR_RETURN(const int64_t columns, row.Whole("K", 1, kMost));
    if (op == "linear") return Product(kF32, 1, b * m, columns, inner);
    Work work = Product(kF32, b, m, columns, inner);
    work.family = Family::kBatchedGemm;
    return work;
  }
  EBB_ASSIGN_OR_RETURN(const int64_t h, row.Whole("H", 1, kMost));
  if (op == "softmax") return Rows(Family::kSoftmax, kF32, b, h);
  if (op == "ln") return Rows(Family::kNorm, kF32, b, h);
  if (op == "add" || op == "mul" || op == "div" || op == "pow") return Map(kF32, b * h, 2);
  if (op == "addu" || op == "mulu" || op == "divu" || op == "powu" || op == "relu") {
    return Map(kF32, b * h, 1);
  }
  if (op == "gelu" || op == "tanh") return Map(kF32, b * h, 1, 8);
  return row.Error(absl::StrCat("no op '", Escaped(op), "' is known"));
}

// What a layer of Vidur's tables consists of.
struct Layer {
  int64_t tokens, heads, kv_heads, width, expanded, gates, ranks;
};

absl::StatusOr<Layer> LayerOf(const CsvRow& row) {
  Layer layer;
  EBB_ASSIGN_OR_RETURN(layer.tokens, row.Whole("num_tokens", 1, kMost));
  EBB_ASSIGN_OR_RETURN(layer.heads, row.Whole("n_head", 1, 1 << 16));
  EBB_ASSIGN_OR_RETURN(layer.kv_heads, row.Whole("n_kv_head", 1, 1 << 16));
  EBB_ASSIGN_OR_RETURN(layer.width, row.Whole("n_embd", 1, 1 << 24));
  EBB_ASSIGN_OR_RETURN(layer.expanded, row.Whole("n_expanded_embd", 1, 1 << 24));
  EBB_ASSIGN_OR_RETURN(layer.ranks, row.Whole("num_tensor_parallel_workers", 1, 1 << 16));
  EBB_ASSIGN_OR_RETURN(const absl::string_view gated, row.Text("use_gated_mlp"));
  layer.gates = absl::EqualsIgnoreCase(gated, "true") ? 2 : 1;
  return layer;
}

std::vector<std::pair<std::string, Work>> LayerWorks(const Layer& layer) {
  constexpr auto kHalf = graph::DType::kF16;
  const int64_t head = layer.width / layer.heads;
  const int64_t queries = layer.heads * head / layer.ranks;
  const int64_t keys = layer.kv_heads * head / layer.ranks;
  const int64_t inner = layer.expanded / layer.ranks;
  const int64_t t = layer.tokens;
  Work act = Map(kHalf, t * inner, static_cast<double>(layer.gates), 8);
  return {{"attn_pre_proj", Product(kHalf, 1, t, queries + 2 * keys, layer.width)},
          {"attn_post_proj", Product(kHalf, 1, t, layer.width, queries)},
          {"mlp_up_proj", Product(kHalf, 1, t, layer.gates * inner, layer.width)},
          {"mlp_down_proj", Product(kHalf, 1, t, layer.width, inner)},
          {"input_layernorm", Rows(Family::kNorm, kHalf, t, layer.width)},
          {"post_attention_layernorm", Rows(Family::kNorm, kHalf, t, layer.width)},
          {"mlp_act", act},
          {"add", Map(kHalf, t * layer.width, 2)},
          {"attn_rope", Map(kHalf, t * (queries + keys), 1, 6)}};
}

}  // namespace

absl::StatusOr<std::vector<OpSample>> NeuSightSamples(absl::string_view text,
                                                      absl::string_view source) {
  EBB_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, source));
  std::vector<OpSample> samples;
  for (const CsvRow& row : table.rows()) {
    OpSample sample{.repeats = 5};
    EBB_ASSIGN_OR_RETURN(sample.work, NeuSightWork(row));
    EBB_ASSIGN_OR_RETURN(const double ms, row.Positive("Latency"));
    EBB_ASSIGN_OR_RETURN(const absl::string_view device, row.Text("Device"));
    sample.micros = 1e3 * ms;
    sample.device = std::string(device);
    samples.push_back(std::move(sample));
  }
  return samples;
}

absl::StatusOr<std::vector<OpSample>> VidurSamples(absl::string_view text, absl::string_view source,
                                                   absl::string_view device) {
  EBB_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, source));
  std::vector<OpSample> samples;
  for (const CsvRow& row : table.rows()) {
    EBB_ASSIGN_OR_RETURN(const Layer layer, LayerOf(row));
    if (layer.heads > layer.width || layer.expanded < layer.ranks || layer.heads < layer.ranks ||
        layer.kv_heads < layer.ranks) {
      return row.Error("a layer that cannot be spread over so many ranks");
    }
    for (const auto& [name, work] : LayerWorks(layer)) {
      const std::string column = absl::StrCat("time_stats.", name, ".median");
      if (!table.Has(column)) continue;
      EBB_ASSIGN_OR_RETURN(const double ms, row.Positive(column));
      samples.push_back(
          {.work = work, .micros = 1e3 * ms, .device = std::string(device), .repeats = 20});
    }
  }
  return samples;
}

}  // namespace ebb::perfmodel
