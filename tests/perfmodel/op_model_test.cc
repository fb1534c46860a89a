#include "perfmodel/op_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "perfmodel/calibrate.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;

Hardware A100() { return *FindHardware("a100-80gb"); }

Work Product(int64_t m, int64_t n, int64_t k) {
  Work work{.family = Family::kGemm, .m = m, .n = n, .k = k};
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  work.flops = 2 * d(m) * d(n) * d(k);
  work.bytes = 4 * (d(m) * d(k) + d(k) * d(n) + d(m) * d(n));
  return work;
}

// A device that waits 5 us, reaches 0.8 of its peaks, is slower for odd sizes, and is noisy.
double Truth(const Work& work, double noise) {
  const double odd = work.n % 2 == 1 ? 1.2 : 1;
  return odd * (5 + 1.25 * Roofline(work, PeakOf(work, A100()))) * std::exp(0.04 * (noise - 0.5));
}

std::vector<OpSample> Samples(uint32_t count) {
  std::vector<OpSample> samples;
  for (uint32_t i = 0; i < count; ++i) {
    const auto words = Philox({i, 0, 0, 0}, PhiloxKeyFrom(3));
    const auto size = [&](size_t at) {
      return static_cast<int64_t>(std::exp2(4 + 8 * UniformFloat(words[at])));
    };
    OpSample sample{.device = "gpu", .repeats = 5};
    sample.work = Product(size(0), size(1), size(2));
    sample.micros = Truth(sample.work, UniformFloat(words[3]));
    samples.push_back(sample);
  }
  return samples;
}

OpModel Fitted(const std::vector<OpSample>& samples) {
  auto calibration = Calibrate(A100(), samples, "gpu");
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  return std::move(calibration->model);
}

TEST(OpModelTest, LearnsWhatADeviceDoes) {
  const OpModel model = Fitted(Samples(400));
  double off = 0, covered = 0;
  const std::vector<OpSample> all = Samples(600);
  for (size_t i = 400; i < 600; ++i) {
    const Estimate told = *model.Predict(all[i].work);
    off += std::abs(told.median / all[i].micros - 1) / 200;
    if (told.low <= all[i].micros && all[i].micros <= told.high) covered += 1.0 / 200;
    EXPECT_THAT(told.source, HasSubstr("samples of NVIDIA A100"));
  }
  EXPECT_LT(off, 0.05);
  EXPECT_GT(covered, 0.65);
  EXPECT_LT(covered, 0.95);
}

TEST(OpModelTest, OrderDoesNotMatterAndSavedModelsPredictTheSameBits) {
  std::vector<OpSample> samples = Samples(200);
  const OpModel model = Fitted(samples);
  std::reverse(samples.begin(), samples.end());
  EXPECT_EQ(Fitted(samples).Save(), model.Save());
  const auto loaded = OpModel::Load(model.Save(), "m");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->Save(), model.Save());
  for (const OpSample& sample : Samples(300)) {
    const Estimate a = *model.Predict(sample.work), b = *loaded->Predict(sample.work);
    EXPECT_EQ(a.median, b.median);
    EXPECT_EQ(a.low, b.low);
    EXPECT_EQ(a.high, b.high);
  }
}

TEST(OpModelTest, NothingIsBelowTheRooflineOrFallsAsItDoubles) {
  const OpModel model = Fitted(Samples(300));
  const Rates peak = model.laws().at({Family::kGemm, graph::DType::kF32}).peak;
  for (int64_t size = 64; size <= 16384; size *= 2) {
    const Work work = Product(size, size, size);
    const Estimate told = *model.Predict(work);
    EXPECT_GE(told.low, Roofline(work, peak));
    EXPECT_LE(told.low, told.median);
    EXPECT_LE(told.median, told.high);
    for (const Work& more : {Product(2 * size, size, size), Product(size, 2 * size, size),
                             Product(size, size, 2 * size)}) {
      EXPECT_GE(model.Predict(more)->median, 0.98 * told.median) << ToString(more);
    }
  }
}

TEST(OpModelTest, OutsideWhatWasMeasuredIntervalsAreWiderAndFlagged) {
  const OpModel model = Fitted(Samples(300));
  const Estimate near = *model.Predict(Product(256, 256, 256));
  const Estimate far = *model.Predict(Product(1 << 20, 1 << 14, 1 << 14));
  EXPECT_FALSE(far.in_hull);
  EXPECT_GT(far.high / far.median, near.high / near.median);
}

TEST(OpModelTest, TheDataSheetAnswersForEveryFamilyAndIsMonotone) {
  const OpModel sheet = *OpModel::Make(A100());
  for (int family = 0; family <= static_cast<int>(Family::kAttention); ++family) {
    Work work{.family = static_cast<Family>(family), .m = 64, .n = 64, .k = 64};
    work.flops = 1e6, work.bytes = 1e5;
    double last = 0;
    for (int i = 0; i < 12; ++i, work.flops *= 2, work.bytes *= 2) {
      const auto told = sheet.Predict(work);
      ASSERT_TRUE(told.ok()) << told.status();
      EXPECT_GE(told->median, last) << ToString(work);
      EXPECT_FALSE(told->in_hull);
      EXPECT_THAT(told->source, HasSubstr("data sheet"));
      last = told->median;
    }
  }
  Work doubles{.dtype = graph::DType::kF64, .flops = 1, .bytes = 1};
  EXPECT_EQ(sheet.Predict(doubles).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(sheet.Predict(Work{})->median, 0);
  EXPECT_FALSE(OpModel::Make(Hardware{.name = "none"}).ok());
}

TEST(OpModelTest, FewSamplesAreRefused) {
  const auto few = Calibrate(A100(), Samples(29), "gpu");
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("at least 30"));
  EXPECT_TRUE(Calibrate(A100(), Samples(40), "gpu").ok());
}

TEST(OpModelTest, TensorCoresThatDoNotTakeBf16AreNotCounted) {
  const Hardware v100 = *FindHardware("v100-16gb"), a100 = A100();
  EXPECT_EQ(v100.product_flops_per_us(graph::DType::kF16), 125e6);
  EXPECT_EQ(v100.product_flops_per_us(graph::DType::kBF16), 15.7e6);
  EXPECT_EQ(a100.product_flops_per_us(graph::DType::kBF16), 312e6);
}

TEST(OpModelTest, DamagedModelsAreRefused) {
  const std::string good = Fitted(Samples(80)).Save();
  for (size_t cut = 0; cut + 2 < good.size(); cut += good.size() / 97 + 1) {
    EXPECT_FALSE(OpModel::Load(good.substr(0, cut), "m").ok()) << cut;
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return OpModel::Load(text, "m.json").status();
  };
  EXPECT_THAT(std::string(with("\"version\":1", "\"version\":2").message()), HasSubstr("version"));
  EXPECT_FALSE(with("\"trees\":[[[", "\"trees\":[[[99,0,1,2,0],[").ok());
  EXPECT_FALSE(with("\"trees\":[[[", "\"trees\":[[[0,0,0,0,0],[").ok());  // a circle
  EXPECT_FALSE(with("\"coefficients\":[", "\"coefficients\":[-1,").ok());
  EXPECT_FALSE(with("\"places\":[[", "\"places\":[[1],[").ok());
  EXPECT_FALSE(with("\"peak\":[", "\"peak\":[0,").ok());
}

}  // namespace
}  // namespace ebb::perfmodel
