// ebb fabric: fabrics from programs that print as those of nccl-tests do, from logs and by name.
// No daemon runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/daemon/temp_dir.h"
#include "tests/e2e/process.h"

namespace ebb::e2e {
namespace {

using testing::HasSubstr;

const std::string kEbb = absl::StrCat(EBB_BINARY_DIR, "/bin/ebb");

// 20 us and 100 GB/s of busbw, in the columns of nccl-tests; as many ranks as -g says.
constexpr char kFake[] = R"sh(#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -g ] && n=$2; shift; done
case $0 in
  *all_reduce*) f=2 ;; *) f=1 ;;
esac
echo "# Collective test starting: ${0##*/}"
echo "# nThread 1 nGpus $n minBytes 1048576 maxBytes 268435456 step: 2(factor)"
i=0
while [ $i -lt $n ]; do
  echo "#  Rank  $i Group  0 Pid  7 on  host device  $i [0x07] NVIDIA A100-SXM4-40GB"
  i=$((i+1))
done
awk -v n=$n -v f=$f 'BEGIN { for (b = 1048576; b <= 268435456; b *= 2) {
  bus = f * (n - 1) / n; t = 20 + b * bus / 1e5; a = b / t / 1e3
  printf "%12d %12d float sum -1 ", b, b / 4
  printf "%.2f %.2f %.2f 0 %.2f %.2f %.2f 0\n", t, a, a * bus, t, a, a * bus } }'
echo "# Out of bounds values : 0 OK"
)sh";

class FabricTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    chmod(Path(name).c_str(), 0755);
  }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  Outcome Ebb(std::vector<std::string> args) const {
    args.insert(args.begin(), {kEbb, "fabric"});
    return RunProgram(args, {"EBB_SERVER=" + Path("no.sock")});
  }

  TempDir dir_;
};

TEST_F(FabricTest, IsMeasuredByTheProgramsThatAreThere) {
  Write("all_reduce_perf", kFake);
  Write("all_gather_perf", kFake);
  const Outcome made = Ebb({"measure", "--nccl-tests", dir_.path(), "--ranks", "2,4", "--name",
                            "lab", "-o", Path("lab.yaml")});
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_THAT(made.output, HasSubstr("lab.yaml  4 curves"));
  EXPECT_THAT(made.error, HasSubstr("sendrecv_perf is not there"));
  const Outcome shown = Ebb({"show", Path("lab.yaml"), "--json"});
  ASSERT_EQ(shown.code, 0) << shown.error;
  int measured = 0;
  const auto json = nlohmann::json::parse(shown.output);
  for (const auto& cell : json["predictions"]) {
    if (cell["bytes"] != 32 << 20 || !cell["in_hull"].get<bool>()) continue;
    const double work = cell["kind"] == "all_reduce" ? 2 : 1;
    const double n = cell["ranks"];
    EXPECT_NEAR(cell["median_us"], 20 + (32 << 20) * work * (n - 1) / n / 1e5, 0.02);
    ++measured;
  }
  EXPECT_EQ(measured, 4);
}

TEST_F(FabricTest, SaysWhatIsWrongWithTheProgramsAndWritesNothing) {
  Write("all_reduce_perf", "#!/bin/sh\necho 'CUDA failure: no device'\nexit 3\n");
  const Outcome failed =
      Ebb({"measure", "--nccl-tests", dir_.path(), "--ranks", "2", "-o", Path("x.yaml")});
  EXPECT_EQ(failed.code, 6);
  EXPECT_THAT(failed.error, HasSubstr("exit code 3; its last line: CUDA failure: no device"));
  EXPECT_NE(access(Path("x.yaml").c_str(), F_OK), 0);
  const Outcome none = Ebb({"measure", "--nccl-tests", Path("nowhere"), "--ranks", "2"});
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.error, HasSubstr("no program of nccl-tests"));
}

TEST_F(FabricTest, NeedsTwoGpusToBeMeasured) {
  if (access("/dev/nvidia1", F_OK) == 0) GTEST_SKIP() << "this machine has two GPUs";
  const Outcome outcome = Ebb({"measure"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.error, HasSubstr("GPUs here, and collectives need two"));
}

TEST_F(FabricTest, IsImportedFromLogs) {
  Write("all_reduce_perf", kFake);
  const Outcome log = RunProgram({Path("all_reduce_perf"), "-g", "8"});
  ASSERT_EQ(log.code, 0);
  Write("run.log", log.output);
  const Outcome made = Ebb({"import", Path("run.log"), "--name", "lab", "--preset", "a100-nvswitch",
                            "-o", Path("lab.yaml")});
  ASSERT_EQ(made.code, 0) << made.error;
  const std::string text = Read("lab.yaml");
  EXPECT_THAT(text, HasSubstr("name: \"lab\""));
  EXPECT_THAT(text, HasSubstr("- kind: all_reduce\n  ranks: 8\n"));
  EXPECT_THAT(text, HasSubstr("link: nvswitch"));
  const Outcome shown = Ebb({"show", Path("lab.yaml")});
  EXPECT_EQ(shown.code, 0) << shown.error;
  EXPECT_THAT(shown.output, HasSubstr("measured: all_reduce of 8 ranks"));
  EXPECT_THAT(shown.output, HasSubstr("by volume from all_reduce"));
  const Outcome twice = Ebb({"import", Path("run.log"), Path("run.log"), "-o", Path("two.yaml")});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.error, HasSubstr("is there already"));
  Write("cut.log", log.output.substr(0, log.output.size() - 60));
  const Outcome cut = Ebb({"import", Path("cut.log"), "-o", Path("cut.yaml")});
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.error, HasSubstr("cut.log:19: "));
}

TEST_F(FabricTest, IsShownByName) {
  const Outcome all = Ebb({"show"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.output, HasSubstr("a100-nvswitch"));
  const Outcome one = Ebb({"show", "h100-ib400", "--ranks", "16"});
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.output, HasSubstr("a priori: topology of h100-ib400"));
  EXPECT_EQ(Ebb({"show", "nothing"}).code, 4);
  EXPECT_EQ(Ebb({"show", "pcie4", "--ranks", "1"}).code, 2);
  EXPECT_EQ(Ebb({"draw"}).code, 2);
}

}  // namespace
}  // namespace ebb::e2e
