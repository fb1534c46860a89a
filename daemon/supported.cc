#include "daemon/supported.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "proto/names.h"

namespace ebb::daemon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr absl::string_view kSupported[] = {"name",
                                            "model.onnx",
                                            "model.external_data",
                                            "model.graph",
                                            "model.zoo",
                                            "model.weights",
                                            "model.reinit.match",
                                            "model.reinit.init",
                                            "model.overrides.dropout",
                                            "model.overrides.untie_uniform",
                                            "model.overrides.keep_tied",
                                            "model.bn.mode",
                                            "model.bn.freeze_stats",
                                            "data.train.file",
                                            "data.train.images",
                                            "data.train.tokens",
                                            "data.train.window",
                                            "data.train.range",
                                            "data.train.token_type",
                                            "data.train.sparse.match",
                                            "data.train.sparse.pad_to",
                                            "data.train.sparse.pad_value",
                                            "data.train.sparse.truncate",
                                            "data.train.feed",
                                            "data.train.schema",
                                            "data.train.feed_timeout.seconds",
                                            "data.train.feed_timeout.nanos",
                                            "data.train.index",
                                            "data.train.label_column",
                                            "data.train.drop_last",
                                            "data.val.file",
                                            "data.val.images",
                                            "data.val.tokens",
                                            "data.val.window",
                                            "data.val.range",
                                            "data.val.token_type",
                                            "data.val.sparse.match",
                                            "data.val.sparse.pad_to",
                                            "data.val.sparse.pad_value",
                                            "data.val.sparse.truncate",
                                            "data.val.batches",
                                            "data.val.index",
                                            "data.val.label_column",
                                            "data.val.drop_last",
                                            "data.augment.train.resize",
                                            "data.augment.train.random_resized_crop",
                                            "data.augment.train.center_crop",
                                            "data.augment.train.random_crop",
                                            "data.augment.train.hflip.p",
                                            "data.augment.train.normalize.mean",
                                            "data.augment.train.normalize.std",
                                            "data.augment.val.resize",
                                            "data.augment.val.random_resized_crop",
                                            "data.augment.val.center_crop",
                                            "data.augment.val.random_crop",
                                            "data.augment.val.hflip.p",
                                            "data.augment.val.normalize.mean",
                                            "data.augment.val.normalize.std",
                                            "data.augment.field",
                                            "bind",
                                            "predict.outputs",
                                            "batch_size.fixed",
                                            "batch_size.auto",
                                            "accumulate",
                                            "loss.cross_entropy.label_smoothing",
                                            "loss.cross_entropy.ignore_index",
                                            "loss.cross_entropy.class_weights",
                                            "loss.nll.ignore_index",
                                            "loss.nll.class_weights",
                                            "loss.mse",
                                            "loss.l1",
                                            "loss.smooth_l1.beta",
                                            "loss.huber.delta",
                                            "loss.bce_with_logits.pos_weight",
                                            "loss.output",
                                            "loss.prediction",
                                            "loss.target",
                                            "optimizer.sgd.lr",
                                            "optimizer.sgd.momentum",
                                            "optimizer.sgd.dampening",
                                            "optimizer.sgd.nesterov",
                                            "optimizer.sgd.weight_decay",
                                            "optimizer.adam.lr",
                                            "optimizer.adam.betas",
                                            "optimizer.adam.eps",
                                            "optimizer.adam.weight_decay",
                                            "optimizer.adamw.lr",
                                            "optimizer.adamw.betas",
                                            "optimizer.adamw.eps",
                                            "optimizer.adamw.weight_decay",
                                            "optimizer.adagrad.lr",
                                            "optimizer.adagrad.lr_decay",
                                            "optimizer.adagrad.eps",
                                            "optimizer.adagrad.weight_decay",
                                            "optimizer.rmsprop.lr",
                                            "optimizer.rmsprop.alpha",
                                            "optimizer.rmsprop.eps",
                                            "optimizer.rmsprop.momentum",
                                            "optimizer.rmsprop.centered",
                                            "optimizer.rmsprop.weight_decay",
                                            "optimizer.rowwise_adagrad.lr",
                                            "optimizer.rowwise_adagrad.eps",
                                            "optimizer.rowwise_adagrad.sparse",
                                            "optimizer.rowwise_adagrad.weight_decay",
                                            "optimizer.groups.match",
                                            "optimizer.groups.lr_scale",
                                            "optimizer.groups.weight_decay",
                                            "optimizer.groups.frozen",
                                            "optimizer.clip_norm",
                                            "optimizer.clip_value",
                                            "schedule.constant",
                                            "schedule.step.every",
                                            "schedule.step.gamma",
                                            "schedule.cosine.min_lr",
                                            "schedule.one_cycle.pct_start",
                                            "schedule.one_cycle.div_factor",
                                            "schedule.one_cycle.final_div_factor",
                                            "schedule.plateau.metric",
                                            "schedule.plateau.mode",
                                            "schedule.plateau.factor",
                                            "schedule.plateau.patience",
                                            "schedule.plateau.threshold",
                                            "schedule.plateau.cooldown",
                                            "schedule.plateau.min_lr",
                                            "schedule.points.point.step",
                                            "schedule.points.point.lr",
                                            "schedule.warmup_steps",
                                            "schedule.interpolate",
                                            "metrics.kind",
                                            "metrics.k",
                                            "metrics.output",
                                            "evaluate.every.steps",
                                            "evaluate.every.epochs",
                                            "evaluate.weights",
                                            "stop.steps",
                                            "stop.epochs",
                                            "stop.samples",
                                            "stop.device_time.seconds",
                                            "stop.device_time.nanos",
                                            "stop.early.metric",
                                            "stop.early.mode",
                                            "stop.early.patience",
                                            "stop.early.min_delta",
                                            "ema.decay",
                                            "checkpoint.keep",
                                            "seed.init",
                                            "seed.data",
                                            "seed.dropout",
                                            "precision",
                                            "determinism",
                                            "on_nan",
                                            "resources.priority",
                                            "resources.weight",
                                            "resources.memory_max",
                                            "resources.max_in_flight",
                                            "resources.ladder.prefetch",
                                            "resources.ladder.offload",
                                            "resources.ladder.stream",
                                            "resources.ladder.swap",
                                            "resources.ladder.recompute",
                                            "resources.ladder.micro_batches",
                                            "labels"};

// Messages whose fields are judged as those of another of the same kind.
struct JudgedAs {
  absl::string_view path, as;
};
constexpr JudgedAs kJudgedAs[] = {{"optimizer.groups.use", "optimizer"},
                                  {"predict.data", "data.val"},
                                  {"predict.augment", "data.augment"}};

std::string TablePath(const std::string& path) {
  for (const JudgedAs& row : kJudgedAs) {
    if (row.path == path) return std::string(row.as);
  }
  return path;
}

// Enum fields of which only some values are supported; unspecified always is.
struct SupportedValues {
  absl::string_view path;
  std::vector<absl::string_view> names;
};
const SupportedValues kSupportedValues[] = {
    {"model.bn.mode", {"train", "frozen", "exported"}},
    {"schedule.interpolate", {"hold", "linear", "cosine"}},
    {"metrics.kind",
     {"loss", "accuracy", "top_k", "mse", "macro_f1", "perplexity", "auc", "logloss", "output"}},
    {"evaluate.weights", {"last", "ema"}},
    {"checkpoint.keep", {"last", "best"}},
    {"precision", {"fp32", "tf32", "bf16"}},
    {"determinism", {"strict"}},
    {"on_nan", {"fail"}},
};

// What to do instead, where "remove it" is not enough.
const absl::flat_hash_map<absl::string_view, absl::string_view>& Advice() {
  static const auto* const advice = new absl::flat_hash_map<absl::string_view, absl::string_view>{
      {"data.train.batches", "an epoch reads all that range and index leave"},
      {"data.val.feed", "only training is fed; store the validation data as a file"},
      {"data.val.batch_size", "evaluation uses the job's batch_size"},
  };
  return *advice;
}

absl::Status Refuse(absl::string_view what, absl::string_view path) {
  const auto it = Advice().find(path);
  return absl::UnimplementedError(
      absl::StrCat(what, " is not supported by this version; ",
                   it == Advice().end() ? absl::string_view("remove it") : it->second));
}

struct Tables {
  absl::flat_hash_set<std::string> fields;    // supported, as they are
  absl::flat_hash_set<std::string> prefixes;  // messages with supported fields
};
const Tables& SupportedTables() {
  static const Tables* const tables = [] {
    auto* t = new Tables;
    for (absl::string_view path : kSupported) {
      t->fields.emplace(path);
      for (size_t dot = path.find('.'); dot != absl::string_view::npos;
           dot = path.find('.', dot + 1)) {
        t->prefixes.emplace(path.substr(0, dot));
      }
    }
    return t;
  }();
  return *tables;
}

absl::Status CheckEnum(const std::string& path, const std::string& shown,
                       const google::protobuf::EnumDescriptor& type, int number) {
  if (number == 0) return absl::OkStatus();
  const std::string name = proto::ShortName(type, number);
  for (const SupportedValues& row : kSupportedValues) {
    if (row.path != path) continue;
    std::string choices;
    for (absl::string_view choice : row.names) {
      if (choice == name) return absl::OkStatus();
      absl::StrAppend(&choices, choices.empty() ? "" : ", ", choice);
    }
    return absl::UnimplementedError(
        absl::StrCat(shown, ": ", name, " is not supported by this version; it can be: ", choices));
  }
  return absl::OkStatus();
}

absl::Status CheckFieldNumbers(const Message& message, absl::string_view shown) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(shown, " has field number ", unknown.field(0).number(),
                   ", which this version does not know; the client is newer than the daemon"));
}

// `path` is without indices, for the tables; `shown` is with them, for people.
absl::Status Walk(const Message& message, const std::string& path, const std::string& shown) {
  const Reflection& reflection = *message.GetReflection();
  EBB_RETURN_IF_ERROR(CheckFieldNumbers(message, shown.empty() ? "the job spec" : shown));
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string dot = path.empty() ? "" : ".";
    const std::string name = TablePath(absl::StrCat(path, dot, field->name()));
    const std::string label = absl::StrCat(shown, dot, field->name());
    const bool has_parts = SupportedTables().prefixes.contains(name);
    if (!has_parts && !SupportedTables().fields.contains(name)) return Refuse(label, name);
    if (field->is_map()) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string item = field->is_repeated() ? absl::StrCat(label, "[", i, "]") : label;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Message& child = field->is_repeated()
                                   ? reflection.GetRepeatedMessage(message, field, i)
                                   : reflection.GetMessage(message, field);
        EBB_RETURN_IF_ERROR(Walk(child, name, item));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        const int number = field->is_repeated() ? reflection.GetRepeatedEnumValue(message, field, i)
                                                : reflection.GetEnumValue(message, field);
        EBB_RETURN_IF_ERROR(CheckEnum(name, item, *field->enum_type(), number));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKnown(const Message& request) {
  if (request.GetDescriptor() == v1::JobSpec::descriptor()) return absl::OkStatus();
  EBB_RETURN_IF_ERROR(CheckFieldNumbers(request, request.GetDescriptor()->name()));
  const Reflection& reflection = *request.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(request, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;  // labels: texts
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      EBB_RETURN_IF_ERROR(CheckKnown(reflection.GetMessage(request, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const int number = reflection.GetEnumValue(request, field);
      if (field->enum_type()->FindValueByNumber(number) != nullptr) continue;
      return absl::UnimplementedError(
          absl::StrCat(field->name(), " is ", number,
                       ", which this version does not know; the client is newer than the daemon"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSupported(const v1::JobSpec& spec) {
  EBB_RETURN_IF_ERROR(Walk(spec, "", ""));
  if (spec.data().train().has_drop_last() && !spec.data().train().drop_last()) {
    return absl::UnimplementedError(
        "data.train.drop_last: false is not supported by this version; leave it out: an incomplete "
        "last batch is dropped");
  }
  for (const auto& [field, data] : {std::pair("data.val", &spec.data().val()),
                                    std::pair("predict.data", &spec.predict().data())}) {
    if (!data->drop_last()) continue;
    return absl::UnimplementedError(
        absl::StrCat(field,
                     ".drop_last: true is not supported by this version; leave it out: evaluation "
                     "and prediction count every row"));
  }
  if (spec.predict().augment().train_size() > 0) {
    return Refuse("predict.augment.train", "predict.augment.train");
  }
  return absl::OkStatus();
}

}  // namespace ebb::daemon
