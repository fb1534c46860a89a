// Jobs that train on each way to bring data, through the real ebbd and the real ebb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "daemon/wire_graph.h"
#include "data/parquet.h"
#include "graph/text.h"
#include "model/safetensors.h"
#include "tests/e2e/daemon_fixture.h"

namespace ebb::e2e {
namespace {

using graph::DType;
using graph::HostTensor;
using testing::HasSubstr;

std::string Serialised(const std::string& text) {
  const auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return daemon::GraphToWire(*graph).SerializeAsString();
}

class DataFormatsTest : public DaemonFixture {
 protected:
  DataFormatsTest() : DaemonFixture({"--memory", "64MiB"}) {}
  // A job of the graph and the data section, trained to its end.
  std::string Spec(const std::string& graph, const std::string& rest) const {
    dir_.Write("model.pb", Serialised(graph));
    return dir_.Write("job.yaml",
                      absl::StrCat("model: {graph: model.pb, reinit: all}\nbatch_size: 16\n"
                                   "loss: cross_entropy\noptimizer: {adam: {lr: 0.05}}\n"
                                   "metrics: accuracy\nseed: 1\n",
                                   rest));
  }
  Json Trained(const std::string& spec) const {
    const Outcome run = Ebb({"submit", spec, "--watch"});
    EXPECT_EQ(run.code, 0) << run.error << daemon_->error();
    return EbbJson({"show", "job"});
  }
};

// Bags of 1 to 5 of 20 numbers; the label is whether a number below 4 is in the bag.
graph::TensorMap Bags(int rows) {
  std::mt19937 random(5);
  std::vector<int64_t> indices, offsets = {0}, labels;
  for (int row = 0; row < rows; ++row) {
    int64_t label = 0;
    for (unsigned i = 1 + random() % 5; i > 0; --i) {
      indices.push_back(random() % 4 == 0 ? random() % 4 : 4 + random() % 16);
      if (indices.back() < 4) label = 1;
    }
    offsets.push_back(static_cast<int64_t>(indices.size()));
    labels.push_back(label);
  }
  graph::TensorMap map;
  const auto put = [&](const char* name, const std::vector<int64_t>& values) {
    map[name] = HostTensor::Of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
  };
  put("tags.indices", indices);
  put("tags.offsets", offsets);
  put("label", labels);
  return map;
}

constexpr char kBagModel[] = R"(tags = input i64[16,5]
mask = input f32[16,5]
table = param f32[20,8]
w = param f32[2,8]
b = param f32[2]
e = Gather(table, tags) {axis=0}
m = Reshape(mask) {shape=[16,5,1]}
kept = Mul(e, m)
bag = ReduceSum(kept) {axes=[1], keepdims=0}
logits = Gemm(bag, w, b) {trans_b=1}
output logits
)";

TEST_F(DataFormatsTest, SparseFeaturesOfSafetensorsTrain) {
  dir_.Write("bags.safetensors", model::WriteSafetensors(Bags(1600)));
  dir_.Write("held.safetensors", model::WriteSafetensors(Bags(400)));
  const std::string spec = Spec(kBagModel, R"(data:
  train: {file: bags.safetensors, sparse: [{match: tags, pad_to: 5}]}
  val: {file: held.safetensors, sparse: [{match: "t*", pad_to: 5}]}
bind: {mask: tags.mask}
stop: {epochs: 6}
)");
  EXPECT_GT(Trained(spec)["metrics"]["val/accuracy"], 0.98);

  const std::vector<std::pair<std::string, std::string>> cases = {
      {"data.train={file: bags.safetensors}",
       "bags.safetensors: fields \"tags.indices\" and \"tags.offsets\" are a "
       "sparse feature"},
      {"data.train.sparse=[{match: tags, pad_to: 4}]", "the longest row has 5"},
      {"data.train.sparse=[{match: tags, pad_to: 4, truncate: true}]",
       "rows of shape [4] but the model input takes [5]"},
      {"data.train.sparse=[{match: tags, pad_to: 5, pad_value: 20}]", "20 is outside of the table"},
      {"data.train.sparse=[{match: tags}]", "data.train: sparse[0].pad_to is 0"},
  };
  for (const auto& [assignment, message] : cases) {
    const Outcome outcome = Ebb({"submit", spec, "--set", assignment});
    EXPECT_EQ(outcome.code, 2) << assignment << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(message)) << assignment;
  }
}

constexpr char kWideModel[] = R"(wide = input f32[5,3]
w = param f32[3,3]
b = param f32[3]
logits = Gemm(wide, w, b) {trans_b=1}
output logits
)";

TEST_F(DataFormatsTest, ParquetTrainsWhereThereIsArrow) {
  dir_.Write("d.parquet", TempDir::Read(EBB_SOURCE_DIR "/tests/data/fixtures/plain.parquet"));
  const std::string spec = Spec(kWideModel, R"(data:
  train: {file: d.parquet, sparse: [{match: tags, pad_to: 3}]}
stop: {epochs: 3}
)");
  const Outcome run = Ebb({"submit", spec, "--watch", "--set", "batch_size=5"});
  if (!data::ReadsParquet()) {
    EXPECT_NE(run.code, 0);
    EXPECT_THAT(run.error, HasSubstr("was built without Arrow"));
    return;
  }
  ASSERT_EQ(run.code, 0) << run.error << daemon_->error();
  EXPECT_EQ(EbbJson({"show", "job"})["step"], 3);
}

// A PNG of one colour, 12 x 10.
std::string Plain(int red, int green, int blue) {
  std::string pixels;
  for (int y = 0; y < 10; ++y) {
    pixels.push_back('\0');  // the row's filter: none
    for (int x = 0; x < 12; ++x) {
      for (const int value : {red, green, blue}) pixels.push_back(static_cast<char>(value));
    }
  }
  const auto number = [](uint32_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
    return text;
  };
  const auto chunk = [&](const std::string& content) {
    const auto* bytes = reinterpret_cast<const Bytef*>(content.data());
    const uLong sum = crc32(0, bytes, static_cast<uInt>(content.size()));
    return number(static_cast<uint32_t>(content.size() - 4)) + content +
           number(static_cast<uint32_t>(sum));
  };
  std::string packed(compressBound(pixels.size()), '\0');
  uLongf size = packed.size();
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(pixels.data()), pixels.size()),
            Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR" + number(12) + number(10) + std::string("\x08\x02\0\0\0", 5)) +
         chunk("IDAT" + packed) + chunk("IEND");
}

constexpr char kColourModel[] = R"(x = input f32[16,3,8,8]
w = param f32[2,3]
b = param f32[2]
mean = ReduceMean(x) {axes=[2,3], keepdims=0}
logits = Gemm(mean, w, b) {trans_b=1}
output logits
)";

class ImagesTest : public DataFormatsTest {
 protected:
  // 40 shades of red and of blue.
  void SetUp() override {
    DataFormatsTest::SetUp();
    for (int i = 0; i < 40; ++i) {
      root_.Write(absl::StrCat("set/red/", i, ".png"), Plain(150 + i, 2 * i, 40));
      root_.Write(absl::StrCat("set/blue/", i, ".png"), Plain(2 * i, 40, 150 + i));
    }
    spec_ = Spec(kColourModel, absl::StrCat("data:\n  train: {images: ", root_.path(), "/set}\n",
                                            "  val: {images: ", root_.path(), "/set}\n", R"(
  augment:
    train: [{random_resized_crop: 8}, hflip, normalize]
    val: [{resize: 9}, {center_crop: 8}, normalize]
bind: {x: image}
stop: {epochs: 8}
)"));
  }
  std::string HashOf(const std::string& job) const {
    EXPECT_EQ(Ebb({"watch", job}).code, 0);
    return EbbJson({"get", job, "--sha256"})["sha256"].get<std::string>();
  }
  std::string spec_;
};

TEST_F(ImagesTest, AFolderTrainsAndNeighboursDoNotMatter) {
  EXPECT_EQ(Trained(spec_)["metrics"]["val/accuracy"], 1);
  const std::string alone = HashOf(EbbJson({"submit", spec_})["id"]);
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(EbbJson({"submit", spec_})["id"]);
  for (const std::string& id : ids) EXPECT_EQ(HashOf(id), alone);
  const std::string other = EbbJson({"submit", spec_, "--set", "seed={init: 1, data: 2}"})["id"];
  EXPECT_NE(HashOf(other), alone);
}

TEST_F(ImagesTest, MistakesAreRefusedAtSubmit) {
  root_.Write("bad/red/1.png", "no image");
  root_.Write("flat/1.png", Plain(1, 2, 3));
  dir_.Write("outside/red/1.png", Plain(1, 2, 3));
  const std::string images = "data.train.images=" + root_.path();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {images + "/bad", "/bad: \"red/1.png\": it is neither PNG nor JPEG"},
      {images + "/flat", "\"1.png\" is in no class"},
      {images + "/none", "none does not lead to a file inside"},
      {"data.train.images=" + dir_.path() + "/outside", "does not lead to a file inside"},
      {"data.augment.train=[]",
       "\"blue/0.png\" becomes [3,10,12], but the model input takes [3,8,8]"},
      {"data.augment.train=[{center_crop: 0}]", "data.augment.train[0] says 0 pixels"},
      {"data.augment.train=[normalize, {center_crop: 8}]", "normalize is not the last"},
      {"data.augment.field=label", "field \"label\" is not \"image\""},
      {"data.train.window=3", "data.train.window is not for images"},
  };
  for (const auto& [assignment, message] : cases) {
    const Outcome outcome = Ebb({"submit", spec_, "--set", assignment});
    EXPECT_NE(outcome.code, 0) << assignment << ": " << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr(message)) << assignment;
  }
}

TEST_F(ImagesTest, AFileThatIsDamagedLaterEndsItsOwnJobOnly) {
  const std::string good = Plain(150, 0, 40);
  root_.Write("later/red/1.png", good);
  for (int i = 0; i < 31; ++i) root_.Write(absl::StrCat("later/blue/", i, ".png"), good);
  const std::string images = "data={train: {images: " + root_.path() +
                             "/later}, augment: " + "{train: [{random_resized_crop: 8}]}}";
  const std::string job =
      EbbJson({"submit", spec_, "--set", images, "--set", "stop={steps: 1000000}"})["id"];
  const std::string other = EbbJson({"submit", spec_, "--set", "stop={epochs: 20}"})["id"];
  WatchUntil(job, [](const v1::WatchResponse& update) { return update.job().step() > 2; });
  root_.Write("later/red/1.png", good.substr(0, 60));
  EXPECT_NE(Ebb({"watch", job}).code, 0);
  const Json ended = EbbJson({"show", job});
  EXPECT_EQ(ended["state"], "failed");
  EXPECT_EQ(ended["reason"], "data");
  EXPECT_THAT(ended["message"].get<std::string>(),
              HasSubstr("\"red/1.png\": the file has been changed since the job was submitted"));
  EXPECT_EQ(Ebb({"watch", other}).code, 0);
}

}  // namespace
}  // namespace ebb::e2e
