// Safetensors written and read back, and files that are wrong in each way a header can be.
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::HasSubstr;

// A file of that header and data, whatever they say.
std::string File(const std::string& header, const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * i)));
  }
  return bytes + header + data;
}

std::string Error(const std::string& bytes) {
  const auto tensors = model::ReadSafetensors(bytes);
  EXPECT_FALSE(tensors.ok()) << bytes;
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

graph::TensorMap Some() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  graph::TensorMap map;
  map["layer.weight"] = testing::Floats({2, 3}, {0, -0.0f, 1e-42f, nan, 3e38f, -1});
  map["double"] = HostTensor::Of<double>(DType::kF64, {1}, {0.1});
  map["i32"] = HostTensor::Of<int32_t>(DType::kI32, {2}, {-1, 7});
  map["i64"] = HostTensor::Of<int64_t>(DType::kI64, {}, {int64_t{1} << 60});
  map["u8"] = HostTensor::Of<uint8_t>(DType::kU8, {3}, {0, 128, 255});
  map["flag"] = HostTensor::Of<uint8_t>(DType::kBool, {2}, {1, 0});
  map["empty"] = HostTensor::Zeros({DType::kF32, {0, 4}});
  map["quote\"\n\xc3\xa9"] = testing::Floats({1}, {5});
  return map;
}

TEST(Safetensors, ReturnEveryBitOfEveryType) {
  const graph::TensorMap map = Some();
  const auto back = model::ReadSafetensors(model::WriteSafetensors(map, {{"step", "12"}}));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), map.size());
  for (const auto& [name, tensor] : map) {
    EXPECT_EQ(back->at(name).type, tensor.type) << name;
    EXPECT_EQ(back->at(name).data, tensor.data) << name;
  }
}

TEST(Safetensors, AreTheSameBytesForTheSameTensors) {
  EXPECT_EQ(model::WriteSafetensors(Some(), {{"a", "b"}}),
            model::WriteSafetensors(Some(), {{"a", "b"}}));
}

TEST(Safetensors, LookAsTheFormatSays) {
  const std::string bytes = model::WriteSafetensors({{"w", testing::Floats({1}, {1})}});
  const std::string header = R"({"w":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_EQ(bytes.size(), 8 + padded + 4);
  EXPECT_EQ(static_cast<size_t>(bytes[0]), padded);
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  EXPECT_EQ(bytes.substr(8 + padded), std::string("\0\0\x80\x3f", 4));
}

TEST(Safetensors, ReadWhatOthersWrite) {
  // Tensors out of name order, with metadata and without padding.
  const auto read = model::ReadSafetensors(
      File(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[1],)"
           R"("data_offsets":[0,4]},"a":{"dtype":"BOOL","shape":[2],"data_offsets":[4,6]}})",
           std::string("\x05\0\0\0\x07\0", 6)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at("b").as<int32_t>()[0], 5);
  EXPECT_EQ(read->at("a").as<uint8_t>()[0], 1);  // any truth is 1
  EXPECT_EQ(read->count("__metadata__"), 0u);
}

TEST(Safetensors, SayWhatIsWrongWithAHeader) {
  EXPECT_THAT(Error("abc"), HasSubstr("shorter than"));
  EXPECT_THAT(Error(std::string(8, '\xff') + "{}"), HasSubstr("does not fit the file"));
  EXPECT_THAT(Error(File("[]")), HasSubstr("no JSON object"));
  EXPECT_THAT(Error(File("{\"w\":")), HasSubstr("no JSON object"));
  EXPECT_THAT(Error(File(R"({"w":{"shape":[1]}})")), HasSubstr("'w' lacks dtype"));
  EXPECT_THAT(Error(File(R"({"w":7})")), HasSubstr("'w' lacks dtype"));
  EXPECT_THAT(Error(File(R"({"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "ab")),
              HasSubstr("dtype BF16"));
}

TEST(Safetensors, SayWhichSizesAreWrong) {
  const auto with = [](const std::string& shape, const std::string& offsets) {
    return File(R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
                "12345678");
  };
  EXPECT_THAT(Error(with("[-1]", "[0,4]")), HasSubstr("no valid size"));
  EXPECT_THAT(Error(with("[1.5]", "[0,4]")), HasSubstr("no valid size"));
  EXPECT_THAT(Error(with("[99999999999,99999999999]", "[0,8]")), HasSubstr("'w'"));
  EXPECT_THAT(Error(with("[1073741824]", "[0,4294967296]")), HasSubstr("'w' lies at"));
  EXPECT_THAT(Error(with("[2]", "[8,0]")), HasSubstr("offsets 8 to 0"));
  EXPECT_THAT(Error(with("[3]", "[0,8]")), HasSubstr("do not hold f32[3]"));
  EXPECT_THAT(Error(with("[1]", "[4,8]")), HasSubstr("expected it at 0"));
  EXPECT_THAT(Error(with("[1]", "[0,4]")), HasSubstr("4 bytes after the last tensor"));
  EXPECT_THAT(Error(with("[1]", R"(["a","b"])")), HasSubstr("unsigned number"));
}

TEST(Safetensors, RefuseTensorsThatOverlap) {
  EXPECT_THAT(Error(File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                         "123456")),
              HasSubstr("'b' lies at 2 to 6; expected it at 4"));
}

TEST(Safetensors, CutOrDamagedTheyAreReadOrRefusedButNeverCrash) {
  const std::string valid = model::WriteSafetensors(Some(), {{"k", "v"}});
  for (size_t length = 0; length < valid.size(); ++length) {
    EXPECT_FALSE(model::ReadSafetensors(valid.substr(0, length)).ok()) << length;
  }
  std::mt19937 random(77);  // NOLINT: the same damage in every run
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = valid;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    }
    refused += model::ReadSafetensors(bytes).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
}

TEST(Safetensors, SurviveDeeplyNestedJson) {
  EXPECT_FALSE(model::ReadSafetensors(File(std::string(1000000, '['))).ok());
  EXPECT_FALSE(model::ReadSafetensors(File("{\"w\":" + std::string(1000000, '{'))).ok());
}

}  // namespace
}  // namespace ebb
