#include "client/yaml.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/submit.h"

namespace ebb::client {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string TestData(const std::string& name) {
  std::ifstream file(absl::StrCat(EBB_SOURCE_DIR, "/tests/client/testdata/", name));
  EXPECT_TRUE(file) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

v1::JobSpec Parse(absl::string_view text) {
  const auto spec = ParseSpec(text, "job.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : v1::JobSpec();
}

std::string ErrorOf(absl::string_view text) {
  const auto spec = ParseSpec(text, "job.yaml");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(spec.status().message());
}

TEST(Yaml, TheVisionSpecIsReadWhole) {
  const v1::JobSpec spec = Parse(TestData("vision.yaml"));
  EXPECT_EQ(spec.name(), "r18-pets");
  EXPECT_EQ(spec.model().graph(), "store:r18@sha256:9f1c");
  EXPECT_EQ(spec.model().weights(), "r18-imagenet.safetensors");
  ASSERT_EQ(spec.model().reinit_size(), 1);
  EXPECT_EQ(spec.model().reinit(0).match(), "fc.*");
  EXPECT_EQ(spec.model().reinit(0).init(), "kaiming_uniform");
  EXPECT_EQ(spec.model().bn().mode(), v1::Model::BatchNorm::MODE_TRAIN);
  EXPECT_EQ(spec.model().bn().freeze_stats(0), "layer1.*");
  EXPECT_EQ(spec.precision(), v1::PRECISION_BF16);
  EXPECT_EQ(spec.bind().at("image"), "x");
  EXPECT_EQ(spec.data().train().images(), "/data/pets");
  EXPECT_EQ(spec.data().train().index(), "folds/3/train.npy");
  EXPECT_TRUE(spec.data().train().drop_last());
  EXPECT_EQ(spec.data().val().batch_size(), 256);
  ASSERT_EQ(spec.data().augment().train_size(), 3);
  EXPECT_EQ(spec.data().augment().train(0).random_resized_crop(), 224);
  EXPECT_TRUE(spec.data().augment().train(1).has_hflip());
  EXPECT_TRUE(spec.data().augment().val(1).has_normalize());
  EXPECT_EQ(spec.batch_size().fixed(), 64);
  EXPECT_EQ(spec.loss().cross_entropy().label_smoothing(), 0.1);
  EXPECT_EQ(spec.optimizer().adamw().lr(), 3e-4);
  EXPECT_EQ(spec.optimizer().adamw().weight_decay(), 0.05);
  ASSERT_EQ(spec.optimizer().groups_size(), 3);
  EXPECT_TRUE(spec.optimizer().groups(0).has_weight_decay());
  EXPECT_EQ(spec.optimizer().groups(0).weight_decay(), 0);
  EXPECT_EQ(spec.optimizer().groups(1).lr_scale(), 10);
  EXPECT_TRUE(spec.optimizer().groups(2).frozen());
  EXPECT_EQ(spec.schedule().one_cycle().pct_start(), 0.1);
  ASSERT_EQ(spec.metrics_size(), 3);
  EXPECT_EQ(spec.metrics(0).kind(), v1::Metric::KIND_ACCURACY);
  EXPECT_EQ(spec.metrics(1).kind(), v1::Metric::KIND_TOP_K);
  EXPECT_EQ(spec.metrics(1).k(), 5);
  EXPECT_EQ(spec.metrics(2).kind(), v1::Metric::KIND_MACRO_F1);
  EXPECT_EQ(spec.evaluate().every().epochs(), 1);
  EXPECT_EQ(spec.evaluate().weights(), v1::Evaluate::WEIGHTS_EMA);
  EXPECT_EQ(spec.stop().epochs(), 20);
  EXPECT_EQ(spec.stop().early().metric(), "val/accuracy");
  EXPECT_EQ(spec.stop().early().mode(), v1::Stop::MODE_MAX);
  EXPECT_EQ(spec.stop().early().patience(), 3);
  EXPECT_EQ(spec.stop().device_time().seconds(), 7200);
  EXPECT_THAT(spec.checkpoint().keep(),
              testing::ElementsAre(v1::Checkpoint::KEEP_BEST, v1::Checkpoint::KEEP_LAST));
  EXPECT_EQ(spec.seed().init(), 1u);
  EXPECT_EQ(spec.seed().dropout(), 3u);
  EXPECT_EQ(spec.determinism(), v1::DETERMINISM_STRICT);
  EXPECT_EQ(spec.resources().priority(), -10);
  EXPECT_EQ(spec.resources().weight(), 1);
  EXPECT_EQ(spec.resources().memory_max(), int64_t{12} << 30);
  EXPECT_EQ(spec.on_nan(), v1::ON_NAN_FAIL);
  EXPECT_EQ(spec.labels().at("trial"), "17");
}

TEST(Yaml, TheLanguageModelSpecIsReadWhole) {
  const v1::JobSpec spec = Parse(TestData("gpt_char.yaml"));
  EXPECT_EQ(spec.model().onnx(), "gpt6x384.onnx");
  EXPECT_EQ(spec.model().overrides().dropout(), 0.2);
  EXPECT_EQ(spec.model().reinit(0).match(), "*");
  EXPECT_EQ(spec.model().reinit(0).init(), "default");
  EXPECT_EQ(spec.data().train().tokens(), "shakespeare.u16");
  EXPECT_EQ(spec.data().train().window(), 257);
  EXPECT_THAT(spec.data().train().range(), testing::ElementsAre(0.0, 0.9));
  EXPECT_EQ(spec.data().train().token_type(), v1::DataSource::TOKEN_TYPE_UNSPECIFIED);
  EXPECT_EQ(spec.data().val().batches(), 200);
  EXPECT_EQ(spec.bind().at("idx"), "tokens[:-1]");
  EXPECT_EQ(spec.accumulate(), 4);
  EXPECT_EQ(spec.loss().output(), "loss");
  EXPECT_THAT(spec.optimizer().adamw().betas(), testing::ElementsAre(0.9, 0.99));
  EXPECT_EQ(spec.optimizer().clip_norm(), 1.0);
  ASSERT_EQ(spec.schedule().points().point_size(), 3);
  EXPECT_EQ(spec.schedule().points().point(1).step(), 100);
  EXPECT_EQ(spec.schedule().points().point(1).lr(), 1e-3);
  EXPECT_EQ(spec.schedule().interpolate(), v1::Schedule::INTERPOLATION_COSINE);
  EXPECT_EQ(spec.metrics(1).kind(), v1::Metric::KIND_PERPLEXITY);
  EXPECT_EQ(spec.stop().steps(), 5000);
}

TEST(Yaml, TheTypeOfBareTokensIsAWord) {
  const v1::JobSpec spec =
      Parse("data: {train: {tokens: t.bin, window: 1e3, range: [0, 1], token_type: u32}}");
  EXPECT_EQ(spec.data().train().token_type(), v1::DataSource::TOKEN_TYPE_U32);
  EXPECT_EQ(spec.data().train().window(), 1000);
}

TEST(Yaml, TheRecommenderSpecIsReadWhole) {
  const v1::JobSpec spec = Parse(TestData("recommender.yaml"));
  EXPECT_EQ(spec.model().graph(), "store:dlrm26");
  EXPECT_EQ(spec.data().train().feed(), v1::DataSource::FEED_CLIENT);
  EXPECT_EQ(spec.data().train().schema().at("cat_*"), "ragged_i64");
  EXPECT_EQ(spec.batch_size().fixed(), 8192);
  EXPECT_TRUE(spec.loss().has_bce_with_logits());
  EXPECT_TRUE(spec.optimizer().groups(0).use().rowwise_adagrad().sparse());
  EXPECT_EQ(spec.metrics(1).kind(), v1::Metric::KIND_LOGLOSS);
  EXPECT_EQ(spec.stop().samples(), 10000000);
}

TEST(Yaml, ShortFormsMeanTheSameAsLongOnes) {
  const v1::JobSpec brief = Parse(R"(
loss: cross_entropy
schedule: constant
optimizer: adam
batch_size: auto
seed: 7
metrics: accuracy
evaluate: {every: 100 steps}
checkpoint: {keep: last}
data: {train: {file: a.csv, label_column: last}}
)");
  const v1::JobSpec full = Parse(R"(
loss: {cross_entropy: {}}
schedule: {constant: {}}
optimizer: {adam: {}}
batch_size: {auto: {}}
seed: {init: 7, data: 7, dropout: 7}
metrics: [{kind: accuracy}]
evaluate: {every: {steps: 100}}
checkpoint: {keep: [last]}
data: {train: {file: a.csv, label_column: -1}}
)");
  EXPECT_TRUE(MessageDifferencer::Equals(brief, full)) << brief.DebugString() << full.DebugString();
}

TEST(Yaml, JsonIsReadToo) {
  const v1::JobSpec spec =
      Parse("{\"name\": \"a\", \"batch_size\": 8,\n \"optimizer\": {\"sgd\": {\"lr\": 0.1}}}");
  EXPECT_EQ(spec.name(), "a");
  EXPECT_EQ(spec.optimizer().sgd().lr(), 0.1);
}

TEST(Yaml, ErrorsNameFileLineColumnAndField) {
  EXPECT_THAT(
      ErrorOf("name: a\noptimizer:\n  adamw: {lrr: 1}\n"),
      AllOf(StartsWith("job.yaml:3:11: optimizer.adamw: "), HasSubstr("did you mean 'lr'?")));
  EXPECT_THAT(ErrorOf("batchsize: 4\n"), HasSubstr("did you mean 'batch_size'?"));
  EXPECT_THAT(ErrorOf("name: a\nbatch_size: many\n"),
              StartsWith("job.yaml:2:13: batch_size: 'many'"));
  EXPECT_THAT(ErrorOf("loss: cross_entrpy\n"), HasSubstr("did you mean 'cross_entropy'?"));
  EXPECT_THAT(ErrorOf("precision: fp8\n"), HasSubstr("fp32, tf32, bf16, fp16"));
  EXPECT_THAT(ErrorOf("stop: {steps: 1.5}\n"), HasSubstr("stop.steps: '1.5' is not an integer"));
  EXPECT_THAT(ErrorOf("stop: {device_time: soon}\n"), HasSubstr("a time such as 2h"));
  EXPECT_THAT(ErrorOf("evaluate: {every: 1}\n"), HasSubstr("'1 epoch' or '100 steps'"));
  EXPECT_THAT(ErrorOf("resources: {priority: urgent}\n"), HasSubstr("low, normal, high"));
  EXPECT_THAT(ErrorOf("metrics: [accuracy, toq5]\n"), HasSubstr("metrics[1]"));
  EXPECT_THAT(ErrorOf("optimizer: {sgd: {lr: .nan}}\n"), HasSubstr("is not a number"));
  EXPECT_THAT(ErrorOf("name: [a\n"), StartsWith("job.yaml:"));
}

TEST(Yaml, WhatContradictsItselfIsRefused) {
  EXPECT_THAT(ErrorOf("name: a\nname: b\n"),
              AllOf(StartsWith("job.yaml:2:1"), HasSubstr("given twice")));
  EXPECT_THAT(ErrorOf("loss: {mse: {}, bce_with_logits: {}}\n"), HasSubstr("exclude each other"));
  EXPECT_THAT(ErrorOf("labels: {a: 1, a: 2}\n"), HasSubstr("given twice"));
  EXPECT_THAT(ErrorOf("name: a\n---\nname: b\n"), HasSubstr("more than one document"));
  EXPECT_THAT(ErrorOf(", name: a\n"), HasSubstr("more than one document"));
  EXPECT_THAT(ErrorOf("[1, 2]\n"), HasSubstr("a job file is a mapping"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("a job file is a mapping"));
  EXPECT_THAT(ErrorOf("batch_size:\n"), HasSubstr("has no value"));
}

TEST(Yaml, HostileTextsGiveErrors) {
  // Nesting beyond any job file, in flow and block style.
  ErrorOf(absl::StrCat("metrics: ", std::string(100000, '['), std::string(100000, ']')));
  ErrorOf(std::string(100000, '{'));
  std::string block = "model:\n";
  for (int i = 1; i < 300; ++i)
    absl::StrAppend(&block, std::string(static_cast<size_t>(i), ' '), "a:\n");
  ErrorOf(block);
  ErrorOf(std::string(3000, '-') + " - - - - -");
  // A bomb of aliases: 10^8 items when written out.
  std::string bomb = "labels: &a0 {k: v}\n";
  bomb +=
      "metrics:\n  - &b0 "
      "[accuracy,accuracy,accuracy,accuracy,accuracy,accuracy,accuracy,accuracy]\n";
  for (int i = 1; i < 9; ++i) {
    absl::StrAppend(&bomb, "  - &b", i, " [");
    for (int j = 0; j < 8; ++j) absl::StrAppend(&bomb, j > 0 ? "," : "", "*b", i - 1);
    bomb += "]\n";
  }
  ErrorOf(bomb);
  // An alias to itself.
  ErrorOf("model: &m {bn: *m}\n");
  ErrorOf("metrics: &m [*m]\n");
  ErrorOf(std::string("na\0me: 1\n", 9));
  ErrorOf("name: \"\\xZZ\"\n");
  ErrorOf(std::string(5 << 20, ' '));
}

TEST(Yaml, TextThatIsNotUtf8IsRefusedWithItsLine) {
  EXPECT_THAT(ErrorOf("loss: mse\nname: \"caf\xe9\"\n"), HasSubstr(":2: this line is not UTF-8"));
  EXPECT_EQ(Parse("name: \"café 😀\"\n").name(), "café 😀");
  // UTF-16 says so at its start.
  EXPECT_EQ(
      Parse(absl::string_view("\xff\xfel\0o\0s\0s\0:\0 \0m\0s\0e\0\n\0", 22)).loss().kind_case(),
      v1::Loss::kMse);
}

TEST(Yaml, AliasesAreCountedAsWhatTheyStandFor) {
  const auto groups_with_betas = [](int groups, int betas) {
    std::string text = "ema: {decay: 1}\noptimizer:\n  adam: {betas: &b [";
    for (int i = 0; i < betas; ++i) absl::StrAppend(&text, i > 0 ? "," : "", "1");
    text += "]}\n  groups:\n";
    for (int i = 0; i < groups; ++i) text += "  - {use: {adam: {betas: *b}}}\n";
    return text;
  };
  EXPECT_EQ(Parse(groups_with_betas(20, 300)).optimizer().groups(19).use().adam().betas_size(),
            300);
  EXPECT_THAT(ErrorOf(groups_with_betas(2000, 300)), HasSubstr("too large"));
}

TEST(Overrides, SetFieldsAsTheFileWould) {
  v1::JobSpec spec = Parse(TestData("vision.yaml"));
  const auto set = [&](absl::string_view text) {
    const absl::Status status = ApplyOverride(text, &spec);
    EXPECT_TRUE(status.ok()) << status;
  };
  set("optimizer.adamw.lr=1e-2");
  EXPECT_EQ(spec.optimizer().adamw().lr(), 1e-2);
  EXPECT_EQ(spec.optimizer().adamw().weight_decay(), 0.05) << "the rest must stay";
  set("optimizer.groups.1.lr_scale=3");
  EXPECT_EQ(spec.optimizer().groups(1).lr_scale(), 3);
  set("optimizer.adamw={lr: 0.5}");
  EXPECT_EQ(spec.optimizer().adamw().lr(), 0.5);
  EXPECT_FALSE(spec.optimizer().adamw().has_weight_decay()) << "a mapping replaces the old one";
  set("loss=mse");
  EXPECT_TRUE(spec.loss().has_mse());
  set("batch_size=auto");
  EXPECT_TRUE(spec.batch_size().has_auto_());
  set("labels.trial=18");
  EXPECT_EQ(spec.labels().at("trial"), "18");
  EXPECT_EQ(spec.labels().at("study"), "pets");
  set("labels.a.b=c");
  EXPECT_EQ(spec.labels().at("a.b"), "c");
  set("metrics=[loss]");
  EXPECT_EQ(spec.metrics_size(), 1);
  set("optimizer.sgd.lr=0.5");
  EXPECT_TRUE(spec.optimizer().has_sgd());
  set("data.train.file=x=y.npz");
  EXPECT_EQ(spec.data().train().file(), "x=y.npz");
}

TEST(Overrides, ErrorsNameTheAssignment) {
  v1::JobSpec spec;
  for (const char* bad : {"optimizer.adamw.lrr=1", "name", "=1", "optimizer.groups.0.match=x",
                          "batch_size=[", "name.x=1", "stop.steps=x", ".=1"}) {
    const absl::Status status = ApplyOverride(bad, &spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("--set ", bad)));
  }
}

TEST(SpecFile, GetsItsNameFromTheFile) {
  const std::string path = testing::TempDir() + "/my-job.v2.yaml";
  std::ofstream(path) << "batch_size: 4\n";
  const auto spec = ReadSpecFile(path, {"batch_size=8"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "my-job.v2");
  EXPECT_EQ(spec->batch_size().fixed(), 8);
  EXPECT_EQ(ReadSpecFile("/nonexistent.yaml", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadSpecFile("/tmp", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::client
