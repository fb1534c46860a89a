#include "daemon/wire_feed.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/wire.h"

namespace ebb::daemon {
namespace {

using graph::DType;

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

constexpr char kTypes[] =
    "give f32, f64, i32, i64, u8 or bool, and the shape of a row, as in f32[13]";

absl::StatusOr<graph::TensorType> RowType(absl::string_view text) {
  if (absl::StartsWith(text, "ragged_")) {
    return absl::UnimplementedError(
        absl::StrCat("'", Escaped(text),
                     "': rows of different lengths are not supported by this version; pad "
                     "them to one length, as in i64[26]"));
  }
  graph::TensorType type;
  absl::string_view rest = text;
  const absl::string_view name = rest.substr(0, rest.find('['));
  const auto dtype = graph::ParseDType(name);
  if (!dtype) return Invalid(absl::StrCat("'", Escaped(text), "' is no type; ", kTypes));
  type.dtype = *dtype;
  rest.remove_prefix(name.size());
  if (rest.empty()) return type;
  if (!absl::ConsumePrefix(&rest, "[") || !absl::ConsumeSuffix(&rest, "]")) {
    return Invalid(absl::StrCat("'", Escaped(text), "' is no type; ", kTypes));
  }
  int64_t elements = 1;
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 1 || size > (int64_t{1} << 30) / elements) {
      return Invalid(absl::StrCat("'", Escaped(text),
                                  "' is no type: a size is no number above 0, "
                                  "or a row has more than 2^30 elements; ",
                                  kTypes));
    }
    elements *= size;
    type.shape.push_back(size);
  }
  if (type.shape.size() > 8) return Invalid(absl::StrCat("'", text, "' has more than 8 axes"));
  return type;
}

absl::Status CheckField(const v1::FeedRequest::Field& part, const graph::TensorType& batch,
                        int64_t rows) {
  graph::TensorType want = batch;
  want.shape[0] = rows;
  const auto dtype = graph::ParseDType(part.dtype());
  if (!dtype) {
    return Invalid(absl::StrCat("dtype '", Escaped(part.dtype()),
                                "' is none of f32, f64, i32, i64, "
                                "u8, bool"));
  }
  const graph::TensorType type{*dtype, graph::Shape(part.shape().begin(), part.shape().end())};
  if (type != want) {
    return Invalid(absl::StrCat("it is ", ToString(type), "; with ", rows, " rows the job reads ",
                                ToString(want), " (data.train.schema)"));
  }
  if (Bytes(static_cast<int64_t>(part.data().size())) != want.bytes()) {
    return Invalid(absl::StrCat("it has ", part.data().size(), " bytes; ", ToString(want), " has ",
                                want.bytes().count()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFedOnly(absl::string_view field, const v1::DataSource& wire) {
  if (wire.feed() != v1::DataSource::FEED_CLIENT) {
    return Invalid(absl::StrCat(field, ".feed must be client"));
  }
  const char* for_files = !wire.index().empty()     ? "index"
                          : wire.has_label_column() ? "label_column"
                          : wire.has_drop_last()    ? "drop_last"
                          : wire.window() != 0      ? "window"
                          : wire.sparse_size() != 0 ? "sparse"
                          : wire.range_size() != 0  ? "range"
                          : wire.token_type() != 0  ? "token_type"
                                                    : nullptr;
  if (for_files == nullptr) return absl::OkStatus();
  return Invalid(absl::StrCat(field, ".", for_files,
                              " is for files, but this source is a feed; its client chooses the "
                              "rows: remove it"));
}

absl::StatusOr<runtime::FeedSpec> FeedFromWire(absl::string_view field,
                                               const v1::DataSource& wire) {
  runtime::FeedSpec feed;
  if (wire.schema_size() > 256) {
    return Invalid(absl::StrCat(field, ".schema has ", wire.schema_size(), " fields; at most 256"));
  }
  for (const auto& [name, text] : wire.schema()) {
    const std::string place = absl::StrCat(field, ".schema.", Escaped(name));
    if (name.empty() || name.size() > 256 || absl::StrContains(name, "*")) {
      return Invalid(absl::StrCat(place, ": name each field, in 1 to 256 bytes without '*'"));
    }
    auto type = RowType(text);
    if (!type.ok()) return Annotate(type.status(), place);
    feed.schema[name] = *std::move(type);
  }
  if (wire.has_feed_timeout()) {
    feed.timeout = absl::Seconds(wire.feed_timeout().seconds()) +
                   absl::Nanoseconds(wire.feed_timeout().nanos());
    if (!(feed.timeout >= absl::Milliseconds(1)) || feed.timeout > absl::Hours(24 * 365)) {
      return Invalid(absl::StrCat(field, ".feed_timeout is ", absl::FormatDuration(feed.timeout),
                                  "; it must be between 1ms and a year"));
    }
  }
  return feed;
}

absl::StatusOr<int64_t> BatchInParts::CheckPart(const v1::FeedRequest::Batch& part) const {
  const runtime::Feed::Fields& fields = feed_->fields();
  if (begun() && part.number() != number_) {
    return Invalid(absl::StrCat("batch ", number_, " is not whole (", filled_, " of its ",
                                feed_->rows(), " rows have come)"));
  }
  if (part.fields().empty()) return Invalid("there are no fields");
  const int64_t rows = part.fields(0).shape().empty() ? 0 : part.fields(0).shape(0);
  if (rows < 1) {
    return Invalid(absl::StrCat("field '", Escaped(part.fields(0).name()),
                                "' has no rows: axis 0 of its shape says how many"));
  }
  std::map<std::string, bool> seen;
  for (const v1::FeedRequest::Field& field : part.fields()) {
    const auto it = fields.find(field.name());
    const std::string place = absl::StrCat("field '", Escaped(field.name()), "'");
    if (it == fields.end()) return Invalid(absl::StrCat(place, " is not in data.train.schema"));
    if (seen[field.name()]) return Invalid(absl::StrCat(place, " is there twice"));
    seen[field.name()] = true;
    EBB_RETURN_IF_ERROR(Annotate(CheckField(field, it->second, rows), place));
  }
  for (const auto& [name, type] : fields) {
    if (!seen[name]) return Invalid(absl::StrCat("field '", name, "' is missing"));
  }
  const int64_t so_far = begun() ? filled_ + rows : rows;
  const bool whole = so_far == feed_->rows();
  if (whole != !part.more()) {
    return Invalid(absl::StrCat(
        "it has ", so_far, " rows", part.more() ? " and more to come" : "",
        "; a batch of the job has ", feed_->rows(),
        ": send whole batches, filled with what comes next or without the rows that are left"));
  }
  return rows;
}

absl::StatusOr<std::optional<BatchInParts::Rows>> BatchInParts::Add(
    const v1::FeedRequest::Batch& part) {
  const auto rows = CheckPart(part);
  if (!rows.ok()) return Annotate(rows.status(), absl::StrCat("batch ", part.number()));
  if (!begun()) {
    number_ = part.number();
    filled_ = 0;
    for (const auto& [name, type] : feed_->fields()) {
      rows_[name] = graph::HostTensor::Zeros(type);
    }
  }
  for (const v1::FeedRequest::Field& field : part.fields()) {
    graph::HostTensor& whole = rows_.at(field.name());
    const auto row = static_cast<int64_t>(whole.data.size()) / feed_->rows();
    std::memcpy(whole.data.data() + filled_ * row, field.data().data(), field.data().size());
  }
  filled_ += *rows;
  if (part.more()) return std::optional<Rows>();
  return std::optional<Rows>(std::exchange(rows_, {}));
}

std::map<std::string, std::string> SchemaToWire(const runtime::Feed& feed) {
  std::map<std::string, std::string> schema;
  for (const auto& [name, batch] : feed.fields()) {
    graph::TensorType row = batch;
    row.shape.erase(row.shape.begin());
    schema[name] = row.shape.empty() ? std::string(graph::Name(row.dtype)) : ToString(row);
  }
  return schema;
}

v1::FeedResponse ToWire(const std::string& job, const runtime::Feed& feed,
                        const runtime::Feed::Position& position) {
  v1::FeedResponse response;
  response.set_job(job);
  response.set_next_batch(position.next);
  response.set_credits(position.credits);
  response.set_step(position.steps);
  response.set_total_steps(position.wanted);
  response.set_batch_rows(feed.rows());
  if (position.ended) response.set_state(StateToWire(*position.ended));
  return response;
}

}  // namespace ebb::daemon
