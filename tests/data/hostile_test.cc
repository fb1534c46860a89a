// Damaged files of every format: cut at every length, and with bits flipped at random. They may be
// refused or, when the damage hits values only, read; they must not crash or take memory at will.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "data/dataset.h"
#include "tests/data/files.h"

namespace ebb::data {
namespace {

struct Case {
  const char* name;
  std::string file;
  std::vector<SparseRule> sparse = {};
};

std::vector<Case> Cases() {
  const std::string npy = Npy("<f4", "(4, 3)", BytesOf<float>(std::vector<float>(12, 1)));
  return {
      {"npy", npy},
      {"npy version 3", Fixture("version3.npy")},
      {"npz", Fixture("plain.npz")},
      {"npz compressed", Fixture("compressed.npz")},
      {"npz plain zip", Zip({{"a.npy", npy}, {"b.npy", npy}}, ZipMethod::kDeflate)},
      {"idx", Idx(0x0D, {2, 1, 3}, BytesOf<float>(std::vector<float>(6, 1)))},
      {"safetensors", Fixture("plain.safetensors")},
      {"sparse npz", Fixture("sparse.npz"), {{"*", 3}}},
      {"csv", "a,\"b \"\"c\"\"\",d\r\n1,2.5e-1,3\n\n\"4\",nan,6\n"},
      {"gzip", Gzip("1,2,3\n4,5,6\n7,8,9\n") + Gzip("1,2,3\n")},
      {"gzipped npy", Gzip(npy)},
  };
}

// Whatever comes out of a damaged file is consistent.
void Parse(const std::string& file, const std::vector<SparseRule>& sparse = {}) {
  const auto set = ParseDataSet(file, {.sparse = sparse}, MiB(16));
  if (set.ok()) {
    EXPECT_GT((*set)->rows(), 0);
    EXPECT_LE((*set)->bytes(), MiB(64));  // the limit, widened four times at most
    for (const auto& [name, tensor] : (*set)->fields()) {
      EXPECT_EQ(tensor.type.shape[0], (*set)->rows());
      EXPECT_EQ(static_cast<int64_t>(tensor.data.size()), tensor.type.bytes().count());
    }
  } else {
    EXPECT_FALSE(set.status().message().empty());
  }
  ParseIndex(file, MiB(16)).IgnoreError();
}

TEST(HostileData, SurvivesATruncationAtEveryLength) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    const FileOptions options{.sparse = test.sparse};
    ASSERT_TRUE(ParseDataSet(test.file, options).ok()) << ParseDataSet(test.file, options).status();
    for (size_t length = 0; length < test.file.size(); ++length) {
      const std::string cut = test.file.substr(0, length);
      Parse(cut, test.sparse);
      // Text may end anywhere; binary formats know their length.
      if (std::string(test.name) != "csv" && std::string(test.name) != "gzip") {
        EXPECT_FALSE(ParseDataSet(cut, options).ok()) << "cut to " << length << " bytes";
      }
    }
  }
}

TEST(HostileData, MemoryIsAskedForBeforeItIsTaken) {
  std::vector<Case> cases = Cases();
  cases.push_back({"bomb", Gzip(std::string(8 << 20, '1'))});
  const std::string zeros = Npy("<f4", "(1048576, 2)", std::string(8 << 20, '\0'));
  cases.push_back({"npz bomb", Zip({{"a.npy", zeros}}, ZipMethod::kDeflate)});
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "1,2\n";
  cases.push_back({"much text", Gzip(text)});
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    Bytes asked;
    const auto set = ParseDataSet(test.file, {.sparse = test.sparse}, GiB(1), [&](Bytes bytes) {
      asked += bytes;
      return absl::OkStatus();
    });
    if (set.ok()) {
      EXPECT_GE(asked, (*set)->bytes());
    }
    // Who gives less gets an error, and no more is taken than was given.
    const Bytes given = asked / 2;
    Bytes left = given;
    const absl::Status refusal = absl::ResourceExhaustedError("no more");
    const auto less = ParseDataSet(test.file, {.sparse = test.sparse}, GiB(1), [&](Bytes bytes) {
      if (bytes > left) return refusal;
      left -= bytes;
      return absl::OkStatus();
    });
    EXPECT_TRUE(absl::StrContains(less.status().message(), "no more")) << less.status();
    EXPECT_EQ(less.status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(HostileData, SurvivesRandomDamage) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    for (unsigned seed = 0; seed < 3000; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      std::string file = test.file;
      const unsigned changes = 1 + random() % 4;
      for (unsigned i = 0; i < changes; ++i) {
        char& byte = file[random() % file.size()];
        switch (random() % 4) {
          case 0:
            byte = static_cast<char>(byte ^ (1 << random() % 8));
            break;
          case 1:
            byte = static_cast<char>(random());
            break;
          case 2:
            byte = '\xff';
            break;
          default:
            byte = '\0';
            break;
        }
      }
      Parse(file, test.sparse);
    }
  }
}

TEST(HostileData, SurvivesNoiseBehindEveryMagic) {
  const std::string magics[] = {
      std::string("\x93NUMPY\x01\x00", 8), "PK\x03\x04", "\x1f\x8b\x08",
      std::string("\0\0\x08\x02", 4),      "1,2\n",      std::string("\x20\0\0\0\0\0\0\0{", 9)};
  for (const std::string& magic : magics) {
    for (unsigned seed = 0; seed < 1000; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      std::string file = magic;
      for (unsigned i = random() % 200; i > 0; --i) file.push_back(static_cast<char>(random()));
      Parse(file);
    }
  }
}

}  // namespace
}  // namespace ebb::data
