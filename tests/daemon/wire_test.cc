#include "daemon/wire.h"

#include "tests/daemon/wire_fixture.h"

namespace ebb::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(WireTest, TheSmallestSpecHasDefaults) {
  const runtime::JobSpec job = Native({});
  EXPECT_EQ(job.name, "base");
  ASSERT_NE(job.model.onnx, nullptr);
  EXPECT_EQ(*job.model.onnx, "the bytes of a model");
  EXPECT_EQ(job.model.import.batch_size, 2);
  EXPECT_EQ(job.model.import.batch_norm, model::BatchNormMode::kTrain);
  EXPECT_LT(job.model.import.dropout, 0);
  EXPECT_EQ(job.train.data->rows(), 4);
  EXPECT_EQ(job.train.tail, data::BatchSource::Tail::kDrop);
  EXPECT_FALSE(job.val.has_value());
  EXPECT_EQ(job.loss.kind, graph::LossKind::kCrossEntropy);
  EXPECT_EQ(job.loss.target, "label");
  EXPECT_EQ(job.loss.ignore_index, -100);
  EXPECT_EQ(job.optimizer.kind, graph::OptimizerKind::kSgd);
  EXPECT_EQ(job.schedule.kind, runtime::ScheduleKind::kConstant);
  EXPECT_EQ(job.schedule.base_lr, 0.1);
  EXPECT_EQ(job.stop.steps, 10);
  EXPECT_FALSE(job.stop.epochs.has_value());
  EXPECT_EQ(job.weight, 1);
  EXPECT_EQ(job.memory_max, Bytes(0));
}

TEST_F(WireTest, AFeedReachesTheNativeSpec) {
  const runtime::JobSpec job = Native(
      {"data={train: {feed: client, schema: {x: 'f32[3,8]', label: i64}, feed_timeout: 90s}, "
       "val: {file: " +
       root_.path() + "/val.csv}}"});
  ASSERT_TRUE(job.train.feed.has_value());
  EXPECT_EQ(job.train.data, nullptr);
  EXPECT_EQ(ToString(job.train.feed->schema.at("x")), "f32[3,8]");
  EXPECT_EQ(job.train.feed->schema.at("label"), (graph::TensorType{graph::DType::kI64, {}}));
  EXPECT_EQ(job.train.feed->timeout, absl::Seconds(90));
  ASSERT_TRUE(job.val.has_value());
  EXPECT_EQ(job.val->data->rows(), 2);
  const runtime::JobSpec patient = Native({"data={train: {feed: client, schema: {x: f32}}}"});
  EXPECT_EQ(patient.train.feed->timeout, absl::InfiniteDuration());
  EXPECT_THAT(
      ErrorOf(absl::StatusCode::kInvalidArgument,
              {"data={train: {feed: client, schema: {x: f32}}, augment: {train: [hflip]}}"}),
      HasSubstr("data.augment.train is for files"));
}

TEST_F(WireTest, ImagesAndWhatIsDoneToThemReachTheNativeSpec) {
  const std::string png = TempDir::Read(EBB_SOURCE_DIR "/tests/data/fixtures/images/rgb.png");
  root_.Write("set/b/1.png", png);
  root_.Write("set/a/2.png", png);
  const std::string images = "data={train: {images: " + root_.path() +
                             "/set}, val: {images: " + root_.path() +
                             "/set, index: " + root_.path() + "/one.txt}}";
  root_.Write("one.txt", "1\n");
  const runtime::JobSpec job = Native(
      {images, "data.augment.train=[{random_resized_crop: 8}, {hflip: {p: 0.25}}, normalize]",
       "data.augment.val=[{resize: 9}, {center_crop: 8}, {random_crop: 2}, "
       "{normalize: {mean: [0.5], std: [0.25]}}]"});
  ASSERT_TRUE(job.train.image.has_value());
  EXPECT_EQ(job.train.image->field, "image");
  const data::Transforms& train = job.train.image->transforms;
  ASSERT_EQ(train.size(), 3u);
  EXPECT_EQ(train[0].kind, data::Transform::Kind::kRandomResizedCrop);
  EXPECT_EQ(train[0].size, 8);
  EXPECT_EQ(train[1].kind, data::Transform::Kind::kHFlip);
  EXPECT_EQ(train[1].p, 0.25);
  EXPECT_THAT(train[2].mean, ElementsAre(0.485, 0.456, 0.406));
  EXPECT_THAT(train[2].std, ElementsAre(0.229, 0.224, 0.225));
  const data::Transforms& val = job.val->image->transforms;
  ASSERT_EQ(val.size(), 4u);
  EXPECT_EQ(val[0].kind, data::Transform::Kind::kResize);
  EXPECT_EQ(val[1].kind, data::Transform::Kind::kCenterCrop);
  EXPECT_EQ(val[2].kind, data::Transform::Kind::kRandomCrop);
  EXPECT_EQ(val[2].size, 2);
  EXPECT_THAT(val[3].std, ElementsAre(0.25));
  EXPECT_EQ(job.val->data->images()->path(1), "b/1.png");
  EXPECT_THAT(job.val->rows, ElementsAre(1));

  const auto invalid = absl::StatusCode::kInvalidArgument;
  root_.Write("less/b/1.png", png);
  EXPECT_THAT(ErrorOf(invalid, {images, "data.val={images: " + root_.path() + "/less}"}),
              HasSubstr("data.val.images has classes 1 (b), but data.train.images has 2 (a, b)"));
  EXPECT_THAT(ErrorOf(invalid, {"data.augment.val=[hflip]"}), HasSubstr("data.augment.val is for"));
  EXPECT_THAT(ErrorOf(invalid, {"data.augment.train=[hflip]"}),
              HasSubstr("data.augment.train: which field holds the images?"));
  EXPECT_THAT(ErrorOf(invalid, {"data.train.sparse=[{match: a, pad_to: 0}]"}),
              HasSubstr("data.train: sparse[0].pad_to is 0"));
}

TEST_F(WireTest, EveryPartReachesTheNativeSpec) {
  const runtime::JobSpec job =
      Native({"model.reinit={'fc.*': zeros, 'conv*': default}",
              "model.overrides={dropout: 0.25, untie_uniform: true}",
              "model.bn.mode=frozen",
              "bind={image: x, label: y}",
              "data.train.index=" + root_.path() + "/rows.txt",
              "data.val={file: " + root_.path() + "/val.csv, label_column: 0}",
              "loss={cross_entropy: {label_smoothing: 0.1, ignore_index: 7}, prediction: logits, "
              "target: y}",
              "optimizer={adamw: {lr: 0.02, betas: [0.8, 0.9], eps: 1e-6}}",
              "optimizer.groups=[{match: '*.bias', weight_decay: 0}, {match: fc.*, lr_scale: 10}, "
              "{match: c*, frozen: true}]",
              "schedule={one_cycle: {pct_start: 0.1, div_factor: 5}, warmup_steps: 3}",
              "metrics=[loss, accuracy, top5, mse]",
              "evaluate.every=3 steps",
              "stop={epochs: 2.5, samples: 1e3}",
              "seed={init: 1, data: 2, dropout: 18446744073709551615}",
              "resources={priority: high, weight: 2, memory_max: 1MiB, max_in_flight: 3, "
              "ladder: {swap: false}}",
              "labels={a: b}",
              "precision=fp32",
              "determinism=strict",
              "on_nan=fail",
              "checkpoint.keep=last",
              "data.train.drop_last=true"});
  ASSERT_EQ(job.model.reinit.size(), 2u);
  EXPECT_EQ(job.model.reinit[0].pattern, "fc.*");
  EXPECT_EQ(job.model.reinit[1].scheme, "default");
  EXPECT_EQ(job.model.import.dropout, 0.25);
  EXPECT_TRUE(job.model.import.untie_uniform);
  EXPECT_EQ(job.model.import.batch_norm, model::BatchNormMode::kFrozen);
  EXPECT_EQ(job.bind.at("image"), "x");
  EXPECT_THAT(job.train.rows, ElementsAre(3, 0, 1));
  ASSERT_TRUE(job.val.has_value());
  EXPECT_EQ(job.val->tail, data::BatchSource::Tail::kPad);
  EXPECT_THAT(job.val->data->fields().at("label").as<int64_t>(), ElementsAre(0, 1));
  EXPECT_EQ(job.loss.label_smoothing, 0.1);
  EXPECT_EQ(job.loss.ignore_index, 7);
  EXPECT_EQ(job.loss.output, "logits");
  EXPECT_EQ(job.loss.target, "y");
  EXPECT_EQ(job.optimizer.kind, graph::OptimizerKind::kAdamW);
  EXPECT_EQ(job.optimizer.weight_decay, 0.01);
  EXPECT_EQ(job.optimizer.beta1, 0.8);
  EXPECT_EQ(job.optimizer.epsilon, 1e-6);
  ASSERT_EQ(job.groups.size(), 3u);
  EXPECT_EQ(job.groups[0].optimizer.weight_decay, 0);
  EXPECT_EQ(job.groups[0].optimizer.beta1, 0.8) << "a group inherits the optimizer";
  EXPECT_EQ(job.groups[1].optimizer.lr_scale, 10);
  EXPECT_EQ(job.groups[1].optimizer.weight_decay, 0.01);
  EXPECT_TRUE(job.groups[2].optimizer.frozen);
  EXPECT_EQ(job.schedule.kind, runtime::ScheduleKind::kOneCycle);
  EXPECT_EQ(job.schedule.base_lr, 0.02);
  EXPECT_EQ(job.schedule.pct_start, 0.1);
  EXPECT_EQ(job.schedule.div_factor, 5);
  EXPECT_EQ(job.schedule.final_div_factor, 1e4);
  EXPECT_EQ(job.schedule.warmup_steps, 3);
  ASSERT_EQ(job.metrics.size(), 4u);
  EXPECT_EQ(job.metrics[2].kind, graph::MetricKind::kTopK);
  EXPECT_EQ(job.metrics[2].k, 5);
  EXPECT_EQ(job.evaluate.every_steps, 3);
  EXPECT_EQ(job.stop.epochs, 2.5);
  EXPECT_EQ(job.stop.samples, 1000);
  EXPECT_FALSE(job.stop.steps.has_value());
  EXPECT_EQ(job.seed_init, 1u);
  EXPECT_EQ(job.seed_dropout, ~uint64_t{0});
  EXPECT_EQ(job.priority, 10);
  EXPECT_EQ(job.max_in_flight, 3);
  EXPECT_EQ(job.weight, 2);
  EXPECT_EQ(job.memory_max, MiB(1));
  EXPECT_TRUE(job.ladder.offload && job.ladder.stream);
  EXPECT_FALSE(job.ladder.swap);
  EXPECT_EQ(job.ladder.micro_batches, 0);
  EXPECT_EQ(Native({"resources={ladder: {micro_batches: 4}}"}).ladder.micro_batches, 4);
  EXPECT_EQ(job.labels.at("a"), "b");
}

TEST_F(WireTest, OptimizersLossesAndSchedulesOfEachKind) {
  const auto adam =
      Native({"optimizer={adam: {weight_decay: 0.1}}", "schedule={step: {every: 5, gamma: 0.5}}"});
  EXPECT_EQ(adam.optimizer.kind, graph::OptimizerKind::kAdam);
  EXPECT_EQ(adam.optimizer.weight_decay, 0.1);
  EXPECT_EQ(adam.schedule.base_lr, 1e-3);
  EXPECT_EQ(adam.schedule.kind, runtime::ScheduleKind::kStep);
  EXPECT_EQ(adam.schedule.step_size, 5);
  EXPECT_EQ(adam.schedule.gamma, 0.5);
  const auto sgd = Native({"optimizer={sgd: {lr: 1, momentum: 0.9, nesterov: true}}", "loss=mse",
                           "schedule={cosine: {min_lr: 0.01}}"});
  EXPECT_TRUE(sgd.optimizer.nesterov);
  EXPECT_EQ(sgd.loss.kind, graph::LossKind::kMse);
  EXPECT_EQ(sgd.schedule.kind, runtime::ScheduleKind::kCosine);
  EXPECT_EQ(sgd.schedule.min_lr, 0.01);
  const auto points = Native({"optimizer=sgd", "loss=output:total",
                              "schedule={points: [[0, 0], [10, 1]], interpolate: hold}"});
  EXPECT_EQ(points.loss.kind, graph::LossKind::kGraphOutput);
  EXPECT_EQ(points.loss.output, "total");
  EXPECT_EQ(points.schedule.kind, runtime::ScheduleKind::kPoints);
  EXPECT_EQ(points.schedule.interpolation, runtime::Interpolation::kHold);
  EXPECT_THAT(points.schedule.points, ElementsAre(std::pair(0.0, 0.0), std::pair(10.0, 1.0)));
  EXPECT_EQ(Native({"optimizer.clip_norm=0.5"}).clip.norm, 0.5);
  EXPECT_EQ(Native({"optimizer.clip_value=0.25"}).clip.value, 0.25);
  EXPECT_FALSE(points.clip.norm || points.clip.value);
  EXPECT_EQ(Native({"loss=bce_with_logits"}).loss.kind, graph::LossKind::kBceWithLogits);
  EXPECT_EQ(Native({"model.bn.mode=exported"}).model.import.batch_norm,
            model::BatchNormMode::kAsExported);
}

TEST_F(WireTest, TokenFilesAreCutIntoWindows) {
  const std::string path =
      root_.Write("t.bin", std::string("\0\0\1\0\2\0\3\0\4\0\5\0\6\0\7\0", 16));
  const runtime::JobSpec job =
      Native({"data.train={tokens: " + path + ", window: 2, range: [0, 0.5]}",
              "data.val={tokens: " + path + ", window: 2, range: [0.5, 1], batches: 3}",
              "bind={x: 'tokens[:-1]', label: 'tokens[1:]'}"});
  ASSERT_NE(job.train.data, nullptr);
  EXPECT_THAT(job.train.data->fields().at("tokens").as<int32_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.val->data->fields().at("tokens").as<int32_t>(), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(job.train.batches, 0);
  EXPECT_EQ(job.val->batches, 3);
  EXPECT_EQ(job.val->tail, data::BatchSource::Tail::kPad);
  EXPECT_EQ(job.bind.at("label"), "tokens[1:]");
  const runtime::JobSpec wide =
      Native({"data.train={tokens: " + path + ", window: 4, token_type: u32}"});
  EXPECT_THAT(wide.train.data->fields().at("tokens").as<int64_t>(),
              ElementsAre(65536, 196610, 327684, 458758));
  const runtime::JobSpec again =
      Native({"data.train={tokens: " + path + ", window: 2, range: [0, 0.5]}"});
  EXPECT_EQ(again.train.data, job.train.data) << "the same windows are held once";
}

TEST_F(WireTest, MistakesInTokenDataAreNamed) {
  const std::string path = root_.Write("t.bin", std::string("\1\0\2\0\3\0", 6));
  root_.Write("t.txt", "0\n7\n");
  const std::string train = "data.train={tokens: " + path;
  const std::vector<std::pair<std::string, std::string>> bad = {
      {train + "}", "data.train: window is 0; give the tokens of one sample"},
      {train + ", window: -4}", "data.train: window is -4"},
      {train + ", window: 4}", "data.train.tokens: " + path + ": window 4 is longer than the 3"},
      {train + ", window: 2, range: [0.5]}", "data.train.range has 1 numbers"},
      {train + ", window: 2, range: [0.9, 0.1]}", "data.train: range is [0.9, 0.1]"},
      {train + ", window: 2, label_column: 0}", "data.train.label_column is for CSV"},
      {train + ", window: 1, token_type: u32}", "6 bytes, which are no whole number of u32"},
      {train + ", window: 1, index: " + root_.path() + "/t.txt}",
       "data.train.index[1] is 7; the data set has 3 windows"},
      {"data.train={tokens: " + root_.path() + "/train.csv, window: 2}", "the file is text"},
      // Before any file is read.
      {"data={train: {file: gone.csv}, val: {tokens: x, window: 0}}", "data.val: window is 0"},
  };
  for (const auto& [assignment, part] : bad) {
    EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument, {assignment}), HasSubstr(part))
        << assignment;
  }
  const auto sizes = JobSpecFromWire(With({"data.train={tokens: gone, window: 2}"}),
                                     resolver_.get(), Files::kModel);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->train.data, nullptr);
}

TEST_F(WireTest, WhatEvaluationsDecide) {
  const runtime::JobSpec job =
      Native({"data.val={file: " + root_.path() + "/val.csv}",
              "stop.early={metric: val/accuracy, mode: max, patience: 3, min_delta: 0.01}",
              "schedule={plateau: {metric: val/top5, mode: max, factor: 0.2, patience: 4, "
              "threshold: 0.05, cooldown: 6, min_lr: 0.001}}",
              "checkpoint.keep=best", "ema.decay=0.99", "evaluate.weights=ema"});
  ASSERT_TRUE(job.early.has_value());
  EXPECT_EQ(job.early->metric.name, "val/accuracy");
  EXPECT_EQ(job.early->metric.better, runtime::Better::kHigher);
  EXPECT_EQ(job.early->patience, 3);
  EXPECT_EQ(job.early->min_delta, 0.01);
  EXPECT_EQ(job.stop.steps, 10);
  EXPECT_EQ(job.schedule.kind, runtime::ScheduleKind::kPlateau);
  EXPECT_EQ(job.schedule.base_lr, 0.1);
  const runtime::PlateauSpec& plateau = job.schedule.plateau;
  EXPECT_EQ(plateau.metric.name, "val/top5");
  EXPECT_EQ(plateau.metric.better, runtime::Better::kHigher);
  EXPECT_EQ(plateau.factor, 0.2);
  EXPECT_EQ(plateau.patience, 4);
  EXPECT_EQ(plateau.threshold, 0.05);
  EXPECT_EQ(plateau.cooldown, 6);
  EXPECT_EQ(plateau.min_lr, 0.001);
  EXPECT_EQ(job.keep, runtime::Keep::kBest);
  EXPECT_EQ(job.ema_decay, 0.99);

  // Accuracies are to rise though nobody says so; what is said counts.
  const runtime::JobSpec rises = Native({"data.val={file: " + root_.path() + "/val.csv}",
                                         "stop.early={metric: val/accuracy, patience: 3}",
                                         "schedule={plateau: {metric: val/top5}}"});
  EXPECT_EQ(rises.early->metric.better, runtime::Better::kHigher);
  EXPECT_EQ(rises.schedule.plateau.metric.better, runtime::Better::kHigher);
  const runtime::JobSpec falls =
      Native({"data.val={file: " + root_.path() + "/val.csv}",
              "stop.early={metric: val/accuracy, mode: min, patience: 3}"});
  EXPECT_EQ(falls.early->metric.better, runtime::Better::kLower);

  const runtime::JobSpec plain = Native({"schedule=plateau", "checkpoint.keep=last"});
  EXPECT_EQ(plain.schedule.plateau.metric.name, "val/loss");
  EXPECT_EQ(plain.schedule.plateau.metric.better, runtime::Better::kLower);
  EXPECT_EQ(plain.schedule.plateau.factor, 0.1);
  EXPECT_EQ(plain.schedule.plateau.patience, 10);
  EXPECT_EQ(plain.schedule.plateau.threshold, 1e-4);
  EXPECT_EQ(plain.keep, runtime::Keep::kLast);
  EXPECT_FALSE(plain.early.has_value() || plain.ema_decay.has_value());
}

TEST_F(WireTest, TheBatchMayBeLeftToTheEngine) {
  const runtime::JobSpec job = Native({"batch_size=auto"});
  EXPECT_TRUE(job.batch_auto);
  EXPECT_EQ(job.batch_size, 0);
  EXPECT_FALSE(Native({}).batch_auto);
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument,
                      {"model={graph: " + root_.path() + "/model.onnx}", "batch_size=auto"}),
              HasSubstr("batch_size: auto: a serialised graph has its batch bound"));
}

TEST_F(WireTest, AnEstimateReadsTheModelAndNothingElse) {
  const auto job = JobSpecFromWire(
      With({"data={train: {file: gone.csv, index: gone.npy}, val: {file: /gone/too.csv}}",
            "model.weights=gone.safetensors"}),
      resolver_.get(), Files::kModel);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_NE(job->model.onnx, nullptr);
  EXPECT_EQ(job->train.data, nullptr);
  ASSERT_TRUE(job->val.has_value());
  EXPECT_EQ(job->model.weights, nullptr);
  for (const std::string bad :
       {"data.train.label_column=-2", "data={train: {}}", "stop.steps=0", "accumulate=-3"}) {
    const absl::Status status =
        JobSpecFromWire(With({bad}), resolver_.get(), Files::kModel).status();
    EXPECT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status, Convert(With({bad})).status());
  }
}

TEST_F(WireTest, GroupsMayHaveAnOptimizerOfTheirOwn) {
  const runtime::JobSpec job = Native(
      {"optimizer={adam: {lr: 1e-3, weight_decay: 0.1}, groups: [{match: 'emb.*', use: "
       "{rowwise_adagrad: {lr: 0.01, sparse: true}}, lr_scale: 2}, {match: b, use: rmsprop}, "
       "{match: c, use: {adagrad: {lr_decay: 0.5, eps: 1e-3}}}]}"});
  ASSERT_EQ(job.groups.size(), 3u);
  const graph::OptimizerSpec& rows = job.groups[0].optimizer;
  EXPECT_EQ(rows.kind, graph::OptimizerKind::kRowwiseAdagrad);
  EXPECT_TRUE(rows.sparse);
  EXPECT_DOUBLE_EQ(rows.lr_scale, 20);
  EXPECT_EQ(rows.weight_decay, 0) << "the group's optimizer says it";
  EXPECT_EQ(rows.epsilon, 1e-8);
  EXPECT_EQ(job.groups[1].optimizer.kind, graph::OptimizerKind::kRmsProp);
  EXPECT_EQ(job.groups[1].optimizer.lr_scale, 1) << "the job's rate";
  EXPECT_EQ(job.groups[2].optimizer.lr_decay, 0.5);
  EXPECT_EQ(job.groups[2].optimizer.epsilon, 1e-3);
  EXPECT_EQ(Native({"optimizer=adagrad"}).schedule.base_lr, 0.01);
  EXPECT_THAT(ErrorOf(absl::StatusCode::kInvalidArgument,
                      {"optimizer={sgd: {lr: 1}, groups: [{match: a, use: {adam: {lr: 1}}}]}",
                       "schedule={points: [[0, 1]]}"}),
              HasSubstr("give the group an lr_scale instead"));
}

TEST_F(WireTest, WhatIsKeptAndWhenAJobEnds) {
  using runtime::Keep;
  EXPECT_EQ(Native({}).keep, Keep::kLast);
  EXPECT_EQ(Native({"checkpoint.keep=last"}).keep, Keep::kLast);
  EXPECT_EQ(Native({"checkpoint.keep=best"}).keep, Keep::kBest);
  EXPECT_EQ(Native({"checkpoint.keep=[last, best]"}).keep, Keep::kBestAndLast);
  EXPECT_EQ(Native({"stop={steps: 9, device_time: 1h30m}"}).stop.device_time,
            Micros(int64_t{5400} * 1'000'000));
  EXPECT_EQ(Native({"model.bn.freeze_stats=['layer1.*', bn]"}).model.freeze_stats,
            (std::vector<std::string>{"layer1.*", "bn"}));
}

TEST_F(WireTest, LossesAndMetricsHaveTheirOptions) {
  EXPECT_EQ(Native({"loss={cross_entropy: {class_weights: [1, 2]}}"}).loss.class_weights,
            (std::vector<double>{1, 2}));
  EXPECT_EQ(Native({"loss={bce_with_logits: {pos_weight: [3]}}"}).loss.pos_weight,
            std::vector<double>{3});
  EXPECT_EQ(Native({"loss={huber: {delta: 2}}"}).loss.beta, 2);
  EXPECT_EQ(Native({"loss=nll"}).loss.kind, graph::LossKind::kNll);
  EXPECT_EQ(Native({"loss=l1"}).loss.kind, graph::LossKind::kL1);
  EXPECT_EQ(Native({"loss=smooth_l1"}).loss.kind, graph::LossKind::kSmoothL1);
  const runtime::JobSpec job = Native({"metrics=[macro_f1, perplexity, auc, 'output:aux']"});
  std::vector<std::string> names;
  for (const graph::MetricSpec& metric : job.metrics) names.push_back(graph::Name(metric));
  EXPECT_EQ(names, (std::vector<std::string>{"macro_f1", "perplexity", "auc", "output:aux"}));
}

TEST_F(WireTest, AModelOfTheZooIsAName) {
  const runtime::JobSpec job = Native({"model={zoo: resnet50, reinit: all}"});
  EXPECT_EQ(job.model.zoo, "resnet50");
  EXPECT_EQ(job.model.onnx, nullptr);
  EXPECT_EQ(job.model.reinit.size(), 1u);
  const auto error = [&](const std::string& model) {
    return ErrorOf(absl::StatusCode::kInvalidArgument, {"model=" + model});
  };
  EXPECT_THAT(error("{zoo: resnet50, overrides: {dropout: 0}}"), HasSubstr("model.overrides"));
  EXPECT_THAT(error("{zoo: resnet50, bn: {mode: frozen}}"), HasSubstr("model.bn"));
  EXPECT_THAT(error("{zoo: ''}"), HasSubstr("model.zoo is empty"));
  EXPECT_THAT(error("{reinit: all}"), HasSubstr("onnx, graph or zoo"));
}

}  // namespace
}  // namespace ebb::daemon
