#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "device/sim/profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::device {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TextOf(const std::string& profile) {
  std::ifstream file(absl::StrCat(EBB_SOURCE_DIR, "/sim/", profile, ".yaml"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty());
  return text.str();
}

// What is said of the V100's profile with `from` replaced by `to`.
std::string ErrorWith(const std::string& from, const std::string& to) {
  const std::string text = TextOf("v100-16gb");
  EXPECT_THAT(text, HasSubstr(from));
  const auto profile = ParseSimProfile(absl::StrReplaceAll(text, {{from, to}}), "p.yaml");
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument) << to;
  return std::string(profile.status().message());
}

TEST(SimProfile, TheBuiltInOnesAreTheFilesOfTheRepository) {
  EXPECT_THAT(BuiltinSimProfiles(),
              ElementsAre("a100-40gb", "h100-80gb", "h200-141gb", "v100-16gb"));
  for (const std::string& name : BuiltinSimProfiles()) {
    const auto profile = LoadSimProfile(name);
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->key, name);
    EXPECT_EQ(profile->sha256, Sha256Hex(TextOf(name)));
  }
  const auto v100 = LoadSimProfile("v100-16gb");
  EXPECT_EQ(v100->memory(), GiB(15));
  EXPECT_EQ(v100->granule(), MiB(2));
  EXPECT_DOUBLE_EQ(v100->flops_per_us(), 11e6);
  EXPECT_DOUBLE_EQ(v100->bytes_per_us(), 720e3);
  EXPECT_DOUBLE_EQ(v100->bus_bytes_per_us(), 12e3);
  EXPECT_EQ(LoadSimProfile("h100-80gb")->memory(), GiB(78));
}

TEST(SimProfile, AFileIsReadByItsName) {
  const std::string path = absl::StrCat(EBB_SOURCE_DIR, "/sim/h100-80gb.yaml");
  const auto profile = LoadSimProfile(path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->key, path);
  EXPECT_EQ(profile->multiprocessors, 132);
  EXPECT_EQ(LoadSimProfile("/nonexistent.yaml").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(LoadSimProfile("v100").status().message()),
              AllOf(HasSubstr("\"v100\""), HasSubstr("v100-16gb"), HasSubstr(".yaml")));
}

TEST(SimProfile, SomeConstantsCanBeReplaced) {
  const SimProfile v100 = *LoadSimProfile("v100-16gb");
  const auto other = OverrideSimProfile(v100, "launch_us: 10\nbandwidth_gbs: 360\n", "o.yaml");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(other->sha256, v100.sha256);
  EXPECT_EQ(other->key, "v100-16gb with o.yaml");
  const auto before = ConstantsOf(v100), after = ConstantsOf(*other);
  ASSERT_EQ(before.size(), after.size());
  std::map<std::string, double> changed;
  for (size_t c = 0; c < before.size(); ++c) {
    if (before[c] != after[c]) changed.insert(after[c]);
  }
  EXPECT_THAT(changed, ElementsAre(std::pair("bandwidth_gbs", 360), std::pair("launch_us", 10)));
  for (const auto& [text, words] :
       {std::pair("lunch_us: 10", "o.yaml:1: lunch_us: there is no such constant"),
        std::pair("granule_kib: 3000", "power of two"), std::pair("- 1", "mapping"),
        std::pair("step_us: 1\nstep_us: 2", "given twice")}) {
    const absl::Status status = OverrideSimProfile(v100, text, "o.yaml").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
}

TEST(SimProfile, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(ErrorWith("peak_tflops:", "peak_flops:"),
              AllOf(HasSubstr("p.yaml:7: peak_flops"), HasSubstr("no such constant")));
  EXPECT_THAT(ErrorWith("bandwidth_gbs: 720", "bandwidth_gbs: -720"),
              AllOf(HasSubstr("p.yaml:8: bandwidth_gbs: -720"), HasSubstr("from 0.001")));
  EXPECT_THAT(ErrorWith("bus_gbs: 12", "bus_gbs: 0"), HasSubstr("bus_gbs: 0 is not"));
  for (const char* bad :
       {".nan", "nan", ".inf", "inf", "1e999", "fast", "''", "[1]", "{a: 1}", "~"}) {
    EXPECT_THAT(ErrorWith("launch_us: 5", absl::StrCat("launch_us: ", bad)),
                HasSubstr("launch_us: "))
        << bad;
  }
  EXPECT_THAT(ErrorWith("multiprocessors: 80", "multiprocessors: 80.5"), HasSubstr("whole"));
  EXPECT_THAT(ErrorWith("granule_kib: 2048", "granule_kib: 2047"), HasSubstr("power of two"));
  EXPECT_THAT(ErrorWith("alignment_bytes: 256", "alignment_bytes: 96"), HasSubstr("power of two"));
  EXPECT_THAT(ErrorWith("memory_gib: 15.0", "memory_gib: 0.001"), HasSubstr("granule"));
  EXPECT_THAT(ErrorWith("step_us: 200", "launch_us: 5"),
              AllOf(HasSubstr("launch_us"), HasSubstr("given twice")));
  EXPECT_THAT(ErrorWith("interference: 0.03", "# nothing"),
              HasSubstr("missing: interference; a profile has every constant"));
  EXPECT_THAT(ErrorWith("name: Tesla", "? [a]\n: 1\nname: Tesla"), HasSubstr("must be a name"));
}

TEST(SimProfile, ThePageNamesEveryConstant) {
  std::ifstream file(absl::StrCat(EBB_SOURCE_DIR, "/docs/device_sim.md"));
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = TextOf("v100-16gb");
  int constants = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(": ");
    if (colon == absl::string_view::npos || line[0] == '#' || line.substr(0, colon) == "name")
      continue;
    ++constants;
    EXPECT_THAT(page.str(), HasSubstr(absl::StrCat("`", line.substr(0, colon), "`")));
  }
  EXPECT_GE(constants, 23);
}

TEST(SimProfile, WhatIsNoMappingIsRefused) {
  for (const std::string& text : std::vector<std::string>{
           "", "# only a comment\n", "- 1\n- 2\n", "42", "a: [", "\xff\xfe\x01",
           std::string(100, '\0'), "a: &x 1\nb: *y\n", "%YAML 9.9\n---\na: 1", "a: 1\n---\nb: 2\n",
           std::string(60000, '['), std::string(100000, 'x')}) {
    const auto profile = ParseSimProfile(text, "p.yaml");
    EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument)
        << text.substr(0, 40) << ": " << profile.status();
    EXPECT_THAT(std::string(profile.status().message()), HasSubstr("p.yaml:"));
  }
}

TEST(SimProfile, NoCutOfAProfileIsTakenForOne) {
  const std::string text = TextOf("v100-16gb");
  const size_t last = text.find("alignment_bytes:");
  for (size_t length = 0; length < last; length += 7) {
    EXPECT_FALSE(ParseSimProfile(text.substr(0, length), "p.yaml").ok()) << length;
  }
}

}  // namespace
}  // namespace ebb::device
