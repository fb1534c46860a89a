// The fuzzers of data sets: what is read is consistent, and can be fed to a model of its own shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "data/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace ebb::fuzz {

inline void CheckDataSet(const data::DataSet& set) {
  EBB_FUZZ_CHECK(set.rows() > 0);
  data::BatchSource source;
  for (const auto& [name, tensor] : set.fields()) {
    EBB_FUZZ_CHECK(tensor.type.shape[0] == set.rows());
    EBB_FUZZ_CHECK(static_cast<int64_t>(tensor.data.size()) == tensor.type.bytes().count());
    data::FieldBinding binding;
    binding.field = name;
    binding.type = tensor.type;
    binding.type.shape[0] = 2;
    source.bindings.push_back(binding);
  }
  if (set.bytes() > MiB(1)) return;  // enough for what follows, which is slow
  source.data = std::shared_ptr<const data::DataSet>(&set, [](const data::DataSet*) {});
  for (int64_t row = 0; row < set.rows(); ++row) source.rows.push_back(row);
  source.batch_size = 2;
  source.order = data::BatchSource::Order::kShuffled;
  source.tail = data::BatchSource::Tail::kPad;
  if (!data::Validate(source).ok()) return;
  std::vector<std::string> buffers;
  std::vector<void*> out;
  for (const data::FieldBinding& binding : source.bindings) {
    buffers.emplace_back(static_cast<size_t>(binding.type.bytes().count()), '\0');
  }
  for (std::string& buffer : buffers) out.push_back(buffer.data());
  const std::vector<int64_t> order = data::EpochOrder(source, 0);
  EBB_FUZZ_CHECK(data::FillBatch(source, order, {0, source.BatchesPerEpoch() - 1}, out).ok());
}

inline void ReadDataSet(absl::string_view bytes) {
  const auto set = data::ParseDataSet(bytes, {}, MiB(16));
  if (set.ok()) {
    CheckDataSet(**set);
  } else {
    EBB_FUZZ_CHECK(!set.status().message().empty());
  }
}

}  // namespace ebb::fuzz
