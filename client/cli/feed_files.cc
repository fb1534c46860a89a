#include "client/cli/feed_files.h"

#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "client/local_file.h"

namespace ebb::cli {
namespace {

// "f32[13]", as the daemon writes it.
absl::StatusOr<graph::TensorType> RowType(absl::string_view text) {
  graph::TensorType type;
  absl::string_view shape = text;
  const absl::string_view name = text.substr(0, text.find('['));
  const auto dtype = graph::ParseDType(name);
  bool ok = dtype.has_value();
  if (ok) type.dtype = *dtype;
  shape.remove_prefix(name.size());
  if (ok && !shape.empty()) {
    ok = absl::ConsumePrefix(&shape, "[") && absl::ConsumeSuffix(&shape, "]");
    for (const absl::string_view part : absl::StrSplit(shape, ',')) {
      int64_t size = 0;
      ok = ok && absl::SimpleAtoi(part, &size);
      type.shape.push_back(size);
    }
  }
  if (ok) return type;
  return absl::UnimplementedError(
      absl::StrCat("the job has a field of type '", text,
                   "', which this ebb does not know; the daemon is newer"));
}

}  // namespace

absl::Status FileBatches::Begin(const v1::FeedResponse& begun) {
  rows_ = begun.batch_rows();
  bindings_.clear();
  for (const auto& [name, text] : begun.schema()) {
    EBB_ASSIGN_OR_RETURN(graph::TensorType type, RowType(text));
    type.shape.insert(type.shape.begin(), rows_);
    bindings_.push_back({.field = name, .type = std::move(type)});
  }
  return absl::OkStatus();
}

absl::Status FileBatches::Load() {
  if (loaded_ != file_) {
    source_ = {};
    EBB_ASSIGN_OR_RETURN(const std::string bytes, client::ReadRegularFile(paths_[file_]));
    auto set = data::ParseDataSet(bytes);
    if (!set.ok()) return Annotate(set.status(), paths_[file_]);
    source_.data = *std::move(set);
    source_.rows.resize(static_cast<size_t>(source_.data->rows()));
    std::iota(source_.rows.begin(), source_.rows.end(), 0);
    source_.bindings = bindings_;
    source_.batch_size = rows_;
    if (order_.seed) {
      source_.seed = *order_.seed;
      source_.order = data::BatchSource::Order::kShuffled;
    }
    EBB_RETURN_IF_ERROR(Annotate(data::Validate(source_), paths_[file_]));
    loaded_ = file_;
  }
  rows_in_order_ = data::EpochOrder(source_, epoch_, std::move(rows_in_order_));
  return absl::OkStatus();
}

absl::Status FileBatches::Next() {
  first_ += source_.BatchesPerEpoch();
  if (++file_ == paths_.size()) {
    file_ = 0;
    ++epoch_;
  }
  return epoch_ < order_.epochs ? Load() : absl::OkStatus();
}

absl::StatusOr<std::optional<client::FedBatch>> FileBatches::Make(int64_t number) {
  if (loaded_ == SIZE_MAX || number < first_) {  // first of all, or the daemon wants it again
    epoch_ = first_ = 0;
    file_ = 0;
    EBB_RETURN_IF_ERROR(Load());
  }
  while (epoch_ < order_.epochs && number >= first_ + source_.BatchesPerEpoch()) {
    EBB_RETURN_IF_ERROR(Next());
  }
  if (epoch_ == order_.epochs) {
    if (number == first_) return std::optional<client::FedBatch>();
    return absl::FailedPreconditionError(
        absl::StrCat("the files end after ", first_, " batches, but batch ", number,
                     " is asked for: they are not what the job was fed with so far"));
  }
  client::FedBatch batch;
  std::vector<void*> out;
  for (const data::FieldBinding& binding : bindings_) {
    client::FedField& field = batch.emplace_back();
    field.name = binding.field;
    field.dtype = std::string(graph::Name(binding.type.dtype));
    field.shape.assign(binding.type.shape.begin(), binding.type.shape.end());
    field.bytes.resize(static_cast<size_t>(binding.type.bytes().count()));
  }
  for (client::FedField& field : batch) out.push_back(field.bytes.data());
  const auto filled = data::FillBatch(source_, rows_in_order_, {epoch_, number - first_}, out);
  if (!filled.ok()) return Annotate(filled.status(), paths_[file_]);
  return std::optional<client::FedBatch>(std::move(batch));
}

}  // namespace ebb::cli
