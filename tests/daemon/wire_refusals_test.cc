// What a job file may not say, and by what name it is refused.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <set>

#include "daemon/supported.h"
#include "tests/daemon/wire_fixture.h"

namespace ebb::daemon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(WireTest, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"precision=fp16", "precision: fp16"},
      {"loss_scale.dynamic={}", "loss_scale"},
      {"data.val.feed=client", "data.val.feed"},
      {"data.train.batch_size=4", "data.train.batch_size"},
      {"data.val={file: x, schema: {a: f32}}", "data.val.schema"},
      {"data.train={feed: client, schema: {a: ragged_i64}}", "data.train.schema.a: 'ragged_i64': "},
      {"data.val={file: x, batch_size: 4}", "data.val.batch_size"},
      {"data.train.batches=4", "data.train.batches"},
      {"data.train.drop_last=false", "data.train.drop_last: false"},
      {"data.val={file: x, drop_last: true}", "data.val.drop_last: true"},
      {"checkpoint.every=1 epoch", "checkpoint.every"},
      {"determinism=fast", "determinism: fast"},
      {"on_nan=skip_step", "on_nan: skip_step"},
      {"on_nan=rollback", "on_nan: rollback"},
  };
  for (const auto& [assignment, name] : refused) {
    const std::string message = ErrorOf(absl::StatusCode::kUnimplemented, {assignment});
    EXPECT_THAT(message, StartsWith(name)) << assignment;
    EXPECT_THAT(message, HasSubstr("not supported by this version; ")) << assignment;
  }
}

// Sets one leaf after another of the whole message tree: each must be acted on or refused by its
// path. A field that is added to the schema and forgotten here fails.
void VisitLeaves(Message* root, Message* message, const std::string& path, int depth,
                 const std::function<void(const std::string&)>& visit) {
  const auto* reflection = message->GetReflection();
  const auto* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const std::string name = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
      Message* child = field->is_repeated() ? reflection->AddMessage(message, field)
                                            : reflection->MutableMessage(message, field);
      if (child->GetDescriptor()->field_count() == 0) visit(name);
      ASSERT_LT(depth, 10);
      VisitLeaves(root, child, name, depth + 1, visit);
      reflection->ClearField(message, field);
      continue;
    }
    if (field->is_map()) {
      Message* entry = reflection->AddMessage(message, field);
      entry->GetReflection()->SetString(entry, field->message_type()->map_key(), "k");
    } else {
      const bool repeated = field->is_repeated();
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_STRING:
          repeated ? reflection->AddString(message, field, "x")
                   : reflection->SetString(message, field, "x");
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          repeated ? reflection->AddDouble(message, field, 1)
                   : reflection->SetDouble(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_INT64:
          reflection->SetInt64(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_INT32:
          reflection->SetInt32(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          reflection->SetUInt64(message, field, 1);
          break;
        case FieldDescriptor::CPPTYPE_BOOL:
          reflection->SetBool(message, field, true);
          break;
        case FieldDescriptor::CPPTYPE_ENUM:
          repeated ? reflection->AddEnumValue(message, field, 1)
                   : reflection->SetEnumValue(message, field, 1);
          break;
        default:
          FAIL() << name;
      }
    }
    visit(name);
    reflection->ClearField(message, field);
  }
}

TEST(Supported, EveryLeafOfTheSchemaIsActedOnOrRefusedByItsName) {
  v1::JobSpec spec;
  std::set<std::string> refused;
  int leaves = 0;
  VisitLeaves(&spec, &spec, "", 0, [&](const std::string& path) {
    ++leaves;
    const absl::Status status = CheckSupported(spec);
    if (status.ok()) return;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    // The message names the field or a message around it.
    std::string named(status.message().substr(0, status.message().find_first_of(" :")));
    while (absl::StrContains(named, "[0]")) named.erase(named.find("[0]"), 3);
    EXPECT_TRUE(path == named || absl::StartsWith(path, named + ".")) << path << ": " << status;
    refused.insert(named);
  });
  EXPECT_GT(leaves, 100);
  EXPECT_THAT(
      refused,
      testing::UnorderedElementsAre(
          "data.train.batch_size", "data.train.batches", "data.val.feed_timeout", "data.val.feed",
          "data.val.batch_size", "data.val.schema", "data.val.drop_last", "checkpoint.every",
          "loss_scale", "predict.data.feed", "predict.data.batch_size", "predict.data.drop_last",
          "predict.data.schema", "predict.data.feed_timeout", "predict.augment.train"));
}

TEST(Supported, AFieldOfANewerSchemaIsRefused) {
  v1::JobSpec spec;
  auto* model = spec.mutable_model();
  model->GetReflection()->MutableUnknownFields(model)->AddVarint(999, 1);
  EXPECT_EQ(CheckSupported(spec).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(CheckSupported(spec).message()), HasSubstr("model has field number 999"));
  v1::JobSpec enums;
  enums.set_precision(static_cast<v1::Precision>(77));
  EXPECT_THAT(std::string(CheckSupported(enums).message()), StartsWith("precision: 77"));
}

TEST_F(WireTest, ValuesOutOfRangeAreNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"batch_size=0", "batch_size is 0"},
      {"batch_size=-3", "batch_size"},
      {"accumulate=-1", "accumulate"},
      {"accumulate=5000", "accumulate is 5000"},
      {"optimizer.sgd.lr=-1", "lr"},
      {"optimizer.sgd.momentum=-0.1", "optimizer.sgd.momentum"},
      {"optimizer.sgd.nesterov=true", "nesterov"},
      {"optimizer={sgd: {momentum: 0.9}}", "optimizer.sgd.lr is missing"},
      {"optimizer={adam: {betas: [0.9]}}", "betas"},
      {"optimizer={adam: {betas: [0.9, 1.0]}}", "betas[1]"},
      {"optimizer.groups=[{lr_scale: 2}]", "optimizer.groups[0] needs match"},
      {"optimizer.groups=[{match: a, use: {sgd: {momentum: -1}}}]",
       "optimizer.groups[0].use.sgd.momentum"},
      {"optimizer.groups=[{match: a, use: adam, frozen: true}]", "frozen, so that it has no use"},
      {"optimizer={sgd: {lr: 0}, groups: [{match: a, use: {adam: {lr: 1}}}]}", "but that is 0"},
      {"optimizer={rmsprop: {alpha: 2}}", "optimizer.rmsprop.alpha"},
      {"optimizer={adagrad: {eps: -1}}", "optimizer.adagrad.eps"},
      {"loss={cross_entropy: {class_weights: [1, -1]}}", "class_weights[1]"},
      {"loss={smooth_l1: {beta: 0}}", "loss.smooth_l1.beta must be above 0"},
      {"loss={huber: {delta: -1}}", "loss.huber.delta"},
      {"metrics=[{kind: output}]", "metrics[0].output is empty; name an output"},
      {"metrics=[{kind: loss, output: a}]", "metrics[0].output goes with"},
      {"ema.decay=1", "ema.decay is 1; give a number above 0 and below 1"},
      {"ema={}", "ema.decay is 0"},
      {"optimizer.sgd.lr=1e39", "lr"},
      {"ema.decay=-0.5", "ema.decay"},
      {"checkpoint.keep=[last, last]", "checkpoint.keep names a state twice"},
      {"stop={device_time: 2h}", "stop.device_time goes with steps, epochs or samples"},
      {"stop={steps: 5, device_time: 0}", "stop.device_time in seconds"},
      {"optimizer.clip_norm=0", "optimizer.clip_norm must be above 0"},
      {"optimizer.clip_value=-1", "optimizer.clip_value"},
      {"optimizer={sgd: {lr: 1}, clip_norm: 1, clip_value: 1}", "exclude each other"},
      {"loss.cross_entropy.label_smoothing=1.5", "label_smoothing"},
      {"loss={output: x, target: y}", "loss.output"},
      {"schedule={step: {gamma: 0.1}}", "schedule.step.every"},
      {"schedule={one_cycle: {pct_start: 2}}", "pct_start"},
      {"schedule={points: []}", "schedule.points"},
      {"schedule={points: [[5, 1], [5, 2]]}", "schedule.points[1].step"},
      {"schedule={cosine: {}, interpolate: hold}", "schedule.interpolate"},
      {"schedule.warmup_steps=-1", "warmup_steps"},
      {"metrics=[{kind: top_k}]", "metrics[0].k"},
      {"metrics=[{k: 3}]", "metrics[0]"},
      {"stop.steps=0", "stop.steps"},
      {"stop.epochs=-1", "stop.epochs"},
      {"evaluate.every=1 epoch", "evaluate needs data.val"},
      {"resources.weight=0", "resources.weight"},
      {"resources.memory_max=-1", "resources.memory_max"},
      {"resources.max_in_flight=65", "resources: max_in_flight is 65; it must be within [1, 64]"},
      {"resources.ladder.micro_batches=-1", "resources.ladder.micro_batches is -1; it must be"},
      {"resources.max_in_flight=-1", "resources: max_in_flight is -1"},
      {"model.overrides.dropout=1", "model.overrides.dropout"},
      {"model.reinit=[{match: a}]", "model.reinit[0]"},
      {"data.train.label_column=-2", "data.train.label_column"},
      {"data.train.label_column=9", "data.train.file"},
      {"data.train.index=" + root_.path() + "/far.txt",
       "data.train.index[1] is 4; the data set has 4 rows"},
      {"data.train.file=relative.csv", "data.train.file"},
      {"name=\"a\\tb\"", "name contains a control character: 'a\\tb'"},
      {"name=\"a\\u0085\"", "name contains a control character: 'a\\u0085'"},
      {"name=\"\\u202egnp.exe\"", "name contains a control character: '\\u202egnp.exe'"},
      {"labels={a: \"\\e[31m\"}", "labels.a contains a control character: '\\x1b[31m'"},
      {"name=" + std::string(129, 'x'), "name has 129 bytes"},
      {"bind={x: ''}", "bind"},
      {"bind={x: 'a[1]'}", "bind.x: \"a[1]\" is not a slice of a field"},
      {"data.train.window=4", "data.train.window is for tokens, but this source is a file"},
      {"data.train.range=[0, 1]", "data.train.range is for tokens"},
      {"data.train.token_type=u16", "data.train.token_type is for tokens"},
      {"data.val={file: x, batches: 0}", "data.val.batches is 0"},
      {"data.train.schema={a: f32}", "data.train.schema is for a feed"},
      {"data.train={feed: client, index: a}",
       "data.train.index is for files, but this source is a feed"},
      {"data.train={feed: client, schema: {a: 'f32[0]'}}",
       "data.train.schema.a: 'f32[0]' is no type"},
      {"data.train={feed: client, schema: {a: 'f32['}}", "'f32[' is no type; give f32, f64"},
      {"data.train={feed: client, schema: {a: 'f32[65536,65536]'}}", "more than 2^30 elements"},
      {"data.train={feed: client, schema: {a: int}}", "'int' is no type"},
      {"data.train={feed: client, schema: {'a*': f32}}", "name each field"},
      {"data.train={feed: client, feed_timeout: 0s}", "data.train.feed_timeout is 0"},
      {"data.train={}", "data.train needs file, images, tokens or feed"},
  };
  // What is to be done, or what would be accepted.
  const auto says_what_to_do = testing::ContainsRegex(
      "give |remove |write |; name|must |number them|name each|counted from");
  for (const auto& [assignment, part] : bad) {
    const std::string error = ErrorOf(absl::StatusCode::kInvalidArgument, {assignment});
    EXPECT_THAT(error, AllOf(HasSubstr(part), says_what_to_do)) << assignment;
  }
  for (const char* field : {"model", "batch_size", "loss", "optimizer", "stop"}) {
    v1::JobSpec spec = Base();
    spec.GetReflection()->ClearField(&spec, spec.GetDescriptor()->FindFieldByName(field));
    const auto job = Convert(spec);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(field));
  }
  // Whether data may be missing depends on the device: the engine judges.
  v1::JobSpec bare = Base();
  bare.clear_data();
  const auto job = Convert(bare);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->train.data, nullptr);
  EXPECT_EQ(Convert(With({"model.onnx=sha256:0123456789"})).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Convert(With({"model.onnx=/etc/passwd"})).status().code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace ebb::daemon
