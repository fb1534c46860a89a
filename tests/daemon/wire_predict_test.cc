// Requests for predictions from hostile hands: each an error that names the field.
#include "daemon/wire_predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "perfmodel/sample.h"

namespace ebb::daemon {
namespace {

using testing::HasSubstr;

v1::PredictRequest Good() {
  v1::PredictRequest request;
  request.add_gpus(4);
  request.add_gpus(1);
  request.add_gpus(4);
  request.add_hardware("a100-80gb");
  request.add_hardware("h100-80gb");
  request.add_fabrics()->set_name("a100-nvswitch");
  return request;
}

void Refused(const std::function<void(v1::PredictRequest*)>& spoil, absl::StatusCode code,
             const std::string& message) {
  v1::PredictRequest request = Good();
  spoil(&request);
  const auto asked = AskedFromWire(request);
  EXPECT_EQ(asked.status().code(), code) << asked.status();
  EXPECT_THAT(std::string(asked.status().message()), HasSubstr(message));
}

TEST(WirePredict, ReadsWhatIsAsked) {
  v1::PredictRequest request = Good();
  request.add_price_per_gpu_hour(2);
  const auto asked = AskedFromWire(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->gpus, (std::vector<int64_t>{1, 4}));
  ASSERT_EQ(asked->hardware.size(), 2u);
  EXPECT_EQ(asked->hardware[1].hardware.key, "h100-80gb");
  EXPECT_EQ(asked->hardware[1].price, 2);
  EXPECT_EQ(asked->hardware[1].fabric, asked->hardware[0].fabric);
  EXPECT_EQ(asked->hardware[0].fabric->name(), "a100-nvswitch");
  const auto candidates = CandidatesOf(*asked, 4, 64);
  ASSERT_TRUE(candidates.ok());
  EXPECT_EQ(*candidates, (std::vector<perfmodel::Strategy>{{.data = 4}}));
}

TEST(WirePredict, ComparesThoseOfTheNumberOfGpus) {
  v1::PredictRequest request = Good();
  request.add_strategies("dp4");
  request.add_strategies("dp2-tp2");
  auto asked = AskedFromWire(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(CandidatesOf(*asked, 4, 64)->size(), 2u);
  EXPECT_EQ(CandidatesOf(*asked, 1, 64)->size(), 0u);
  request.clear_strategies();
  request.add_strategies("all");
  asked = AskedFromWire(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_GT(CandidatesOf(*asked, 4, 64)->size(), 8u);
  request.add_gpus(7);
  asked = AskedFromWire(request);
  const auto seven = CandidatesOf(*asked, 7, 64);
  ASSERT_TRUE(seven.ok()) << seven.status();
  for (const perfmodel::Strategy& one : *seven) EXPECT_EQ(one.data, 1);
}

TEST(WirePredict, RefusesNumbersThatAreNone) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  using Request = v1::PredictRequest;
  Refused([](Request* r) { r->clear_gpus(); }, kInvalid, "gpus has 0 entries");
  Refused([](Request* r) { r->add_gpus(0); }, kInvalid, "gpus is 0; it must be between 1 and 4096");
  Refused([](Request* r) { r->add_gpus(1'000'000'000); }, kInvalid, "gpus is 1000000000");
  Refused([](Request* r) { r->set_batch_size(-1); }, kInvalid, "batch_size is -1");
  Refused([](Request* r) { r->set_steps(-1); }, kInvalid, "steps is -1");
  Refused([](Request* r) { r->add_price_per_gpu_hour(NAN); }, kInvalid,
          "price_per_gpu_hour is nan");
  Refused([](Request* r) { r->add_price_per_gpu_hour(-1); }, kInvalid, "price_per_gpu_hour is -1");
  Refused([](Request* r) { r->set_launch_us(INFINITY); }, kInvalid, "launch_us is inf");
  Refused([](Request* r) { r->mutable_price_per_gpu_hour()->Resize(3, 1.0); }, kInvalid,
          "3 entries for 2 kinds of hardware");
}

TEST(WirePredict, RefusesNamesThatNothingHas) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  using Request = v1::PredictRequest;
  Refused([](Request* r) { r->clear_hardware(); }, kInvalid, "hardware has 0 entries");
  Refused([](Request* r) { r->add_hardware("abacus"); }, kNotFound, "no hardware 'abacus'");
  Refused([](Request* r) { r->clear_fabrics(); }, kInvalid, "more than one GPU needs to know");
  Refused([](Request* r) { r->mutable_fabrics(0)->set_name("string"); }, kNotFound, "fabrics[0]");
  Refused([](Request* r) { r->mutable_fabrics(0)->set_file("- ["); }, kInvalid,
          "fabrics[0].file:1:");
  Refused([](Request* r) { r->mutable_fabrics(0)->set_file(std::string(3 << 20, ' ')); }, kInvalid,
          "bytes; at most");
  Refused([](Request* r) { r->mutable_fabrics(0)->clear_kind(); }, kInvalid, "fabrics[0]");
  Refused([](Request* r) { r->add_strategies("dp0"); }, kInvalid, "strategies");
  Refused([](Request* r) { r->add_strategies("dp9000000000000000000-tp9"); }, kInvalid,
          "a part is");
  Refused([](Request* r) { r->add_strategies("dp3"); }, kInvalid, "'dp3' takes 3 GPUs");
  Refused(
      [](Request* r) {
        r->add_strategies("all");
        r->add_strategies("dp4");
      },
      kInvalid, "'all' stands alone");
  Refused([](Request* r) { r->add_calibrations("{}"); }, kInvalid, "calibrations[0]");
}

v1::ShardEmbeddingsRequest Tables() {
  v1::ShardEmbeddingsRequest request;
  for (int i = 0; i < 4; ++i) {
    v1::EmbeddingTable* table = request.add_tables();
    table->set_rows(100'000 * (i + 1));
    table->set_width(64);
    table->set_skew(0.5 * i);
  }
  request.set_ranks(2);
  request.set_batch_size(4096);
  request.set_hardware("a100-80gb");
  request.mutable_fabric()->set_name("a100-nvswitch");
  return request;
}

void Refused(const std::function<void(v1::ShardEmbeddingsRequest*)>& spoil, absl::StatusCode code,
             const std::string& message) {
  v1::ShardEmbeddingsRequest request = Tables();
  spoil(&request);
  const auto asked = AskedFromWire(request);
  EXPECT_EQ(asked.status().code(), code) << asked.status();
  EXPECT_THAT(std::string(asked.status().message()), HasSubstr(message));
}

TEST(WireShard, ReadsTablesAndWritesWhoHoldsThem) {
  const auto asked = AskedFromWire(Tables());
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->task.tables[3].name, "table 3");
  EXPECT_EQ(asked->task.tables[0].pooling, 1);
  EXPECT_EQ(asked->task.memory_bytes, 80.0 * (1 << 30));
  const auto plan = perfmodel::PlanShards(
      asked->task, perfmodel::LookUpModel::APriori(asked->hardware), *asked->fabric);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::ShardEmbeddingsResponse wire = ToWire(*asked, *plan);
  ASSERT_EQ(wire.placements_size(), 4);
  ASSERT_EQ(wire.ranks_size(), 2);
  for (const auto& placement : wire.placements()) EXPECT_GE(placement.ranks_size(), 1);
  EXPECT_NEAR(wire.step_us(), wire.forward_us() + wire.backward_us() + wire.exchange_us(), 1e-9);
  EXPECT_GE(wire.imbalance(), 1);
  EXPECT_FALSE(wire.in_hull());
  EXPECT_THAT(wire.bottleneck(), HasSubstr("of the step"));
}

TEST(WireShard, RefusesWhatIsNoTable) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  using Request = v1::ShardEmbeddingsRequest;
  Refused([](Request* r) { r->clear_tables(); }, kInvalid, "tables is 0");
  Refused([](Request* r) { r->mutable_tables(1)->set_rows(0); }, kInvalid, "tables[1].rows is 0");
  Refused([](Request* r) { r->mutable_tables(2)->set_width(-5); }, kInvalid,
          "tables[2].width is -5");
  Refused([](Request* r) { r->mutable_tables(0)->set_pooling(NAN); }, kInvalid,
          "tables[0].pooling is nan");
  Refused([](Request* r) { r->mutable_tables(0)->set_skew(-1); }, kInvalid, "tables[0].skew is -1");
  Refused(
      [](Request* r) {
        r->mutable_tables(0)->set_rows(int64_t{1} << 40);
        r->mutable_tables(0)->set_width(1 << 20);
      },
      kInvalid, "tables have");
  Refused([](Request* r) { r->set_ranks(0); }, kInvalid, "ranks is 0");
  Refused([](Request* r) { r->set_ranks(1'000'000'000); }, kInvalid, "ranks is 1000000000");
  Refused([](Request* r) { r->set_batch_size(0); }, kInvalid, "batch_size is 0");
  Refused([](Request* r) { r->set_memory_bytes(NAN); }, kInvalid, "memory_bytes is nan");
  Refused([](Request* r) { r->clear_fabric(); }, kInvalid, "fabric");
  Refused([](Request* r) { r->set_hardware(""); }, absl::StatusCode::kNotFound, "no hardware ''");
  Refused([](Request* r) { r->add_allowed("diagonal"); }, kInvalid,
          "'diagonal' is no way of sharding");
  Refused(
      [](Request* r) {
        for (int i = 0; i < 200; ++i) *r->add_tables() = r->tables(0);
        r->set_ranks(4096);
      },
      kInvalid, "tables x ranks x ranks");
}

// Kernels that take as long as their bytes do, and 5 us.
std::string Samples(int count, const std::string& device) {
  std::vector<perfmodel::OpSample> samples;
  for (int i = 0; i < count; ++i) {
    perfmodel::OpSample sample;
    sample.work = {.family = perfmodel::Family::kElementwise,
                   .m = 10'000 * (i + 1),
                   .flops = 10'000.0 * (i + 1),
                   .bytes = 80'000.0 * (i + 1)};
    sample.micros = 5 + sample.work.bytes / 1e6;
    sample.device = device;
    sample.repeats = 5;
    samples.push_back(sample);
  }
  return perfmodel::WriteSamples(samples);
}

TEST(WireCalibrate, MakesAModelThatPredictionsTake) {
  v1::CalibrateRequest calibrate;
  calibrate.set_hardware("a100-80gb");
  calibrate.set_samples(Samples(60, "card"));
  const auto response = Calibrated(calibrate);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->laws_size(), 1);
  EXPECT_EQ(response->laws(0).family(), "elementwise");
  EXPECT_EQ(response->laws(0).kernels(), 60);
  EXPECT_TRUE(response->laws(0).fitted());
  EXPECT_LT(response->laws(0).mape(), 5);
  v1::PredictRequest request = Good();
  request.add_calibrations(response->model());
  const auto asked = AskedFromWire(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->hardware[0].kernels, "calibration of a100-80gb");
  EXPECT_EQ(asked->hardware[1].kernels, "data sheet of h100-80gb");
  const auto micros = asked->hardware[0].ops->Predict({.family = perfmodel::Family::kElementwise,
                                                       .m = 255'000,
                                                       .flops = 255'000,
                                                       .bytes = 2'040'000});
  ASSERT_TRUE(micros.ok()) << micros.status();
  EXPECT_NEAR(micros->median, 7.04, 0.7);
  EXPECT_TRUE(micros->in_hull);
  request.clear_hardware();
  request.add_hardware("h100-80gb");
  EXPECT_THAT(std::string(AskedFromWire(request).status().message()),
              HasSubstr("calibrations[0] is of 'a100-80gb'"));
}

TEST(WireCalibrate, RefusesWhatIsNoMeasurement) {
  const auto refused = [](const std::string& hardware, const std::string& samples,
                          const std::string& device, const std::string& message) {
    v1::CalibrateRequest request;
    request.set_hardware(hardware);
    request.set_samples(samples);
    request.set_device(device);
    const auto response = Calibrated(request);
    EXPECT_FALSE(response.ok());
    EXPECT_THAT(std::string(response.status().message()), HasSubstr(message));
  };
  refused("abacus", Samples(60, "card"), "", "no hardware 'abacus'");
  refused("a100-80gb", "", "", "samples: there are none");
  refused("a100-80gb", "{}", "", "samples:1: ");
  refused("a100-80gb", Samples(60, "card"), "other", "'other' is none of the samples' devices");
  refused("a100-80gb", Samples(9, "card"), "", "at least 30 kernels");
  refused("a100-80gb", Samples(20'001, "card"), "", "at most 20000");
}

}  // namespace
}  // namespace ebb::daemon
