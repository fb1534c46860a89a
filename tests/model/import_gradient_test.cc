// Gradients of imported ops where PyTorch's convention is not what the formula gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/training.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::DType;
using graph::HostTensor;
using ::testing::ElementsAre;

// Rows that are zero have norms in real models: the padding of shifted windows (Swin v2).
TEST(ImportedGradient, OfANormIsZeroAtZero) {
  testing::OnnxBuilder b;
  b.Input("x", {1}).Weight("w", testing::Floats({2, 2}, {3, 4, 0, 0}));
  b.Node("ReduceL2", {"w"}, {"n"}).With("axes", std::vector<int64_t>{1}).With("keepdims", 0);
  b.Node("ReduceSum", {"n"}, {"s"}).With("keepdims", 0).Node("Mul", {"s", "x"}, {"y"});
  b.Node("ReduceSum", {"y"}, {"loss"}).With("keepdims", 0).Output("loss");
  const auto model = b.Import({});
  ASSERT_TRUE(model.ok()) << model.status();
  graph::TrainingOptions options;  // plain gradient descent at rate 1: the change is the gradient
  options.loss.kind = graph::LossKind::kGraphOutput;
  options.loss.output = "loss";
  const auto training = graph::BuildTrainingGraph(model->graph, options);
  ASSERT_TRUE(training.ok()) << training.status();
  for (const char* name : {"ref", "cpu"}) {
    const auto device = device::OpenDevice(name, {});
    ASSERT_TRUE(device.ok()) << device.status();
    graph::TensorMap feeds = model->weights;
    feeds["x"] = HostTensor::Of<float>(DType::kF32, {1}, {1});
    feeds["ebb.hyper"] = HostTensor::Of<double>(DType::kF64, {4}, {1, 1, 0, 0});
    const auto results = testing::RunGraph(**device, *training, feeds);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT(
        testing::ToDoubles(results->at("w")),
        ElementsAre(::testing::DoubleNear(2.4, 1e-6), ::testing::DoubleNear(3.2, 1e-6), 0, 0))
        << name;
    EXPECT_FLOAT_EQ(testing::ToDoubles(results->at("metric/loss"))[0], 5) << name;
  }
}

}  // namespace
}  // namespace ebb
