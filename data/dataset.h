// Data sets on the host: named fields of N rows, and the order in which a job reads them. Immutable
// once loaded; may be shared by jobs and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/units.h"
#include "data/augment.h"
#include "data/images.h"
#include "graph/types.h"

namespace ebb::data {

// Where the rows of a token file (data/tokens.h) lie in it.
struct TokenOrigin {
  int64_t first = 0;   // the file's token that is the first of row 0
  int64_t window = 0;  // tokens of a row; 0: the rows are of no token file
};

class DataSet {
 public:
  // Every field has the same number of rows (axis 0), at least one; else InvalidArgument.
  static absl::StatusOr<std::shared_ptr<const DataSet>> Create(
      std::map<std::string, graph::HostTensor> fields, TokenOrigin origin = {});
  // The field "label", and "image", of which each row is decoded when a batch needs it.
  static std::shared_ptr<const DataSet> OfImages(std::shared_ptr<const ImageSet> images);
  int64_t rows() const { return rows_; }
  const std::map<std::string, graph::HostTensor>& fields() const { return fields_; }
  Bytes bytes() const;
  bool IsTokens() const { return origin_.window > 0; }
  const ImageSet* images() const { return images_.get(); }  // null: every field is in fields()
  // Where an element of a field's row is, in words for people.
  std::string Place(const std::string& field, int64_t row, int64_t element) const;

 private:
  std::map<std::string, graph::HostTensor> fields_;
  int64_t rows_ = 0;
  TokenOrigin origin_;
  std::shared_ptr<const ImageSet> images_;
};

// The most bytes that one data set may unpack to, whatever its compressed size.
constexpr Bytes kMaxDataSetBytes = GiB(16);

// Asked before a parser takes so many bytes more of the host's memory; an error ends the parse and
// is its result. Empty: nobody is asked.
using Reserve = std::function<absl::Status(Bytes)>;

struct CsvOptions {
  // Column that becomes the field "label", from 0; negative counts from the end, -1 = last. Its
  // type is i64, or f32 when a value is not whole. All other columns are the f32 field "x", in file
  // order.
  int label_column = -1;
};

// How the rows of a sparse feature (data/sparse.h) become rows of one length.
struct SparseRule {
  std::string match;   // glob over features
  int64_t pad_to = 0;  // indices of a row
  int64_t pad_value = 0;
  enum class Overlong { kRefuse, kCut } overlong = Overlong::kRefuse;
};

struct FileOptions {
  CsvOptions csv;
  std::vector<SparseRule> sparse;
};

// The format is told by content, not by file name: .npz and .npy (versions 1 to 3, C order; f2 f4
// f8 i1 u1 i2 u2 i4 u4 i8 b1 of either byte order), safetensors, Parquet (data/parquet.h), IDX
// (MNIST's), CSV with or without a header; each also gzipped. A lone array (.npy, IDX) is the field
// "data". Types that graphs lack are widened: f2 -> f32, i1 i2 u2 -> i32, u4 -> i64.
// InvalidArgument: damaged or inconsistent, with the place. Unimplemented: a format or element type
// that is not supported, by name. ResourceExhausted: it unpacks to more than `limit`.
absl::StatusOr<std::shared_ptr<const DataSet>> ParseDataSet(absl::string_view bytes,
                                                            const FileOptions& options = {},
                                                            Bytes limit = kMaxDataSetBytes,
                                                            const Reserve& reserve = {});
// A 1-D integer array (.npy, .npz with one array, or text with one number a line), as it is: that
// the indices fit the data set is for Validate() to see.
absl::StatusOr<std::vector<int64_t>> ParseIndex(absl::string_view bytes,
                                                Bytes limit = kMaxDataSetBytes,
                                                const Reserve& reserve = {});

// [from, to) of axis 1 of a field, as in Python: negative numbers count from its end; what is
// absent is the end on that side.
struct RowSlice {
  std::optional<int64_t> from;
  std::optional<int64_t> to;
};

// Elements [from, to) of what a row feeds index a table of `rows` rows, in [-rows, rows).
struct ColumnTable {
  int64_t from = 0;
  int64_t to = 0;
  int64_t rows = 0;
  bool operator==(const ColumnTable&) const = default;
};

// One model input and the data field that feeds it.
struct FieldBinding {
  std::string field;
  graph::TensorType type;     // of the batch: axis 0 = batch size
  int64_t label_classes = 0;  // > 0: values must lie in [0, label_classes) or be ignore_index
  int64_t ignore_index = -100;
  RowSlice slice = {};     // what of the field's rows is fed
  int64_t table_rows = 0;  // > 0: values index a table: they must lie in [-table_rows, table_rows)
  std::vector<ColumnTable> columns = {};  // tables that parts of a row index
};

// A field whose rows are images, and what is done to them on their way into a batch: they become
// f32 [channels, height, width] in [0, 1], normalised if asked for.
struct ImageField {
  std::string field;  // "image" of an image set, or a field of u8 rows [channels, height, width]
  Transforms transforms;
};

// What a job reads: a data set, the rows of it that count, and how they map to model inputs.
struct BatchSource {
  std::shared_ptr<const DataSet> data;
  std::vector<int64_t> rows;  // indices into the data set, in file order
  std::vector<FieldBinding> bindings;
  std::optional<ImageField> image;
  int64_t batch_size = 1;
  uint64_t seed = 0;
  enum class Order { kSequential, kShuffled } order = Order::kSequential;
  enum class Tail {
    kDrop,
    kPad
  } tail = Tail::kDrop;  // kPad: repeats the last row, `valid` < batch

  int64_t BatchesPerEpoch() const;
};

// Whether a row of the data may feed a row of the model: the same shape up to leading and trailing
// ones, or the same number of elements where one of the two is flat ([64] feeds [1,8,8]).
bool RowShapesFit(absl::Span<const int64_t> data, absl::Span<const int64_t> model);

// The source can be read: rows exist, fields exist, slices lie in them, row shapes fit, element
// types convert (integer
// -> float and wider or narrower of the same kind; float -> integer is not), values survive the
// conversion, floats are finite, labels and indices are in range, and with Tail::kDrop there is a
// whole batch. InvalidArgument names the field, row and value and says what to do. Reads every row
// once.
absl::Status Validate(const BatchSource& source);

// The data-set rows in the order in which an epoch (from 0) reads them: source.rows as they are, or
// in an unbiased permutation drawn from Philox keyed by the seed with the epoch as counter. An
// order that is no longer needed can give its memory to the new one.
std::vector<int64_t> EpochOrder(const BatchSource& source, int64_t epoch,
                                std::vector<int64_t> order = {});

struct BatchPlace {
  int64_t epoch = 0;
  int64_t batch = 0;
};

// Writes batch `place.batch` (from 0, < BatchesPerEpoch()) of the given epoch's order to `out[i]`
// (bindings' order, type.bytes() each) and returns the number of valid rows. Converts element
// types. For a source that Validate() accepts. An image whose file has changed since then is an
// error that names it; nothing else fails. Thread-safe.
absl::StatusOr<int64_t> FillBatch(const BatchSource& source, const std::vector<int64_t>& order,
                                  BatchPlace place, const std::vector<void*>& out);

}  // namespace ebb::data
