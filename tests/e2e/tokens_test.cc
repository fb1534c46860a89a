// Language models on token files, through the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "daemon/wire_graph.h"
#include "graph/text.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;

constexpr int kBatch = 16;
constexpr int kInputs = 32;  // tokens of a sample that the model reads

// An embedding and a linear layer: what comes next after one token. Serialised.
std::string BigramModel(int vocabulary) {
  const std::string text = absl::StrCat(
      "idx = input i32[", kBatch, ",", kInputs, "]\ntable = param f32[", vocabulary,
      ",24]\nw = param f32[", vocabulary, ",24]\nb = param f32[", vocabulary,
      "]\ne = Gather(table, idx) {axis=0}\nrows = Reshape(e) {shape=[", kBatch * kInputs,
      ",24]}\ng = Gemm(rows, w, b) {trans_b=1}\nt = Reshape(g) {shape=[", kBatch, ",", kInputs, ",",
      vocabulary, "]}\nlogits = Transpose(t) {perm=[0,2,1]}\noutput logits\n");
  const auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return daemon::GraphToWire(*graph).SerializeAsString();
}

// A chain of 16 tokens: 3 t + 1, and one time in five anything. The loss of the best guess that
// knows the token before is 0.99; without it, ln 16 = 2.77.
std::vector<uint16_t> Chain(int count) {
  std::mt19937 random(3);
  std::vector<uint16_t> tokens = {0};
  while (static_cast<int>(tokens.size()) < count) {
    const bool any = random() % 5 == 0;
    tokens.push_back(static_cast<uint16_t>(any ? random() % 16 : (3 * tokens.back() + 1) % 16));
  }
  return tokens;
}

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

class TokensTest : public DaemonFixture {
 protected:
  TokensTest() : DaemonFixture({"--memory", "64MiB"}) {}
  void SetUp() override {
    DaemonFixture::SetUp();
    dir_.Write("chain.pb", BigramModel(16));
    dir_.Write("chain.bin", BytesOf(Chain(20000)));
    spec_ = WriteSpec("chain", "adam: {lr: 1e-2}", "epochs: 8");
  }
  std::string WriteSpec(const std::string& name, const std::string& optimizer,
                        const std::string& stop) const {
    return dir_.Write(
        name + ".yaml",
        absl::StrCat("model: {graph: ", name, ".pb, reinit: all}\ndata:\n",
                     "  train: {tokens: ", name, ".bin, window: 33, range: [0, 0.9]}\n",
                     "  val: {tokens: ", name, ".bin, window: 33, range: [0.9, 1]}\n",
                     "bind: {idx: \"tokens[:-1]\", label: \"tokens[1:]\"}\n",
                     "batch_size: ", kBatch, "\nloss: cross_entropy\noptimizer: {", optimizer,
                     "}\nmetrics: accuracy\nstop: {", stop, "}\nseed: 1\n"));
  }
  std::string HashOf(const std::string& job) const {
    EXPECT_EQ(Ebb({"watch", job}).code, 0);
    return EbbJson({"get", job, "--sha256"})["sha256"].get<std::string>();
  }

  std::string spec_;
};

TEST_F(TokensTest, ALanguageModelLearnsWhatComesNext) {
  const Outcome run = Ebb({"submit", spec_, "--watch"});
  ASSERT_EQ(run.code, 0) << run.error << daemon_->error();
  const Json job = EbbJson({"show", "chain"});
  EXPECT_EQ(job["step"], 8 * (18000 / 33 / kBatch)) << "incomplete batches are dropped";
  EXPECT_LT(job["metrics"]["val/loss"], 1.2);
  EXPECT_GT(job["metrics"]["val/loss"], 0.9) << "better than possible";
  EXPECT_GT(job["metrics"]["val/accuracy"], 0.7);
}

TEST_F(TokensTest, TheTypeOfTheFileDoesNotMatterAndNeighboursDoNotEither) {
  const std::vector<uint16_t> chain = Chain(20000);
  dir_.Write("wide.bin", BytesOf(std::vector<uint32_t>(chain.begin(), chain.end())));
  const std::string alone = HashOf(EbbJson({"submit", spec_, "--set", "stop={steps: 40}"})["id"]);
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    ids.push_back(EbbJson({"submit", spec_, "--set", "stop={steps: 40}"})["id"]);
  }
  ids.push_back(EbbJson({"submit", spec_, "--set", "stop={steps: 40}", "--set",
                         "data.train={tokens: wide.bin, token_type: u32, window: 33, range: [0, "
                         "0.9]}"})["id"]);
  const std::string other =
      EbbJson({"submit", spec_, "--set", "stop={steps: 40}", "--set", "seed.data=2"})["id"];
  for (const std::string& id : ids) EXPECT_EQ(HashOf(id), alone) << id;
  EXPECT_NE(HashOf(other), alone) << "the seed of the data decides the order of windows";
}

TEST_F(TokensTest, AnEstimateNeedsNoTokens) {
  const Json estimate = EbbJson({"estimate", spec_});
  EXPECT_FALSE(estimate.empty());
  const Outcome bad = Ebb({"estimate", spec_, "--set", "data.train.window=0"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.error, HasSubstr("data.train: window is 0"));
}

TEST_F(TokensTest, MistakesAreRefusedAtSubmit) {
  std::vector<uint16_t> stray = Chain(20000);
  stray[1234] = 16;
  dir_.Write("stray.bin", BytesOf(stray));
  dir_.Write("odd.bin", BytesOf(Chain(100)) + "x");
  const std::string tokens = "data.train={tokens: ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {tokens + "stray.bin, window: 33}",
       "data.train: token 1234 of the file: 16 is outside of the table that the model looks it up "
       "in, which has 16 rows"},
      {tokens + "chain.bin, window: 32}", "change window, or bind a part of it"},
      {tokens + "chain.bin, window: 20001}", "window 20001 is longer than the 20000 tokens"},
      {tokens + "odd.bin, window: 33}", "has 201 bytes, which are no whole number of u16"},
      {tokens + "chain.yaml, window: 33}", "the file is text, but tokens are numbers"},
      {tokens + "none.bin, window: 33}", "none.bin"},
      {"data.train.range=[0.9, 0.1]", "data.train: range is [0.9, 0.1]"},
      {"data.train.token_type=u8", "token_type"},
      {"bind.idx='tokens[:-2]'",
       "rows of shape [31] after its slice but the model input takes [32]"},
      {"bind={idx: tokens}", "bind"},
      {"batch_size=15", "15"},
  };
  for (const auto& [assignment, message] : cases) {
    const Outcome outcome = Ebb({"submit", spec_, "--set", assignment});
    EXPECT_EQ(outcome.code, 2) << assignment << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(message)) << assignment;
  }
}

std::string ReadGzip(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return text;
  char buffer[1 << 16];
  for (int count; (count = gzread(file, buffer, sizeof(buffer))) > 0;) text.append(buffer, count);
  gzclose(file);
  return text;
}

TEST_F(TokensTest, CharactersOfShakespeareArePredictedFarBetterThanByChance) {
  const char* given = std::getenv("EBB_TEST_DATA");
  const std::string path = absl::StrCat(given != nullptr ? given : EBB_SOURCE_DIR "/../shared/data",
                                        "/shakespeare/input.txt.gz");
  const std::string text = ReadGzip(path);
  if (text.empty()) GTEST_SKIP() << path << " is not there; EBB_TEST_DATA says where it may be";
  std::array<int, 256> ids = {};
  for (const char c : text) ids[static_cast<uint8_t>(c)] = 1;
  int vocabulary = 0;
  for (int& id : ids) id = id == 0 ? -1 : vocabulary++;
  std::vector<uint16_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<uint16_t>(ids[static_cast<uint8_t>(c)]));
  dir_.Write("bard.pb", BigramModel(vocabulary));
  dir_.Write("bard.bin", BytesOf(tokens));
  const std::string spec = WriteSpec("bard", "adam: {lr: 1e-2}", "steps: 400");
  const Outcome run = Ebb({"submit", spec, "--watch", "--set", "evaluate.every=400 steps"});
  ASSERT_EQ(run.code, 0) << run.error << daemon_->error();
  const double loss = EbbJson({"show", "bard"})["metrics"]["val/loss"];
  RecordProperty("val_loss", absl::StrCat(loss));
  EXPECT_LT(loss, std::log(vocabulary) - 1.4);
  EXPECT_GT(loss, 2.2) << "a bigram model cannot know more";
}

}  // namespace
}  // namespace ebb::e2e
