// Data and what feeds the model's inputs: wire -> native.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "daemon/wire.h"
#include "daemon/wire_augment.h"
#include "daemon/wire_check.h"
#include "daemon/wire_feed.h"
#include "data/image_rows.h"
#include "data/slice.h"
#include "data/sparse.h"

namespace ebb::daemon {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

// How the bytes of a source become rows, and how many count. No file is read for it.
struct Reading {
  data::FileOptions file;
  data::TokenOptions tokens;
  int64_t batches = 0;
};

absl::Status TokensFromWire(absl::string_view field, const v1::DataSource& wire,
                            data::TokenOptions* tokens) {
  if (wire.has_label_column()) {
    return Invalid(absl::StrCat(field, ".label_column is for CSV; bind targets to a slice of ",
                                "\"tokens\", such as \"tokens[1:]\""));
  }
  if (wire.sparse_size() > 0) {
    return Invalid(
        absl::StrCat(field, ".sparse is for the features of a file; tokens have none: remove it"));
  }
  tokens->window = wire.window();
  if (wire.range_size() != 0 && wire.range_size() != 2) {
    return Invalid(absl::StrCat(field, ".range has ", wire.range_size(),
                                " numbers; give two fractions of the file, such as [0, 0.9]"));
  }
  if (wire.range_size() == 2) {
    tokens->from = wire.range(0);
    tokens->to = wire.range(1);
  }
  switch (wire.token_type()) {
    case v1::DataSource::TOKEN_TYPE_UNSPECIFIED:
      break;
    case v1::DataSource::TOKEN_TYPE_U16:
      tokens->type = data::TokenType::kU16;
      break;
    case v1::DataSource::TOKEN_TYPE_U32:
      tokens->type = data::TokenType::kU32;
      break;
    default:
      return Invalid(absl::StrCat(field, ".token_type is ", wire.token_type(),
                                  ", which this version does not know; give u16 or u32"));
  }
  return Annotate(data::CheckTokenOptions(*tokens), field);
}

absl::Status FileFromWire(absl::string_view field, const v1::DataSource& wire,
                          data::FileOptions* options) {
  const char* only_tokens = wire.window() != 0       ? "window"
                            : wire.range_size() != 0 ? "range"
                            : wire.token_type() != 0 ? "token_type"
                                                     : nullptr;
  if (only_tokens != nullptr) {
    return Invalid(absl::StrCat(field, ".", only_tokens,
                                " is for tokens, but this source is a file; remove it, or write "
                                "tokens: in the place of file:"));
  }
  if (wire.has_label_column()) {
    EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat(field, ".label_column"), wire.label_column(), -1,
                                   std::numeric_limits<int>::max()));
    options->csv.label_column = static_cast<int>(wire.label_column());
  }
  for (const v1::DataSource::Sparse& rule : wire.sparse()) {
    options->sparse.push_back({.match = rule.match(),
                               .pad_to = rule.pad_to(),
                               .pad_value = rule.pad_value(),
                               .overlong = rule.truncate() ? data::SparseRule::Overlong::kCut
                                                           : data::SparseRule::Overlong::kRefuse});
  }
  return Annotate(data::CheckSparseRules(options->sparse), field);
}

absl::Status CheckOnlyImages(absl::string_view field, const v1::DataSource& wire) {
  const char* other = wire.window() != 0        ? "window"
                      : wire.range_size() != 0  ? "range"
                      : wire.token_type() != 0  ? "token_type"
                      : wire.has_label_column() ? "label_column"
                      : wire.sparse_size() != 0 ? "sparse"
                                                : nullptr;
  if (other == nullptr) return absl::OkStatus();
  return Invalid(absl::StrCat(field, ".", other, " is not for images; remove it"));
}

absl::StatusOr<Reading> ReadingFromWire(absl::string_view field, const v1::DataSource& wire) {
  Reading reading;
  if (wire.has_batches()) {
    EBB_RETURN_IF_ERROR(CheckCount(absl::StrCat(field, ".batches"), wire.batches(), 1, 1 << 24));
    reading.batches = wire.batches();
  }
  if (wire.has_tokens()) {
    EBB_RETURN_IF_ERROR(TokensFromWire(field, wire, &reading.tokens));
  } else if (wire.has_file()) {
    EBB_RETURN_IF_ERROR(FileFromWire(field, wire, &reading.file));
  } else if (wire.has_images()) {
    EBB_RETURN_IF_ERROR(CheckOnlyImages(field, wire));
  } else if (wire.has_feed()) {
    EBB_RETURN_IF_ERROR(CheckFedOnly(field, wire));
  } else {
    return Invalid(absl::StrCat(field, " needs file, images, tokens or feed; give one"));
  }
  if (!wire.has_feed() && (wire.schema_size() > 0 || wire.has_feed_timeout())) {
    return Invalid(absl::StrCat(field, wire.schema_size() > 0 ? ".schema" : ".feed_timeout",
                                " is for a feed; remove it, or write feed: client"));
  }
  return reading;
}

absl::Status LoadRows(absl::string_view field, const std::string& reference, Resolver* resolver,
                      runtime::DataSource* source) {
  const std::string name = absl::StrCat(field, ".index");
  const auto index = resolver->Index(reference);
  if (!index.ok()) return Annotate(index.status(), name);
  source->rows = **index;
  source->index = *index;
  for (size_t i = 0; i < source->rows.size(); ++i) {
    if (source->rows[i] < 0 || source->rows[i] >= source->data->rows()) {
      return Invalid(absl::StrCat(
          name, "[", i, "] is ", source->rows[i], "; the data set has ", source->data->rows(),
          source->data->IsTokens() ? " windows" : " rows", "; number them from 0"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<runtime::DataSource> SourceFromWire(absl::string_view field,
                                                   const v1::DataSource& wire,
                                                   const Reading& reading, Resolver* resolver,
                                                   Files files) {
  runtime::DataSource source{.batches = reading.batches};
  if (wire.has_feed()) {
    EBB_ASSIGN_OR_RETURN(source.feed, FeedFromWire(field, wire));
    return source;
  }
  if (files == Files::kModel) return source;
  auto loaded = wire.has_tokens()   ? resolver->LoadTokens(wire.tokens(), reading.tokens)
                : wire.has_images() ? resolver->LoadImages(wire.images())
                                    : resolver->Load(wire.file(), reading.file);
  if (!loaded.ok()) {
    return Annotate(loaded.status(), absl::StrCat(field, wire.has_tokens()   ? ".tokens"
                                                         : wire.has_images() ? ".images"
                                                                             : ".file"));
  }
  source.data = *std::move(loaded);
  if (!wire.index().empty()) {
    EBB_RETURN_IF_ERROR(LoadRows(field, wire.index(), resolver, &source));
  }
  return source;
}

absl::Status Augment(absl::string_view field, const std::string& image,
                     const data::Transforms& transforms, runtime::DataSource* source) {
  if (source->feed && !transforms.empty()) {
    return Invalid(absl::StrCat(field,
                                " is for files; the client of a feed sends what is trained "
                                "on: remove it"));
  }
  if (source->data == nullptr) return absl::OkStatus();
  if (source->data->images() == nullptr && transforms.empty()) return absl::OkStatus();
  auto found = data::ImageFieldOf(*source->data, image, transforms);
  if (!found.ok()) return Annotate(found.status(), field);
  source->image = *std::move(found);
  return absl::OkStatus();
}

// Labels are places in a folder's classes.
absl::Status CheckClasses(const runtime::DataSource& train, const runtime::DataSource& val) {
  if (train.data == nullptr || val.data == nullptr) return absl::OkStatus();
  const data::ImageSet* a = train.data->images();
  const data::ImageSet* b = val.data->images();
  if (a == nullptr || b == nullptr || a->list().classes == b->list().classes) {
    return absl::OkStatus();
  }
  const auto in_words = [](const data::ImageSet& set) {
    const auto& classes = set.list().classes;
    const size_t shown = std::min<size_t>(classes.size(), 8);
    return absl::StrCat(classes.size(), " (",
                        absl::StrJoin(classes.begin(), classes.begin() + shown, ", "),
                        shown < classes.size() ? ", ...)" : ")");
  };
  return Invalid(absl::StrCat("data.val.images has classes ", in_words(*b),
                              ", but data.train.images has ", in_words(*a),
                              ": labels would not mean the same; give both the same "
                              "sub-directories"));
}

}  // namespace

absl::Status BindFromWire(const v1::JobSpec& spec, runtime::JobSpec* job) {
  for (const auto& [input, field] : spec.bind()) {
    if (input.empty() || field.empty())
      return Invalid("bind has an empty name; write INPUT: FIELD");
    if (const auto slice = data::ParseFieldSlice(field); !slice.ok()) {
      return Annotate(slice.status(), absl::StrCat("bind.", input));
    }
    job->bind[input] = field;
  }
  return absl::OkStatus();
}

absl::Status PredictFromWire(const v1::JobSpec& spec, Resolver* resolver, Files files,
                             runtime::JobSpec* job) {
  const char* training = spec.has_data()           ? "data"
                         : spec.accumulate() != 0  ? "accumulate"
                         : spec.has_loss()         ? "loss"
                         : spec.has_optimizer()    ? "optimizer"
                         : spec.has_schedule()     ? "schedule"
                         : spec.metrics_size() > 0 ? "metrics"
                         : spec.has_evaluate()     ? "evaluate"
                         : spec.has_stop()         ? "stop"
                         : spec.has_checkpoint()   ? "checkpoint"
                         : spec.has_ema()          ? "ema"
                         : spec.resources().ladder().micro_batches() > 1
                             ? "resources.ladder.micro_batches"
                             : nullptr;
  if (training != nullptr) {
    return Invalid(absl::StrCat("predict: a job either predicts or trains; remove ", training,
                                " and what else is for training (ebb predict does it)"));
  }
  const v1::DataSource& wire = spec.predict().data();
  EBB_ASSIGN_OR_RETURN(const Reading reading, ReadingFromWire("predict.data", wire));
  EBB_ASSIGN_OR_RETURN(job->train, SourceFromWire("predict.data", wire, reading, resolver, files));
  const v1::Augment& augment = spec.predict().augment();
  EBB_ASSIGN_OR_RETURN(const data::Transforms transforms,
                       TransformsFromWire("predict.augment.val", augment.val()));
  EBB_RETURN_IF_ERROR(Augment("predict.augment.val", augment.field(), transforms, &job->train));
  job->train.tail = data::BatchSource::Tail::kPad;
  job->predict.emplace();
  for (const std::string& output : spec.predict().outputs()) {
    if (output.empty())
      return Invalid("predict.outputs has an empty name; remove it, or name an output");
    job->predict->outputs.push_back(output);
  }
  job->stop.epochs = 1;
  job->ladder.micro_batches = 1;
  job->ladder.recompute = false;  // nothing is kept for a backward pass
  return absl::OkStatus();
}

absl::Status DataFromWire(const v1::Data& data, Resolver* resolver, Files files,
                          runtime::JobSpec* job) {
  // A device that computes needs data: the engine says so.
  Reading train, val;
  if (data.has_train()) {
    EBB_ASSIGN_OR_RETURN(train, ReadingFromWire("data.train", data.train()));
  }
  if (data.has_val()) {
    EBB_ASSIGN_OR_RETURN(val, ReadingFromWire("data.val", data.val()));
  }
  const v1::Augment& augment = data.augment();
  EBB_ASSIGN_OR_RETURN(const data::Transforms for_train,
                       TransformsFromWire("data.augment.train", augment.train()));
  EBB_ASSIGN_OR_RETURN(const data::Transforms for_val,
                       TransformsFromWire("data.augment.val", augment.val()));
  if (!data.has_val() && !for_val.empty()) {
    return Invalid("data.augment.val is for data.val, which is missing; remove it");
  }
  if (data.has_train()) {
    EBB_ASSIGN_OR_RETURN(job->train,
                         SourceFromWire("data.train", data.train(), train, resolver, files));
    EBB_RETURN_IF_ERROR(Augment("data.augment.train", augment.field(), for_train, &job->train));
  }
  if (data.has_val()) {
    EBB_ASSIGN_OR_RETURN(job->val, SourceFromWire("data.val", data.val(), val, resolver, files));
    EBB_RETURN_IF_ERROR(Augment("data.augment.val", augment.field(), for_val, &*job->val));
    EBB_RETURN_IF_ERROR(CheckClasses(job->train, *job->val));
    job->val->tail = data::BatchSource::Tail::kPad;
  }
  return absl::OkStatus();
}

}  // namespace ebb::daemon
