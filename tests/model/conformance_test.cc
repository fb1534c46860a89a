// The ONNX project's node tests (Debian's libonnx-testdata): every one whose model Ebb can import
// runs on each host device. What is skipped is counted by reason; a reason that nobody has
// explained here fails the test, and so does a drop of the number that pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "device/device.h"
#include "model/onnx_proto.h"
#include "model/onnx_tensor.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;
using graph::HostTensor;
using model::onnx::ModelProto;

constexpr const char* kRoot = "/usr/share/libonnx-testdata/data/node";
// How many pass with libonnx-testdata 1.12. A few do with their inputs as constants, evaluated
// while importing, as in exported shape arithmetic.
constexpr std::pair<const char*, int> kRecorded[] = {{"ref", 709}, {"cpu", 688}};
constexpr int kFixtures = 43;
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

struct Explained {
  absl::string_view message;  // part of the importer's error, or a test's name
  absl::string_view reason;
};
// First match wins. An error that matches no row is a failure.
constexpr Explained kExplained[] = {
    {"which Ebb does not support", "an op that Ebb does not have"},
    {"element type", "an element type that Ebb does not have (float16, strings, narrow integers)"},
    {"is no tensor", "sequences and optionals"},
    {"the model uses opset", "an opset before 7"},
    {"does not say which opset", "only other domains (ai.onnx.preview.training)"},
    {"computed on shapes and constants only", "constants only, here it depends on data"},
    {"Indices output is not supported", "MaxPool's indices"},
    {"its mask output is not supported", "the mask of a Dropout that drops"},
    {"the statistics it computes",
     "BatchNormalization's statistics as outputs: state of the job here"},
    {"the most is 8", "rank above 8"},
    {"peepholes are not supported", "an LSTM with peepholes"},
    {"has no kernel on this device", "float64 on cpu: the oracle `ref` has it"},
    {"needs f32 or f64", "integers in an op that is float here"},
    {"'tf_crop_and_resize'", "Resize of a crop"},
    {"only keep_aspect_ratio_policy", "Resize that keeps the aspect ratio"},
    {"only one probability above 0", "Bernoulli of probabilities that are data"},
    {"past keys and values", "Attention with a cache"},
    {"only its first output", "Attention's scores as an output"},
    {"softcap together with a mask", "Attention with a softcap and a mask"},
    {"dilated average pooling", "averages over dilated windows"},
    {"dilations and ceil_mode", "averages over dilated windows"},
    {"no elements to reduce", "extremes and products of nothing"},
};

constexpr const char* kCorners =
    "Resize that aligns corners of a fraction of a position; here of whole ones, as in PyTorch";
// Tests that run, and differ on purpose.
constexpr Explained kDifferent[] = {
    {"test_dropout_default_old", "Dropout before opset 12 trains here, the test is for inference"},
    {"test_dropout_random_old", "Dropout before opset 12 trains here, the test is for inference"},
    {"test_resize_downsample_scales_cubic_align_corners", kCorners},
    {"test_resize_downsample_scales_linear_align_corners", kCorners},
    {"test_l2normalization_axis_0", "LpNormalization of zeros: not a number here"},
    {"test_reduce_max_empty_set_bool", "extremes and products of nothing"},
    {"test_training_dropout", "a Dropout that drops by numpy's generator"},
    {"test_training_dropout_default", "a Dropout that drops by numpy's generator"},
};

struct Case {
  std::string name;
  ModelProto model;
  std::vector<HostTensor> inputs, outputs;
};

absl::StatusOr<std::vector<HostTensor>> ReadTensors(
    const fs::path& dir, const std::string& prefix,
    const google::protobuf::RepeatedPtrField<model::onnx::ValueInfoProto>& infos) {
  std::vector<HostTensor> tensors;
  for (int i = 0; i < infos.size(); ++i) {
    if (!infos[i].type().has_tensor_type()) {
      return absl::UnimplementedError(absl::StrCat(infos[i].name(), " is no tensor"));
    }
    const fs::path path = dir / absl::StrCat(prefix, "_", i, ".pb");
    model::onnx::TensorProto proto;
    if (!proto.ParseFromString(testing::ReadBinary(path.string()))) {
      return absl::InternalError(absl::StrCat("damaged ", path.string()));
    }
    EBB_ASSIGN_OR_RETURN(HostTensor tensor, model::ReadTensor(proto, ""));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<Case> ReadCase(const fs::path& dir) {
  Case c;
  c.name = dir.filename().string();
  if (!c.model.ParseFromString(testing::ReadBinary((dir / "model.onnx").string()))) {
    return absl::InternalError("damaged model.onnx");
  }
  const fs::path data = dir / "test_data_set_0";
  EBB_ASSIGN_OR_RETURN(c.inputs, ReadTensors(data, "input", c.model.graph().input()));
  EBB_ASSIGN_OR_RETURN(c.outputs, ReadTensors(data, "output", c.model.graph().output()));
  return c;
}

// A file of tests/model/node: inputs and expected outputs are initializers of the model.
absl::StatusOr<Case> ReadFixture(const fs::path& path) {
  Case c;
  c.name = path.stem().string();
  if (!c.model.ParseFromString(testing::ReadBinary(path.string()))) {
    return absl::InternalError("damaged file");
  }
  auto* all = c.model.mutable_graph()->mutable_initializer();
  const auto given = *all;
  all->Clear();
  for (const auto& proto : given) {
    const bool input = absl::StartsWith(proto.name(), "input/");
    if (!input && !absl::StartsWith(proto.name(), "expected/")) {
      *all->Add() = proto;
      continue;
    }
    EBB_ASSIGN_OR_RETURN(HostTensor tensor, model::ReadTensor(proto, ""));
    (input ? c.inputs : c.outputs).push_back(std::move(tensor));
  }
  return c;
}

// Which inputs become initializers: what an exporter would have stored as constants.
enum class Fixed { kNone, kAllButFirst, kAll };

absl::StatusOr<model::ImportedModel> Import(const Case& c, Fixed fixed) {
  ModelProto model = c.model;
  for (size_t i = fixed == Fixed::kAll ? 0 : 1; fixed != Fixed::kNone && i < c.inputs.size(); ++i) {
    auto* added = model.mutable_graph()->add_initializer();
    added->set_name(model.graph().input(static_cast<int>(i)).name());
    added->set_data_type(model::OnnxFromDType(c.inputs[i].type.dtype));
    for (int64_t dim : c.inputs[i].type.shape) added->add_dims(dim);
    model::WriteTensor(c.inputs[i], added);
  }
  model::ImportOptions options;
  options.batch_size = 0;
  options.batch_norm = model::BatchNormMode::kAsExported;
  options.untie_uniform = true;
  return model::ImportOnnx(model.SerializeAsString(), options);
}

std::string Difference(const HostTensor& got, const HostTensor& want) {
  if (got.type != want.type) {
    return absl::StrCat(ToString(got.type), " instead of ", ToString(want.type));
  }
  const std::vector<double> a = testing::ToDoubles(got), b = testing::ToDoubles(want);
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::fabs(a[i] - b[i]) <= kAbsolute + kRelative * std::fabs(b[i]);
    if (!same) return absl::StrCat("element ", i, " is ", a[i], " instead of ", b[i]);
  }
  return "";
}

// Empty, or what is wrong on that device.
absl::StatusOr<std::string> RunOn(device::Device& device, const Case& c,
                                  const model::ImportedModel& model) {
  EBB_ASSIGN_OR_RETURN(const graph::Graph lowered, device.Lower(model.graph));
  EBB_ASSIGN_OR_RETURN(auto runner, testing::GraphRunner::Make(device, lowered));
  for (const auto& [name, tensor] : model.weights) EBB_RETURN_IF_ERROR(runner->Set(name, tensor));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string& name = c.model.graph().input(static_cast<int>(i)).name();
    const ValueId id = lowered.Find(name);
    if (!id.valid() || lowered.value(id).role != graph::Role::kInput) continue;
    EBB_RETURN_IF_ERROR(runner->Set(name, c.inputs[i]));
  }
  if (lowered.Find("ebb.rng").valid()) {
    EBB_RETURN_IF_ERROR(
        runner->Set("ebb.rng", HostTensor::Of<int64_t>(graph::DType::kI64, {2}, {1, 1})));
  }
  EBB_RETURN_IF_ERROR(runner->Run());
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const std::string wrong = Difference(runner->Get(lowered.outputs[i]), c.outputs[i]);
    if (!wrong.empty()) return absl::StrCat("output ", i, ": ", wrong);
  }
  return "";
}

struct Counts {
  std::map<std::string, int> runs;  // passed, by device
  int folds = 0;                    // of them with all inputs constant: evaluated while importing
  std::map<std::string, std::vector<std::string>> skipped;  // names by reason
};

// Runs one test; a failure that nobody has explained is a failure of the calling test.
void RunOne(const std::map<std::string, std::unique_ptr<device::Device>>& devices,
            const fs::path& dir, Counts* counts) {
  const std::string name = dir.stem().string();
  const auto skip = [&](const absl::Status& status) {
    for (const Explained& row : kExplained) {
      if (!absl::StrContains(status.message(), row.message)) continue;
      counts->skipped[std::string(row.reason)].push_back(name);
      return;
    }
    ADD_FAILURE() << name << ": no row explains: " << status;
  };
  const auto* different = std::find_if(std::begin(kDifferent), std::end(kDifferent),
                                       [&](const auto& row) { return row.message == name; });
  if (different != std::end(kDifferent)) {
    counts->skipped[std::string(different->reason)].push_back(name);
    return;
  }
  const auto c = dir.extension() == ".onnx" ? ReadFixture(dir) : ReadCase(dir);
  if (!c.ok()) return skip(c.status());
  absl::StatusOr<model::ImportedModel> model = Import(*c, Fixed::kNone);
  if (!model.ok()) model = Import(*c, Fixed::kAllButFirst);
  const bool folded = !model.ok();
  if (folded) model = Import(*c, Fixed::kAll);
  if (!model.ok()) return skip(model.status());
  absl::Status skipped;
  for (const auto& [device_name, device] : devices) {
    const auto wrong = RunOn(*device, *c, *model);
    if (wrong.ok() && wrong->empty()) {
      ++counts->runs[device_name];
    } else if (!wrong.ok() && absl::IsUnimplemented(wrong.status())) {
      skipped = wrong.status();
    } else {
      ADD_FAILURE() << name << " on " << device_name << ": "
                    << (wrong.ok() ? *wrong : wrong.status().ToString());
    }
  }
  if (!skipped.ok()) skip(skipped);
  if (folded) ++counts->folds;
}

Counts RunAll(const fs::path& root) {
  std::map<std::string, std::unique_ptr<device::Device>> devices;
  for (const char* name : {"ref", "cpu"}) devices[name] = *device::OpenDevice(name, {});
  std::set<fs::path> dirs;
  for (const auto& entry : fs::directory_iterator(root)) dirs.insert(entry.path());
  Counts counts;
  for (const fs::path& dir : dirs) RunOne(devices, dir, &counts);
  for (const auto& [name, runs] : counts.runs) {
    std::cout << runs << " node tests passed on " << name << ", " << counts.folds
              << " of them as constants while importing\n";
  }
  for (const auto& [reason, names] : counts.skipped) {
    std::cout << "skipped " << names.size() << ": " << reason << "\n";
  }
  return counts;
}

TEST(Conformance, NodeTestsPassOrAreSkippedForAKnownReason) {
  if (!fs::is_directory(kRoot)) GTEST_SKIP() << kRoot << " is absent: install libonnx-testdata";
  const Counts counts = RunAll(kRoot);
  for (const auto& [name, recorded] : kRecorded) EXPECT_GE(counts.runs.at(name), recorded) << name;
}

// Written by tests/model/node_fixtures.py; none is skipped.
TEST(Conformance, FixturesOfLaterOpsetsPass) {
  const Counts counts = RunAll(EBB_SOURCE_DIR "/tests/model/node");
  EXPECT_TRUE(counts.skipped.empty());
  for (const char* device : {"ref", "cpu"}) EXPECT_EQ(counts.runs.at(device), kFixtures) << device;
}

// Node tests of a newer onnx, written as files: their directory in EBB_NODE_TESTS.
TEST(Conformance, FurtherNodeTestsPass) {
  const char* root = std::getenv("EBB_NODE_TESTS");
  if (root == nullptr) GTEST_SKIP() << "EBB_NODE_TESTS names no directory of further tests";
  const Counts counts = RunAll(root);
  for (const auto& [reason, names] : counts.skipped) {
    std::cout << reason << ": " << absl::StrJoin(names, " ") << "\n";
  }
}

}  // namespace
}  // namespace ebb
