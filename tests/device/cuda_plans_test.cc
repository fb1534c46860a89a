// cuDNN's plans for convolutions on an H200, made where there is no GPU: from the record in
// device/cuda/profiles. Skipped where cuDNN's library is not.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "base/units.h"
#include "device/common/channels_last.h"
#include "device/cuda/cudnn.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/zoo_table.h"

namespace ebb::device::cuda {
namespace {

using ::testing::HasSubstr;

std::string H200() {
  std::ifstream in(EBB_SOURCE_DIR "/device/cuda/profiles/h200.json");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class CudaPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto version = CudnnVersion(); !version.ok()) GTEST_SKIP() << version.status();
  }
  static std::shared_ptr<Cudnn> Open() {
    auto cudnn = Cudnn::OpenOffline(H200());
    EXPECT_TRUE(cudnn.ok()) << cudnn.status();
    return cudnn.ok() ? *cudnn : nullptr;
  }
};

constexpr ConvKind kKinds[] = {ConvKind::kForward, ConvKind::kGradInput, ConvKind::kGradWeight};
constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kTf32, Precision::kBf16,
                                     Precision::kF16};

struct Square {
  int64_t batch, channels, size, filters, kernel, stride, pad;
};
ConvSpec SpecOf(ConvKind kind, Precision precision, const Square& s) {
  const int64_t out = (s.size + 2 * s.pad - s.kernel) / s.stride + 1;
  return {.kind = kind,
          .precision = precision,
          .x = {s.batch, s.channels, s.size, s.size},
          .w = {s.filters, s.channels, s.kernel, s.kernel},
          .y = {s.batch, s.filters, out, out},
          .strides = {s.stride, s.stride},
          .dilations = {1, 1},
          .pads_begin = {s.pad, s.pad},
          .pads_end = {s.pad, s.pad},
          .channels_last = true};
}

struct Workspaces {
  Square conv;
  int64_t bytes[3];  // forward, gradient of the input, of the weight
};
void ExpectWorkspaces(Cudnn& cudnn, Precision precision, absl::Span<const Workspaces> all) {
  for (const Workspaces& want : all) {
    for (int kind = 0; kind < 3; ++kind) {
      const auto conv = cudnn.Make(SpecOf(kKinds[kind], precision, want.conv));
      ASSERT_TRUE(conv.ok()) << conv.status();
      EXPECT_EQ((*conv)->workspace(), Bytes(want.bytes[kind])) << kind << " " << (*conv)->plan();
    }
  }
}

TEST_F(CudaPlans, OfCudnn919NeedTheWorkspaceThatWasMeasured) {
  if (*CudnnVersion() != 91900) GTEST_SKIP() << "cuDNN " << *CudnnVersion() << " plans otherwise";
  const std::shared_ptr<Cudnn> cudnn = Open();
  ASSERT_NE(cudnn, nullptr);
  const Workspaces measured[] = {
      {{32, 64, 56, 64, 3, 1, 1}, {131, 131, 295107}},
      {{32, 3, 224, 64, 7, 2, 3}, {19305232, 130359312, 134522000}},
      {{32, 256, 56, 64, 1, 1, 0}, {131, 131, 1179895}},
  };
  ExpectWorkspaces(*cudnn, Precision::kTf32, measured);
}

// Planned, not measured: a change is seen here before it is on hardware.
TEST_F(CudaPlans, OfCudnn919InBf16NeedLittleWorkspace) {
  if (*CudnnVersion() != 91900) GTEST_SKIP() << "cuDNN " << *CudnnVersion() << " plans otherwise";
  const std::shared_ptr<Cudnn> cudnn = Open();
  ASSERT_NE(cudnn, nullptr);
  const Workspaces planned[] = {
      {{32, 64, 56, 64, 3, 1, 1}, {131, 131, 295107}},
      {{32, 3, 224, 64, 7, 2, 3}, {25740304, 25943696, 31761552}},
      {{32, 256, 56, 512, 1, 2, 0}, {131, 131, 0}},
      {{32, 512, 7, 512, 3, 1, 1}, {524483, 524483, 131}},
  };
  ExpectWorkspaces(*cudnn, Precision::kBf16, planned);
}

// Asked in another order, by another object: the same plans.
TEST_F(CudaPlans, DependOnTheConvolutionAlone) {
  const Square convs[] = {
      {32, 64, 56, 64, 3, 1, 1}, {32, 256, 56, 512, 1, 2, 0}, {8, 512, 7, 512, 3, 1, 1}};
  for (const Precision precision : kPrecisions) {
    std::vector<ConvSpec> specs;
    for (const Square& square : convs) {
      for (const ConvKind kind : kKinds) specs.push_back(SpecOf(kind, precision, square));
    }
    std::vector<std::string> there, back;
    const std::shared_ptr<Cudnn> first = Open(), second = Open();
    ASSERT_TRUE(first != nullptr && second != nullptr);
    const auto text = [](const PlannedConvolution& conv) {
      return conv.plan() + " " + std::to_string(conv.workspace().count());
    };
    for (const ConvSpec& spec : specs) there.push_back(text(**first->Make(spec)));
    for (size_t i = specs.size(); i-- > 0;) back.push_back(text(**second->Make(specs[i])));
    std::reverse(back.begin(), back.end());
    EXPECT_EQ(there, back);
  }
}

// Only convolutions, by plans alone, as if the graph were of another precision.
class PlanningLibrary final : public Library {
 public:
  PlanningLibrary(std::shared_ptr<Cudnn> cudnn, Precision precision)
      : cudnn_(std::move(cudnn)), precision_(precision) {}
  absl::StatusOr<std::shared_ptr<const Product>> MakeProduct(const ProductSpec&) override {
    return absl::UnimplementedError("only convolutions are planned here");
  }
  absl::StatusOr<std::shared_ptr<const Convolution>> MakeConvolution(
      const ConvSpec& asked) override {
    ConvSpec spec = asked;
    spec.precision = precision_;
    auto conv = cudnn_->Make(spec);
    if (!conv.ok()) return conv.status();
    planned_ = (*conv)->workspace();
    most_ = MaxConvolutionWorkspace(spec);
    return std::shared_ptr<const Convolution>(*std::move(conv));
  }
  Bytes planned() const { return planned_; }  // of the last one
  Bytes most() const { return most_; }

 private:
  const std::shared_ptr<Cudnn> cudnn_;
  const Precision precision_;
  Bytes planned_, most_;
};

TEST_F(CudaPlans, AreThereForAllConvolutionsOfResNet50) {
  const auto training = testing::ZooTrainingGraph("resnet50", 32);
  ASSERT_TRUE(training.ok()) << training.status();
  const auto graph = ToChannelsLast(*training);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const Precision precision : kPrecisions) {
    SCOPED_TRACE(NameOf(precision));
    PlanningLibrary library(Open(), precision);
    int convolutions = 0;
    Bytes largest;
    for (const Node& node : graph->nodes) {
      if (!absl::StartsWith(node.op->name, "Conv")) continue;
      const LibraryKernelFactory make = FindLibraryKernel(node.op->name);
      ASSERT_NE(make, nullptr);
      const auto kernel = make(library, *graph, node);
      ASSERT_TRUE(kernel.ok()) << node.name << ": " << kernel.status();
      ++convolutions;
      EXPECT_EQ(kernel->workspace.count() % 256, 0) << node.name;
      EXPECT_GE(kernel->workspace, library.planned()) << node.name;
      EXPECT_LE(library.planned(), library.most()) << node.name;
      largest = std::max(largest, library.planned());
    }
    RecordProperty(NameOf(precision), FormatBytes(largest));
    EXPECT_EQ(convolutions, 53 + 53 + 52);  // no gradient of the images
  }
}

TEST_F(CudaPlans, AreThereForEveryFormOfConvolution) {
  std::vector<ConvSpec> specs = {
      {.x = {8, 16, 100},
       .w = {32, 16, 5},
       .y = {8, 32, 50},
       .strides = {2},
       .dilations = {1},
       .pads_begin = {2},
       .pads_end = {2}},
      {.x = {2, 8, 8, 16, 16},
       .w = {16, 8, 3, 3, 3},
       .y = {2, 16, 8, 16, 16},
       .strides = {1, 1, 1},
       .dilations = {1, 1, 1},
       .pads_begin = {1, 1, 1},
       .pads_end = {1, 1, 1}},
      {.x = {8, 32, 14, 14},
       .w = {32, 1, 3, 3},
       .y = {8, 32, 14, 14},
       .strides = {1, 1},
       .dilations = {1, 1},
       .pads_begin = {1, 1},
       .pads_end = {1, 1},
       .groups = 32,
       .channels_last = true},
      {.x = {8, 32, 14, 14},
       .w = {64, 8, 3, 3},
       .y = {8, 64, 7, 7},
       .strides = {2, 2},
       .dilations = {1, 1},
       .pads_begin = {1, 1},
       .pads_end = {1, 1},
       .groups = 4,
       .channels_last = true},
      {.x = {4, 16, 20, 20},
       .w = {16, 16, 3, 3},
       .y = {4, 16, 20, 20},
       .strides = {1, 1},
       .dilations = {2, 2},
       .pads_begin = {2, 2},
       .pads_end = {2, 2},
       .channels_last = true},
      {.x = {4, 3, 9, 7},
       .w = {5, 3, 3, 2},
       .y = {4, 5, 7, 6},
       .strides = {1, 1},
       .dilations = {1, 1},
       .pads_begin = {0, 0},
       .pads_end = {0, 0}},
  };
  for (const Precision precision : kPrecisions) {
    const std::shared_ptr<Cudnn> cudnn = Open();
    ASSERT_NE(cudnn, nullptr);
    for (ConvSpec& spec : specs) {
      spec.precision = precision;
      for (const ConvKind kind : kKinds) {
        spec.kind = kind;
        const auto conv = cudnn->Make(spec);
        EXPECT_TRUE(conv.ok()) << conv.status();
      }
    }
  }
}

TEST_F(CudaPlans, DoNotRunWithoutAGpu) {
  const auto conv =
      Open()->Make(SpecOf(ConvKind::kForward, Precision::kTf32, {1, 8, 8, 8, 3, 1, 1}));
  ASSERT_TRUE(conv.ok()) << conv.status();
  EXPECT_EQ((*conv)->Enqueue({}, nullptr, nullptr, nullptr, nullptr).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CudaPlans, NeedAWholeRecord) {
  EXPECT_EQ(Cudnn::OpenOffline("not JSON").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Cudnn::OpenOffline(R"({"deviceVer": 900})").status().ToString(), HasSubstr("cuDNN"));
}

}  // namespace
}  // namespace ebb::device::cuda
