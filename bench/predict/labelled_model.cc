#include "bench/predict/labelled_model.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "bench/tables.h"
#include "perfmodel/csv.h"
#include "perfmodel/tensor_parallel.h"

namespace ebb::bench {

using graph::Phase;
using perfmodel::Estimate;
using perfmodel::Family;
using perfmodel::StepOp;
using perfmodel::TrainingStep;
using perfmodel::Work;

namespace {

constexpr double kElement = 4;  // bytes: fp32
// Labels of calls that launch nothing (sizes, views) are what timing itself takes; those of kernels
// are above this many of it.
constexpr double kKernel = 1.6;
constexpr int64_t kMostBatch = 64;
constexpr absl::string_view kFirstOfLayer = "transformer_h_0_ln_1";
constexpr absl::string_view kAfterLayer = "transformer_ln_f";
// Its matrix is the token embedding's: one parameter, whose gradient is final with the embedding's.
constexpr absl::string_view kHead = "lm_head", kEmbedding = "transformer_wte";

// "[[1024, 1280], [1280]]" or "(4, 1024)".
std::vector<std::vector<int64_t>> Shapes(absl::string_view text) {
  std::vector<std::vector<int64_t>> shapes;
  for (const absl::string_view shape : absl::StrSplit(text, absl::ByAnyChar("[]()"))) {
    std::vector<int64_t> sizes;
    for (const absl::string_view part : absl::StrSplit(shape, ", ", absl::SkipEmpty())) {
      int64_t size = 0;
      if (absl::SimpleAtoi(part, &size)) sizes.push_back(size);
    }
    if (!sizes.empty()) shapes.push_back(std::move(sizes));
  }
  return shapes;
}

double Elements(const std::vector<int64_t>& shape) {
  double elements = 1;
  for (const int64_t size : shape) elements *= static_cast<double>(size);
  return elements;
}

absl::StatusOr<double> Field(absl::string_view json, absl::string_view key,
                             const std::string& path) {
  const size_t at = json.find(absl::StrCat("\"", key, "\":"));
  double value = 0;
  if (at == json.npos ||
      !absl::SimpleAtod(std::vector<absl::string_view>(absl::StrSplit(
                            json.substr(at + key.size() + 3), absl::ByAnyChar(",}\n")))[0],
                        &value)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no number \"", key, "\""));
  }
  return value;
}

// The product of a linear layer or of two activations; the rest are passes over their output.
Work ForwardWork(absl::string_view name, const std::vector<std::vector<int64_t>>& in,
                 const std::vector<int64_t>& out) {
  Work work;
  const double results = Elements(out);
  const auto product = [&](Family family, int64_t batch, int64_t m, int64_t n, int64_t k) {
    work.family = family;
    work.batch = batch, work.m = m, work.n = n, work.k = k;
    work.flops = 2.0 * double(batch) * double(m) * double(n) * double(k);
  };
  if (absl::StartsWith(name, "addmm")) {
    product(Family::kGemm, 1, out[0], out[1], in[1][1]);
  } else if (absl::StartsWith(name, "matmul")) {
    product(Family::kBatchedGemm, out[0] * out[1], out[2], out[3], in[0][3]);
  } else if (name == kHead) {
    product(Family::kGemm, 1, out[0] * out[1], out[2], in[0][2]);
  } else {
    work.m = static_cast<int64_t>(results);
    work.flops = results;
  }
  work.bytes = kElement * results;
  for (const auto& shape : in) work.bytes += kElement * Elements(shape);
  return work;
}

double ParamsOf(absl::string_view name, const std::vector<std::vector<int64_t>>& in,
                const std::vector<int64_t>& out) {
  if (absl::StartsWith(name, "addmm")) return Elements(in[0]) + Elements(in[2]);
  if (absl::StrContains(name, "_ln_")) return 2.0 * double(out.back());
  if (absl::StrContains(name, "_wpe")) return Elements(out);
  if (name == kHead) return double(in[0].back()) * double(out.back());
  return 0;
}

}  // namespace

absl::StatusOr<double> LabelledMicros(const std::string& json, const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const double ms, Field(json, "e2e_latency", path));
  return 1e3 * ms;
}

absl::StatusOr<LabelledModel::Table> LabelledModel::ReadTableOf(const std::string& stem,
                                                                int64_t first_label) {
  EBB_ASSIGN_OR_RETURN(const std::string json, ReadTable(stem + ".json"));
  EBB_ASSIGN_OR_RETURN(const double layers, Field(json, "num_layer", stem));
  EBB_ASSIGN_OR_RETURN(const double whole, LabelledMicros(json, stem));
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadTable(stem + ".csv.gz"));
  EBB_ASSIGN_OR_RETURN(const auto csv, perfmodel::CsvTable::Parse(text, stem + ".csv.gz"));
  double nothing = 0;  // ms of a call that launches nothing
  std::vector<Op> before, layer, after;
  std::vector<Op>* part = &before;
  for (const perfmodel::CsvRow& row : csv.rows()) {
    EBB_ASSIGN_OR_RETURN(const absl::string_view name, row.Text("Name"));
    EBB_ASSIGN_OR_RETURN(const absl::string_view in_text, row.Text("input_shapes"));
    EBB_ASSIGN_OR_RETURN(const absl::string_view out_text, row.Text("output_shape"));
    Op op{.name = std::string(name)};
    const char* const columns[] = {"fw_latency", "bw_latency", "acc_latency"};
    for (size_t side = 0; side < 3; ++side) {
      EBB_ASSIGN_OR_RETURN(const double ms, row.Number(columns[side]));
      op.micros[side] = 1e3 * ms;
    }
    if (name == "size") nothing = op.micros[0];
    if (name == kFirstOfLayer) part = &layer;
    if (name == kAfterLayer) part = &after;
    const auto in = Shapes(in_text), out = Shapes(out_text);
    if (nothing == 0 || out.empty() || in.empty() || Elements(out[0]) <= 1) continue;
    for (double& micros : op.micros) {
      if (micros < kKernel * nothing) micros = 0;
    }
    if (op.micros[0] == 0) continue;
    op.work = ForwardWork(name, in, out[0]);
    op.params = ParamsOf(name, in, out[0]);
    op.input_elements = Elements(in[absl::StartsWith(name, "addmm") ? 1 : 0]);
    op.output_elements = Elements(out[0]);
    part->push_back(std::move(op));
  }
  if (layer.empty() || after.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(stem, ".csv.gz: no layer of a GPT-2"));
  }
  Table table;
  table.ops = std::move(before);
  for (int i = 0; i < static_cast<int>(layers); ++i) {
    table.ops.insert(table.ops.end(), layer.begin(), layer.end());
  }
  table.ops.insert(table.ops.end(), after.begin(), after.end());
  for (Op& op : table.ops) {
    if (op.name == kEmbedding) op.params = table.ops.back().params;
  }
  double sum = 0;
  for (Op& op : table.ops) {
    op.work.window = first_label++;
    for (const double micros : op.micros) sum += micros;
  }
  table.scale = whole / sum;
  return table;
}

absl::StatusOr<LabelledModel> LabelledModel::Read(const std::string& folder,
                                                  const std::string& name, int64_t scaled_by) {
  LabelledModel model;
  int64_t label = 1;
  for (int64_t batch = 1; batch <= kMostBatch; ++batch) {
    const std::string stem = absl::StrCat(folder, "/", name, "-", batch);
    if (!std::filesystem::exists(stem + ".csv.gz")) continue;
    EBB_ASSIGN_OR_RETURN(Table table, ReadTableOf(stem, label));
    label += static_cast<int64_t>(table.ops.size());
    model.tables_[batch] = std::move(table);
  }
  if (model.tables_.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, "/", name, "-BATCH.csv.gz"));
  }
  const auto reference = model.tables_.find(scaled_by);
  for (auto& [batch, table] : model.tables_) {
    if (reference != model.tables_.end()) table.scale = reference->second.scale;
    for (const Op& op : table.ops) model.labels_[op.work.window] = {&op, table.scale};
  }
  return model;
}

Work LabelledModel::WorkOf(const Op& op, Side side) {
  Work work = op.work;
  work.stride = side;
  if (side == kBackward) work.flops *= 2, work.bytes *= 2;  // of both operands
  if (side == kAccumulate) {
    work = {.m = static_cast<int64_t>(op.params), .window = op.work.window, .stride = side};
    work.bytes = 3 * kElement * op.params;
  }
  return work;
}

absl::StatusOr<TrainingStep> LabelledModel::StepAt(int64_t batch, int64_t tensor) const {
  auto nearest = tables_.begin();
  for (auto it = tables_.begin(); it != tables_.end(); ++it) {
    if (std::abs(it->first - batch) < std::abs(nearest->first - batch)) nearest = it;
  }
  const double times = static_cast<double>(batch) / static_cast<double>(nearest->first);
  const std::vector<Op>& ops = nearest->second.ops;
  TrainingStep step{.batch = batch, .units = static_cast<int>(ops.size())};
  // What is cut, and which linear layers are a pair's first: from one addmm to the next.
  enum class Place : uint8_t { kWhole, kColumns, kBetween, kRows };
  std::vector<Place> places;
  bool inside = false;
  for (const Op& op : ops) {
    Place place = inside ? Place::kBetween : Place::kWhole;
    if (absl::StartsWith(op.name, "addmm")) {
      place = inside ? Place::kRows : Place::kColumns;
      inside = !inside;
    }
    places.push_back(place);
  }
  const auto cut = [&](size_t i, Side side) {
    Work work = WorkOf(ops[i], side);
    if (side != kAccumulate) work.flops *= times, work.bytes *= times;
    switch (places[i]) {
      case Place::kWhole:
        return work;
      case Place::kBetween:
        return perfmodel::CutElements(work, tensor);
      case Place::kColumns:
        return perfmodel::CutProduct(work, ops[i].work.n, tensor);
      case Place::kRows:
        return perfmodel::CutProduct(work, ops[i].work.k, tensor);
    }
    return work;
  };
  const auto add = [&](size_t i, Side side, double reduced_elements) {
    StepOp op{.name = ops[i].name, .unit = static_cast<int>(i), .work = cut(i, side)};
    op.phase = side == kForward ? Phase::kForward : Phase::kBackward;
    if (tensor > 1) op.reduce_bytes = kElement * reduced_elements * times;
    step.ops.push_back(std::move(op));
  };
  for (size_t i = 0; i < ops.size(); ++i) {
    add(i, kForward, places[i] == Place::kRows ? ops[i].output_elements : 0);
    step.saved_bytes.push_back(kElement * ops[i].output_elements * times);
    // Between layers the residual crosses; within them more does.
    const bool between = absl::EndsWith(ops[i].name, "_ln_1") || i == 0;
    step.crossing_bytes.push_back(kElement * ops[i].input_elements * times * (between ? 1 : 2));
  }
  for (size_t i = ops.size(); i-- > 0;) {
    if (ops[i].micros[kBackward - 1] > 0) {
      add(i, kBackward, places[i] == Place::kColumns ? ops[i].input_elements : 0);
    }
    if (ops[i].params == 0) continue;
    add(i, kAccumulate, 0);
    if (ops[i].name == kHead) continue;
    const bool shared = places[i] == Place::kColumns || places[i] == Place::kRows;
    const auto unit = static_cast<int>(i);
    step.params.push_back(
        {.name = absl::StrCat(ops[i].name, " ", i),
         .bytes = kElement * ops[i].params / (shared ? static_cast<double>(tensor) : 1.0),
         .ready = static_cast<int>(step.ops.size()) - 1,
         .unit = unit,
         .last_unit = unit});
  }
  return step;
}

absl::StatusOr<Estimate> LabelledModel::Predict(const Work& work) const {
  const auto it = labels_.find(work.window);
  if (it == labels_.end() || work.stride < kForward || work.stride > kAccumulate) {
    return absl::UnimplementedError(absl::StrCat("no label of ", perfmodel::ToString(work)));
  }
  const auto& [op, scale] = it->second;
  const Work whole = WorkOf(*op, static_cast<Side>(work.stride));
  const double share =
      perfmodel::IsProduct(work.family) ? work.flops / whole.flops : work.bytes / whole.bytes;
  const double micros = op->micros[work.stride - 1] * scale * share;
  return Estimate{micros, micros, micros, share == 1, "NeuSight's labels"};
}

}  // namespace ebb::bench
