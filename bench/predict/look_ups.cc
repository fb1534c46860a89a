// Look-ups in embedding tables on this machine's cpu device: a model is fitted to some sizes and
// predicts others, of three skews.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "bench/predict/groups.h"
#include "device/device.h"
#include "perfmodel/look_up.h"

namespace ebb::bench {
namespace {

using graph::DType;
using graph::Graph;
using graph::Role;
using perfmodel::LookUp;
using perfmodel::LookUpPass;
using perfmodel::LookUpSample;

constexpr double kSkews[] = {0.4, 0.8, 1.2};
constexpr int kFitted = 48;  // sizes of each skew
constexpr int kTested = 16;
constexpr LookUpPass kPasses[] = {LookUpPass::kForward, LookUpPass::kBackward};
constexpr uint32_t kSweeps = 5;
constexpr int64_t kBatches = 11;        // of fresh indices, of which the median counts
constexpr int64_t kWarmRows = 200'000;  // looked up before, so that caches hold what they would

struct Size {
  int64_t rows, width, bags, pooling;
  double skew;
};

Size Draw(std::mt19937& random, double skew) {
  std::uniform_real_distribution<double> draw(0, 1);
  Size size{.width = 16 << (random() % 4), .skew = skew};
  size.rows = static_cast<int64_t>(std::exp2(10 + 9 * draw(random)));  // up to 256 MiB
  size.bags = static_cast<int64_t>(std::exp2(9 + 4 * draw(random)));
  size.pooling = 1 + static_cast<int64_t>(random() % 20);
  return size;
}

// Rows in proportion to 1 / k^skew, scattered over the table.
std::vector<int64_t> DrawRows(const Size& size, int64_t count, std::mt19937& random) {
  std::vector<double> sums;
  double sum = 0;
  for (int64_t k = 1; k <= size.rows; ++k) {
    sums.push_back(sum += std::pow(static_cast<double>(k), -size.skew));
  }
  std::vector<int64_t> place(static_cast<size_t>(size.rows));
  for (size_t i = 0; i < place.size(); ++i) place[i] = static_cast<int64_t>(i);
  std::shuffle(place.begin(), place.end(), random);
  std::uniform_real_distribution<double> uniform(0, sum);
  std::vector<int64_t> rows(static_cast<size_t>(count));
  for (int64_t& row : rows) {
    const auto k = std::lower_bound(sums.begin(), sums.end(), uniform(random)) - sums.begin();
    row = place[static_cast<size_t>(std::min<int64_t>(k, size.rows - 1))];
  }
  return rows;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

// A graph of the two passes over one table, with memory for all of it.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Make(device::Device& device, const Size& size,
                                                     uint32_t seed) {
    auto bench = std::unique_ptr<Bench>(new Bench(device));
    EBB_RETURN_IF_ERROR(bench->Build(size, seed));
    return bench;
  }
  ~Bench() { device_.DestroyStream(stream_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Microseconds of one pass, the median over fresh batches.
  double Median(LookUpPass pass) {
    const int node = static_cast<int>(pass);
    std::vector<double> micros;
    for (int64_t batch = pass == LookUpPass::kForward ? 0 : warm_; batch < warm_ + kBatches;
         ++batch) {
      bindings_.values[indices_.index()] = drawn_.data() + batch * count_;
      const device::EventId before = device_.Record(stream_);
      device_.Launch(stream_, {program_.get(), &bindings_, node, node});
      const device::EventId after = device_.Record(stream_);
      device_.Synchronize(stream_);
      const device::EventState state = device_.Query(after);
      if (batch >= warm_) micros.push_back(static_cast<double>((state.end - state.start).count()));
      device_.Release(before);
      device_.Release(after);
    }
    std::nth_element(micros.begin(), micros.begin() + kBatches / 2, micros.end());
    return micros[kBatches / 2];
  }

 private:
  explicit Bench(device::Device& device) : device_(device), stream_(device.CreateStream()) {}

  absl::Status Build(const Size& size, uint32_t seed) {
    Graph graph;
    const ValueId table =
        graph.AddValue("table", {DType::kF32, {size.rows, size.width}}, Role::kParam);
    indices_ = graph.AddValue("indices", {DType::kI64, {size.bags * size.pooling}}, Role::kInput);
    const ValueId offsets = graph.AddValue("offsets", {DType::kI64, {size.bags}}, Role::kInput);
    const ValueId dy = graph.AddValue("dy", {DType::kF32, {size.bags, size.width}}, Role::kInput);
    EBB_RETURN_IF_ERROR(
        graph.Add("EmbeddingBag", "y", {table, indices_, offsets}, {{"mode", std::string("sum")}})
            .status());
    EBB_RETURN_IF_ERROR(graph
                            .Add("EmbeddingBagGrad", "dtable", {dy, indices_, offsets},
                                 {{"mode", std::string("sum")},
                                  {"shape", std::vector<int64_t>{size.rows, size.width}}})
                            .status());
    EBB_ASSIGN_OR_RETURN(program_, device_.Compile(graph));
    for (const graph::Value& value : graph.values) {
      memory_.push_back(Allocate(value.type.bytes()));
      bindings_.values.push_back(memory_.back().get());
    }
    for (const graph::Node& node : graph.nodes) {
      memory_.push_back(Allocate(program_->Workspace(node.id)));
      bindings_.workspaces.push_back(memory_.back().get());
    }
    auto* const starts = static_cast<int64_t*>(bindings_.values[offsets.index()]);
    for (int64_t bag = 0; bag < size.bags; ++bag) starts[bag] = bag * size.pooling;
    count_ = size.bags * size.pooling;
    warm_ = 1 + kWarmRows / count_;
    std::mt19937 random(seed);
    drawn_ = DrawRows(size, (warm_ + kBatches) * count_, random);
    return absl::OkStatus();
  }
  static Memory Allocate(Bytes bytes) {
    const auto size = static_cast<size_t>(AlignUp(bytes + Bytes(1), Bytes(64)).count());
    Memory memory(std::aligned_alloc(64, size));
    std::fill_n(static_cast<char*>(memory.get()), size, char{0});
    return memory;
  }

  device::Device& device_;
  device::StreamId stream_;
  ValueId indices_;
  std::unique_ptr<device::Program> program_;
  device::Bindings bindings_;
  std::vector<Memory> memory_;
  std::vector<int64_t> drawn_;  // indices of all batches
  int64_t count_ = 0;           // of one batch
  int64_t warm_ = 0;            // batches before those that count
};

LookUp Of(const Size& size) {
  return {.rows = static_cast<double>(size.rows),
          .width = static_cast<double>(size.width),
          .look_ups = static_cast<double>(size.bags * size.pooling),
          .bags = static_cast<double>(size.bags),
          .popularity = perfmodel::ZipfPopularity(size.rows, size.skew)};
}

// Both passes of every size, in sweeps over all of them, so that what disturbs the machine for a
// while disturbs no size in all its sweeps: the second quickest sweep counts.
absl::StatusOr<std::vector<LookUpSample>> Measure(device::Device& device,
                                                  const std::vector<Size>& sizes) {
  std::vector<std::vector<double>> micros(2 * sizes.size());
  for (uint32_t sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const uint32_t seed = sweep * 10'000 + static_cast<uint32_t>(i);
      EBB_ASSIGN_OR_RETURN(const auto bench, Bench::Make(device, sizes[i], seed));
      for (const LookUpPass pass : kPasses) {
        micros[2 * i + static_cast<size_t>(pass)].push_back(bench->Median(pass));
      }
    }
  }
  std::vector<LookUpSample> samples;
  for (size_t i = 0; i < micros.size(); ++i) {
    std::nth_element(micros[i].begin(), micros[i].begin() + 1, micros[i].end());
    samples.push_back({Of(sizes[i / 2]), kPasses[i % 2], std::max(micros[i][1], 0.5)});
  }
  return samples;
}

}  // namespace

absl::StatusOr<std::vector<PredictRow>> LookUpRows(const std::string&) {
  EBB_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device, device::OpenDevice("cpu", {}));
  std::mt19937 random(1);
  std::vector<Size> fitted, tested;
  for (const double skew : kSkews) {
    for (int i = 0; i < kFitted; ++i) fitted.push_back(Draw(random, skew));
    for (int i = 0; i < kTested; ++i) tested.push_back(Draw(random, skew));
  }
  // Fitted and tested sizes share the sweeps.
  std::vector<Size> all = fitted;
  all.insert(all.end(), tested.begin(), tested.end());
  EBB_ASSIGN_OR_RETURN(const std::vector<LookUpSample> measured, Measure(*device, all));
  const auto samples = absl::MakeConstSpan(measured).first(2 * fitted.size());
  const auto truth = absl::MakeConstSpan(measured).subspan(2 * fitted.size());
  EBB_ASSIGN_OR_RETURN(const auto model, perfmodel::LookUpModel::Fit(samples));
  std::vector<PredictRow> rows;
  for (const LookUpPass pass : kPasses) {
    for (size_t s = 0; s < std::size(kSkews); ++s) {
      std::vector<Predicted> predicted;
      for (size_t i = 0; i < truth.size(); ++i) {
        if (truth[i].pass != pass || tested[i / 2].skew != kSkews[s]) continue;
        EBB_ASSIGN_OR_RETURN(const auto estimate, model.Predict(truth[i].look_up, pass));
        predicted.push_back({.measured = truth[i].micros,
                             .median = estimate.median,
                             .low = estimate.low,
                             .high = estimate.high});
      }
      rows.push_back(
          RowOf(absl::StrFormat("look-ups on cpu, %s, skew %.1f",
                                pass == LookUpPass::kForward ? "forward" : "backward", kSkews[s]),
                predicted, 15));
    }
  }
  return rows;
}

}  // namespace ebb::bench
