#include "bench/drawn_data.h"

#include <map>
#include <random>
#include <string>
#include <utility>

#include "base/status.h"
#include "model/zoo/zoo.h"

namespace ebb::bench {
namespace {

using graph::DType;
using graph::HostTensor;

constexpr int64_t kClasses = 1000;   // of images
constexpr int64_t kTokens = 30'000;  // below every vocabulary

// Whole numbers of an input are in [0, this).
int64_t RangeOf(const std::string& input, int64_t tokens) {
  if (input == "label") return kClasses;
  if (input == "input_ids" || input == "labels") return kTokens;
  return input == "mlm_positions" ? tokens : 2;
}

HostTensor Draw(const graph::TensorType& type, int64_t range, std::mt19937_64* random) {
  const auto count = static_cast<size_t>(graph::NumElements(type.shape));
  if (type.dtype == DType::kF32) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>((*random)() >> 40) * 0x1p-23f - 1;
    return HostTensor::Of(type.dtype, type.shape, values);
  }
  std::vector<int64_t> values(count);
  for (int64_t& value : values) {
    value = static_cast<int64_t>((*random)() % static_cast<uint64_t>(range));
  }
  return HostTensor::Of(type.dtype, type.shape, values);
}

}  // namespace

absl::Status DrawData(int64_t rows, runtime::JobSpec* spec) {
  EBB_ASSIGN_OR_RETURN(const model::ZooModel zoo, model::BuildZooModel(spec->model.zoo, 1));
  std::mt19937_64 random(7);
  std::map<std::string, HostTensor> fields;
  for (const graph::Value& value : zoo.graph.values) {
    if (value.role != graph::Role::kInput) continue;
    graph::TensorType type = value.type;
    type.shape[0] = rows;
    fields[value.name] = Draw(type, RangeOf(value.name, zoo.tokens), &random);
  }
  if (zoo.tokens == 0) {
    fields["label"] = Draw({DType::kI64, {rows}}, RangeOf("label", 0), &random);
  }
  EBB_ASSIGN_OR_RETURN(spec->train.data, data::DataSet::Create(std::move(fields)));
  spec->model.reinit = {{"*", "default"}};
  return absl::OkStatus();
}

}  // namespace ebb::bench
