// What of a model grows with the batch, and where samples meet.
#include "graph/separable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"

namespace ebb::graph {
namespace {

using testing::HasSubstr;

// "$N": the batch; "$M": twice the batch.
Graph At(absl::string_view text, int batch) {
  absl::StatusOr<Graph> graph = ParseGraph(
      absl::StrReplaceAll(text, {{"$N", absl::StrCat(batch)}, {"$M", absl::StrCat(2 * batch)}}));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

absl::Status Check(absl::string_view text, LossKind loss = LossKind::kGraphOutput) {
  TrainingOptions training;
  training.loss.kind = loss;
  return CheckSeparable(At(text, 12), At(text, 4), training, 3);
}

std::string Refusal(absl::string_view text, LossKind loss = LossKind::kGraphOutput) {
  const absl::Status status = Check(text, loss);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  return std::string(status.message());
}

constexpr absl::string_view kStart =
    "x = input f32[$N,2,6]; w = param f32[6,3]; t = input i64[$N,2]\n";

TEST(Separable, AdmitsWhatKeepsSamplesApart) {
  EXPECT_TRUE(Check(absl::StrCat(kStart, R"(
    h = MatMul(x, w); p = Transpose(h) {perm=[1,0,2]}; q = Transpose(p) {perm=[1,0,2]}
    w2 = Mul(w, w); y = MatMul(x, w2); z = Add(q, y)
    rows = Reshape(z) {shape=[$M,3]}; labels = Reshape(t) {shape=[$M]}
    l, log_prob = CrossEntropy(rows, labels); loss = Reshape(l) {shape=[1]}
    output loss
  )"))
                  .ok());
  EXPECT_TRUE(Check(absl::StrCat(kStart, "y = MatMul(x, w); output y"), LossKind::kMse).ok());
}

TEST(Separable, FindsSimilaritiesOfSamples) {
  EXPECT_THAT(Refusal(absl::StrCat(kStart, R"(
                flat = Reshape(x) {shape=[$N,12]}
                near = MatMul(flat, flat) {trans_b=1}; e = Exp(near)
                l = ReduceMean(e) {axes=[0,1], keepdims=0}
                output l
              )")),
              HasSubstr("node 'near' (MatMul): its result relates the samples"));
}

TEST(Separable, FindsSumsOverTheBatch) {
  EXPECT_THAT(Refusal(absl::StrCat(kStart, R"(
                m = ReduceMean(x) {axes=[0], keepdims=1}; c = Sub(x, m); y = MatMul(c, w)
                output y
              )"),
                      LossKind::kMse),
              HasSubstr("node 'm' (ReduceMean): its result has no place for each sample"));
  EXPECT_THAT(Refusal(absl::StrCat(kStart, R"(
                flat = Reshape(x) {shape=[$N,12]}
                cov = MatMul(flat, flat) {trans_a=1}; e = Exp(cov)
                l = ReduceMean(e) {axes=[0,1], keepdims=0}
                output l
              )")),
              HasSubstr("node 'cov' (MatMul)"));
}

TEST(Separable, OnlyTheLossMayBeOneNumber) {
  EXPECT_THAT(Refusal(absl::StrCat(kStart, R"(
                y = MatMul(x, w); m = ReduceMean(y) {axes=[0,1,2], keepdims=0}; l = Exp(m)
                output l
              )")),
              HasSubstr("node 'm' (ReduceMean)"));
}

TEST(Separable, FindsModelsThatChangeWithTheBatch) {
  TrainingOptions training;
  training.loss.kind = LossKind::kMse;
  const absl::Status status =
      CheckSeparable(At("x = input f32[$N,6]; w = param f32[6,3]; y = MatMul(x, w); output y", 8),
                     At("x = input f32[$N,6]; w = param f32[6,3]; a = Relu(x); y = MatMul(a, w)\n"
                        "output y",
                        4),
                     training, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node 'a' (Relu): the model has other nodes"));
}

}  // namespace
}  // namespace ebb::graph
