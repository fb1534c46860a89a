// BERT-base and GPT-2 small: attention by two batched products, a softmax and a dropout.
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/zoo/builder.h"
#include "model/zoo/families.h"

namespace ebb::model::zoo {
namespace {

using graph::HostTensor;

constexpr int64_t kHidden = 768, kHeads = 12, kHeadSize = 64, kLayers = 12;
constexpr double kDropout = 0.1;

// [N,S,hidden] to [N,heads,S,head size].
ValueId Heads(Builder& b, const std::string& name, ValueId x) {
  const int64_t tokens = b.dim(x, 1);
  x = b.Reshape(name + ".split", x, {b.batch(), tokens, kHeads, kHeadSize});
  return b.Transpose(name + ".heads", x, {0, 2, 1, 3});
}

// softmax(q k^T / sqrt(head size) [+ mask]) v, of [N,heads,S,head size], to [N,S,hidden].
ValueId Attention(Builder& b, const std::string& name, ValueId q, ValueId k, ValueId v,
                  ValueId mask) {
  ValueId scores = b.Op("MatMul", name + ".scores", {q, k}, {{"trans_b", int64_t{1}}});
  scores = b.Op("Scale", name + ".scaled", {scores},
                {{"scale", 1 / std::sqrt(static_cast<double>(kHeadSize))}});
  if (mask.valid()) scores = b.Op("Add", name + ".masked", {scores, mask});
  ValueId weights = b.Op("Softmax", name + ".softmax", {scores}, {{"axis", int64_t{3}}});
  weights = b.Dropout(name + ".dropout", weights, kDropout);
  ValueId context = b.Op("MatMul", name + ".context", {weights, v});
  const int64_t tokens = b.dim(q, 2);
  context = b.Transpose(name + ".tokens", context, {0, 2, 1, 3});
  return b.Reshape(name + ".join", context, {b.batch(), tokens, kHidden});
}

// 0, 1, ..., n - 1: every row of the batch has the same positions.
ValueId Positions(Builder& b, int64_t n) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(i);
  return b.Constant("positions", HostTensor::Of<int64_t>(DType::kI64, {n}, values));
}

// Mean cross entropy of logits [rows,classes] against labels [N,...], the output "loss".
ValueId TokenLoss(Builder& b, ValueId logits, ValueId labels) {
  labels = b.Reshape("labels.rows", labels, {b.dim(logits, 0)});
  return b.Op("CrossEntropy", "cross_entropy", {logits, labels});
}

// ---- BERT: normalisation after the residual sum.

constexpr int64_t kBertVocabulary = 30522;
constexpr double kBertEpsilon = 1e-12;

ValueId BertLayer(Builder& b, const std::string& name, ValueId x) {
  const std::string self = name + ".attention.self";
  const auto heads = [&](const char* which) {
    const std::string part = absl::StrCat(self, ".", which);
    return Heads(b, part, b.Linear(part, x, kHidden));
  };
  const ValueId q = heads("query"), k = heads("key"), v = heads("value");
  const auto add_norm = [&](const std::string& part, ValueId y, ValueId residual) {
    y = b.Dropout(part + ".dropout", b.Linear(part + ".dense", y, kHidden), kDropout);
    y = b.Op("Add", part + ".add", {y, residual});
    return b.LayerNorm(part + ".LayerNorm", y, kBertEpsilon);
  };
  x = add_norm(name + ".attention.output", Attention(b, self, q, k, v, ValueId()), x);
  ValueId y = b.Linear(name + ".intermediate.dense", x, 4 * kHidden);
  y = b.Op("Gelu", name + ".intermediate.gelu", {y});
  return add_norm(name + ".output", y, x);
}

ValueId BertEmbeddings(Builder& b, int64_t tokens, ValueId words) {
  const std::string name = "bert.embeddings";
  const auto table = [&](const char* which, int64_t rows) {
    return b.Param(absl::StrCat(name, ".", which, "_embeddings.weight"), {rows, kHidden});
  };
  ValueId x = b.Embedding(words, name + ".words", b.Tokens("input_ids", tokens));
  const ValueId types = b.Tokens("token_type_ids", tokens);
  x = b.Op("Add", name + ".add_type",
           {x, b.Embedding(table("token_type", 2), name + ".types", types)});
  x = b.Op("Add", name + ".add_position",
           {x, b.Embedding(table("position", tokens), name + ".positions", Positions(b, tokens))});
  return b.Dropout(name + ".dropout", b.LayerNorm(name + ".LayerNorm", x, kBertEpsilon), kDropout);
}

// The rows of x [N,S,hidden] at "mlm_positions" [N,masked] (numbers within the sample's own S).
ValueId MaskedRows(Builder& b, ValueId x, int64_t masked) {
  const int64_t tokens = b.dim(x, 1);
  std::vector<int64_t> starts;
  for (int64_t n = 0; n < b.batch(); ++n) starts.push_back(n * tokens);
  const ValueId start =
      b.Constant("sample_starts", HostTensor::Of<int64_t>(DType::kI64, {b.batch(), 1}, starts));
  ValueId rows = b.Op("Add", "mlm_rows", {b.Tokens("mlm_positions", masked), start});
  rows = b.Reshape("mlm_rows.flat", rows, {b.batch() * masked});
  x = b.Reshape("hidden_rows", x, {b.batch() * tokens, kHidden});
  x = b.Embedding(x, "mlm_hidden", rows);
  return b.Reshape("mlm_hidden.rows", x, {b.batch(), masked, kHidden});
}

// ---- GPT-2: normalisation before each branch, weights [in,out] as Hugging Face's Conv1D.

constexpr int64_t kGptVocabulary = 50257;
constexpr double kGptEpsilon = 1e-5;

ValueId Conv1D(Builder& b, const std::string& name, ValueId x, int64_t out) {
  const ValueId weight = b.Param(name + ".weight", {b.dim(x, 2), out});
  x = b.Op("MatMul", name + ".product", {x, weight});
  return b.Op("Add", name, {x, b.Param(name + ".bias", {out})});
}

ValueId GptLayer(Builder& b, const std::string& name, ValueId x, ValueId mask) {
  const std::string attn = name + ".attn", mlp = name + ".mlp";
  ValueId y = b.LayerNorm(name + ".ln_1", x, kGptEpsilon);
  const ValueId qkv = Conv1D(b, attn + ".c_attn", y, 3 * kHidden);
  const auto part = [&](const char* which, int64_t i) {
    const std::string part_name = absl::StrCat(attn, ".", which);
    return Heads(b, part_name, b.Slice(part_name, qkv, 2, i * kHidden, (i + 1) * kHidden));
  };
  const ValueId q = part("q", 0), k = part("k", 1), v = part("v", 2);
  y = Conv1D(b, attn + ".c_proj", Attention(b, attn, q, k, v, mask), kHidden);
  x = b.Op("Add", attn + ".add", {b.Dropout(attn + ".resid_dropout", y, kDropout), x});
  y = Conv1D(b, mlp + ".c_fc", b.LayerNorm(name + ".ln_2", x, kGptEpsilon), 4 * kHidden);
  y = b.Op("Gelu", mlp + ".act", {y}, {{"approximate", std::string("tanh")}});
  y = b.Dropout(mlp + ".dropout", Conv1D(b, mlp + ".c_proj", y, kHidden), kDropout);
  return b.Op("Add", mlp + ".add", {y, x});
}

// [S,S], 0 where a token may look and so far below zero elsewhere that softmax gives 0. One
// constant for all layers, heads and samples.
ValueId CausalMask(Builder& b, int64_t tokens) {
  HostTensor mask = HostTensor::Zeros({DType::kF32, {tokens, tokens}});
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = i + 1; j < tokens; ++j) {
      mask.as<float>()[static_cast<size_t>(i * tokens + j)] = -1e9F;
    }
  }
  return b.Constant("causal_mask", std::move(mask));
}

}  // namespace

absl::StatusOr<graph::Graph> BertBase(int64_t batch, int64_t tokens) {
  Builder b(batch);
  const ValueId words =
      b.Param("bert.embeddings.word_embeddings.weight", {kBertVocabulary, kHidden});
  ValueId x = BertEmbeddings(b, tokens, words);
  for (int64_t i = 0; i < kLayers; ++i) {
    x = BertLayer(b, absl::StrCat("bert.encoder.layer.", i), x);
  }
  const int64_t masked = (tokens * 15 + 99) / 100;
  const std::string head = "cls.predictions";
  x = MaskedRows(b, x, masked);
  x = b.Op("Gelu", head + ".gelu", {b.Linear(head + ".transform.dense", x, kHidden)});
  x = b.LayerNorm(head + ".transform.LayerNorm", x, kBertEpsilon);
  x = b.Reshape(head + ".rows", x, {batch * masked, kHidden});
  x = b.Op("Gemm", head + ".decoder", {x, words, b.Param(head + ".bias", {kBertVocabulary})},
           {{"trans_b", int64_t{1}}});
  return b.Finish(TokenLoss(b, x, b.Tokens("labels", masked)), "loss");
}

absl::StatusOr<graph::Graph> Gpt2Small(int64_t batch, int64_t tokens) {
  Builder b(batch);
  const std::string top = "transformer";
  const ValueId words = b.Param(top + ".wte.weight", {kGptVocabulary, kHidden});
  const ValueId places = b.Param(top + ".wpe.weight", {tokens, kHidden});
  ValueId x = b.Embedding(words, top + ".wte", b.Tokens("input_ids", tokens));
  x = b.Op("Add", top + ".add", {x, b.Embedding(places, top + ".wpe", Positions(b, tokens))});
  x = b.Dropout(top + ".drop", x, kDropout);
  const ValueId mask = CausalMask(b, tokens);
  for (int64_t i = 0; i < kLayers; ++i) x = GptLayer(b, absl::StrCat(top, ".h.", i), x, mask);
  x = b.LayerNorm(top + ".ln_f", x, kGptEpsilon);
  x = b.Reshape(top + ".rows", x, {batch * tokens, kHidden});
  x = b.Op("MatMul", "lm_head", {x, words}, {{"trans_b", int64_t{1}}});
  return b.Finish(TokenLoss(b, x, b.Tokens("labels", tokens)), "loss");
}

}  // namespace ebb::model::zoo
