// Data sets on the host: named fields of N rows, and the order in which a job reads them. Immutable
// once loaded; may be shared by jobs and threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types.h"

namespace ebb::data {

class DataSet {
 public:
  // Every field has the same number of rows (axis 0).
  static absl::StatusOr<std::shared_ptr<const DataSet>> Create(
      std::map<std::string, graph::HostTensor> fields);
  int64_t rows() const { return rows_; }
  const std::map<std::string, graph::HostTensor>& fields() const { return fields_; }
  Bytes bytes() const;

 private:
  std::map<std::string, graph::HostTensor> fields_;
  int64_t rows_ = 0;
};

// By content, not by file name: .npz and .npy (v1-v3, C order, f4 f8 i1 u1 i2 i4 i8 b1; field "data" for
// .npy), CSV with optional header (a field a column, or with `csv` options below), IDX; each also gzipped.
struct CsvOptions {
  // Column whose values are the i64 field "label"; -1 = last. All other columns are the f32 field "x".
  int label_column = -1;
};
absl::StatusOr<std::shared_ptr<const DataSet>> ParseDataSet(absl::string_view bytes,
                                                            const CsvOptions& csv = {});
// A 1-D integer array (.npy, .npz with one array, or text with one number a line).
absl::StatusOr<std::vector<int64_t>> ParseIndex(absl::string_view bytes);

// One model input and the data field that feeds it.
struct FieldBinding {
  std::string field;
  graph::TensorType type;  // of the batch: axis 0 = batch size
  int64_t label_classes = 0;  // > 0: values must lie in [0, label_classes) or be ignore_index
  int64_t ignore_index = -100;
};

// What a job reads: a data set, the rows of it that count, and how they map to model inputs.
struct BatchSource {
  std::shared_ptr<const DataSet> data;
  std::vector<int64_t> rows;  // indices into the data set, in file order
  std::vector<FieldBinding> bindings;
  int64_t batch_size = 1;
  uint64_t seed = 0;
  enum class Order { kSequential, kShuffled } order = Order::kSequential;
  enum class Tail { kDrop, kPad } tail = Tail::kDrop;  // kPad: repeats the last row, `valid` < batch

  int64_t BatchesPerEpoch() const;
};

// The bindings fit: fields exist, row shapes match (a [1,8,8] row may feed [64] and the like only if the
// element counts agree AND ranks differ by leading/trailing ones; integer -> float conversion is allowed,
// float -> integer is not), labels are in range, floats are finite, the batch is not larger than the rows.
// InvalidArgument names the field, row and value.
absl::Status Validate(const BatchSource& source);

// Row order of an epoch: a permutation drawn from Philox keyed by (seed, epoch), or the file order.
std::vector<int64_t> EpochOrder(const BatchSource& source, int64_t epoch);

// Writes batch `batch` of the given epoch order to `out[i]` (bindings' order, type.bytes() each) and
// returns the number of valid rows. Converts element types. Thread-safe.
int64_t FillBatch(const BatchSource& source, const std::vector<int64_t>& order, int64_t batch,
                  const std::vector<void*>& out);

}  // namespace ebb::data
