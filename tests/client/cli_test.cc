#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "client/cli/args.h"
#include "client/cli/render.h"
#include "client/json.h"

namespace ebb::cli {
namespace {

using client::JsonStyle;
using client::ToJson;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Json, HoldsZerosAndPlainNumbers) {
  v1::Job job;
  job.set_id("j-1");
  job.set_state(v1::Job::STATE_RUNNING);
  job.set_held_bytes(int64_t{1} << 60);
  (*job.mutable_metrics())["train/loss"] = 0.5;
  (*job.mutable_metrics())["nan"] = std::numeric_limits<double>::quiet_NaN();
  job.mutable_started()->set_seconds(0);
  job.mutable_eta()->set_seconds(90);
  job.mutable_eta()->set_nanos(500000000);
  const auto json = nlohmann::json::parse(ToJson(job, JsonStyle::kOneLine));
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["reason"], "none");
  EXPECT_EQ(json["held_bytes"], int64_t{1} << 60);
  EXPECT_TRUE(json["held_bytes"].is_number_integer());
  EXPECT_EQ(json["step"], 0);
  EXPECT_EQ(json["warnings"], nlohmann::json::array());
  EXPECT_EQ(json["metrics"]["train/loss"], 0.5);
  EXPECT_TRUE(json["metrics"]["nan"].is_null());
  EXPECT_EQ(json["started"], "1970-01-01T00:00:00+00:00");
  EXPECT_TRUE(json["finished"].is_null());
  EXPECT_EQ(json["eta"], 90.5);
}

TEST(Json, MemoryHasTheDocumentedKeys) {
  v1::MemoryReport report;
  report.set_pool_bytes(8);
  (*report.mutable_classes())["free"] = 8;
  report.add_lanes()->mutable_bottom()->add_blocks();
  report.mutable_lanes(0)->mutable_top();
  report.mutable_overlap();
  const auto json = nlohmann::ordered_json::parse(ToJson(report, JsonStyle::kIndented));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("pool_bytes", "classes", "lanes", "jobs", "overlap", "host",
                                "outside_bytes"));
  const auto& lane = json["lanes"][0];
  for (const char* key : {"id", "size_bytes", "bottom", "top", "waiting_bytes", "free_bytes"}) {
    EXPECT_TRUE(lane.contains(key)) << key;
  }
  for (const char* key : {"job", "sub_model", "offset", "bytes", "state"}) {
    EXPECT_TRUE(lane["bottom"]["blocks"][0].contains(key)) << key;
  }
  for (const char* key : {"samples", "shared", "deep", "wall_us", "busy_us", "concurrent_us"}) {
    EXPECT_EQ(json["overlap"][key], 0) << key;
  }
}

TEST(Json, OfAOneofOnlyTheMemberThatIsSet) {
  v1::JobSpec spec;
  spec.mutable_loss()->mutable_mse();
  const auto json = nlohmann::json::parse(ToJson(spec, JsonStyle::kOneLine));
  EXPECT_TRUE(json["loss"].contains("mse"));
  EXPECT_FALSE(json["loss"].contains("cross_entropy"));
  EXPECT_TRUE(json["stop"].is_null());
}

TEST(Args, FlagsMayStandAnywhere) {
  const std::vector<Flag> flags = {{"watch", "", ""}, {"set", "K=V", ""}, {"o", "FILE", ""}};
  const auto args = Args::Parse(
      {"a", "--set", "x=1", "--watch", "b", "--set=y=2", "-o", "f", "--", "--c"}, flags);
  ASSERT_TRUE(args.ok()) << args.status();
  EXPECT_THAT(args->positional(), ElementsAre("a", "b", "--c"));
  EXPECT_THAT(args->All("set"), ElementsAre("x=1", "y=2"));
  EXPECT_TRUE(args->Has("watch"));
  EXPECT_EQ(args->Get("o"), "f");
  EXPECT_EQ(args->Get("p", "none"), "none");
}

TEST(Args, MistakesAreNamed) {
  const std::vector<Flag> flags = {{"watch", "", ""}, {"set", "K=V", ""}};
  EXPECT_THAT(std::string(Args::Parse({"--wach"}, flags).status().message()),
              HasSubstr("--watch?"));
  EXPECT_FALSE(Args::Parse({"--set"}, flags).ok());
  EXPECT_FALSE(Args::Parse({"--watch=1"}, flags).ok());
  EXPECT_FALSE(Args::Parse({"-watch"}, flags).ok());
}

TEST(Render, NumbersReadWell) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(9380), "9,380");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(ShortDuration(absl::Seconds(45)), "45s");
  EXPECT_EQ(ShortDuration(absl::Minutes(21)), "21m");
  EXPECT_EQ(ShortDuration(absl::Minutes(125)), "2h05m");
  EXPECT_EQ(ShortDuration(absl::Hours(72)), "3d");
  EXPECT_EQ(Bar(0.5, 4), "##..");
  EXPECT_EQ(Bar(7, 4), "####");
  EXPECT_EQ(Bar(std::numeric_limits<double>::quiet_NaN(), 4), "....");
}

TEST(Render, TheJobTableLinesUp) {
  v1::ListResponse list;
  v1::Job& running = *list.add_jobs();
  running.set_id("j-17");
  running.set_name("r18-pets");
  running.set_state(v1::Job::STATE_RUNNING);
  running.set_step(1204);
  running.set_batch_size(64);
  running.set_total_steps(9380);
  (*running.mutable_metrics())["train/loss"] = 0.412;
  running.set_share(0.48);
  running.set_step_peak_bytes(int64_t{3} << 30);
  running.mutable_eta()->set_seconds(1260);
  running.set_why("a wait of a moment");
  v1::Job& queued = *list.add_jobs();
  queued.set_id("j-19");
  queued.set_name("dlrm");
  queued.set_state(v1::Job::STATE_QUEUED);
  queued.set_why("needs a lane of 5.2 GiB");
  v1::ListResponse ended;
  v1::Job& stopped = *ended.add_jobs();
  stopped.set_state(v1::Job::STATE_SUCCEEDED);
  stopped.set_message("stopped early after step 40");
  EXPECT_THAT(JobTable(ended), testing::HasSubstr("stopped early after step 40"));
  EXPECT_EQ(
      JobTable(list),
      "JOB   NAME      STATE    STEP         BATCH  LOSS   MEM      SHARE  ETA  WHY\n"
      "j-17  r18-pets  running  1,204/9,380  64     0.412  3.0 GiB  48 %   21m\n"
      "j-19  dlrm      queued   -            -      -      -        -      -    needs a lane of "
      "5.2 GiB\n");
  EXPECT_EQ(WhyText(queued), "j-19 is queued: needs a lane of 5.2 GiB\n");
}

TEST(Render, AnEstimateHasAColumnADevice) {
  v1::EstimateResponse response;
  v1::Estimate& live = *response.add_estimates();
  live.set_device("live");
  live.set_text("after j-3 at about 14:02 (in 12 min)");
  live.set_batch_size(4096);
  live.set_resident_bytes(int64_t{3} << 20);
  live.set_two_bytes(int64_t{5} << 30);
  live.set_largest_batch_alone(1024);
  live.set_largest_batch_now(0);
  v1::Estimate& sim = *response.add_estimates();
  sim.set_device("sim:v100-16gb");
  sim.set_text("fits now");
  sim.set_copies(7);
  sim.mutable_step_time()->set_nanos(12'340'000);
  const std::string text = EstimateText(response);
  for (const char* line :
       {"                                 live     sim:v100-16gb\n",
        "batch size                       4,096    0\n",
        "resident state                   3.0 MiB  0 B\n",
        "taken by two                     5.0 GiB  0 B\n",
        "copies at once                   0        7\n",
        "largest batch, alone             1,024    bound\n",
        "largest batch, beside its equal  bound    bound\n",
        "largest batch, now               none     bound\n",
        "step alone (predicted)           -        12.34 ms\n",
        "\nlive: after j-3 at about 14:02 (in 12 min)\nsim:v100-16gb: fits now\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  sim.mutable_step_time()->set_seconds(2);
  EXPECT_THAT(EstimateText(response), HasSubstr("2.012 s\n"));
}

TEST(Render, TheLanePictureShowsBothTides) {
  v1::MemoryReport report;
  report.set_pool_bytes(1 << 20);
  (*report.mutable_classes())["resident"] = 1 << 19;
  (*report.mutable_classes())["free"] = 1 << 19;
  v1::MemoryReport::Lane& lane = *report.add_lanes();
  lane.set_size_bytes(40);
  lane.mutable_bottom()->set_job("j-17");
  lane.mutable_bottom()->set_held_bytes(9);
  lane.mutable_top()->set_job("j-18");
  lane.mutable_top()->set_held_bytes(10);
  lane.mutable_top()->set_waiting_bytes(2);
  lane.set_free_bytes(19);
  EXPECT_THAT(MemoryPicture(report),
              HasSubstr("pool 1.0 MiB   resident 512.0 KiB   free 512.0 KiB\n"));
  EXPECT_THAT(MemoryPicture(report),
              HasSubstr("j-17 |#########>.................<~~##########| j-18   52 % used\n"));
  EXPECT_THAT(MemoryPicture(report), Not(HasSubstr("outside")));
  report.set_outside_bytes(3 << 19);
  EXPECT_THAT(MemoryPicture(report), HasSubstr("free 512.0 KiB\noutside of the pool 1.5 MiB\n"));
  // What cannot be is drawn within the frame all the same.
  lane.mutable_bottom()->set_held_bytes(1000);
  EXPECT_THAT(MemoryPicture(report), HasSubstr("|########################################|"));
  lane.set_size_bytes(0);
  EXPECT_THAT(MemoryPicture(report), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace ebb::cli
