// Launches that come again are replayed as CUDA graphs: the same bits, bounded in number, and with
// a way out where CUDA refuses.
#include <gtest/gtest.h>

#include "tests/device/cuda_double/chain.h"
#include "tests/device/cuda_double/open_double.h"

namespace ebb::testing {
namespace {

using Fault = DoubleApi::Fault;

constexpr char kText[] = "x = input f32[100]; y = Exp(x); z = Sigmoid(y); u = Tanh(z); output u";

std::vector<float> Numbers(float first) {
  std::vector<float> numbers(Chain::kFloats);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + 0.01f * static_cast<float>(i);
  return numbers;
}

class CudaGraphs : public ::testing::Test {
 protected:
  void Open(const CudaDoubleOptions& options) {
    chain_.reset();
    cuda_ = OpenCudaDouble(options);
    chain_ = std::make_unique<Chain>(cuda_.device.get(), kText);
    stream_ = cuda_.device->CreateStream();
  }
  // Launches at a place with these numbers and gives what comes out.
  std::vector<float> Run(float first, int place = 0) {
    const std::vector<float> x = Numbers(first);
    chain_->Set("x", x.data(), x.size() * sizeof(float), place);
    chain_->Launch(stream_, place);
    const absl::Status status = Finish(*cuda_.device, stream_);
    EXPECT_TRUE(status.ok()) << status;
    return chain_->Get("u", place);
  }
  std::vector<float> Plainly(float first) {
    Open({.graphs = false});
    return Run(first);
  }

  CudaDouble cuda_;
  std::unique_ptr<Chain> chain_;
  device::StreamId stream_;
};

TEST_F(CudaGraphs, TheSecondLaunchIsCapturedAndTheNextAreReplayedWithTheSameBits) {
  std::vector<std::vector<float>> plain;
  for (int i = 0; i < 5; ++i) plain.push_back(Plainly(static_cast<float>(i)));
  Open({});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Run(static_cast<float>(i)), plain[static_cast<size_t>(i)]);
  }
  const DoubleApi::Calls calls = cuda_.api->calls();
  EXPECT_EQ(calls.captures, 1);
  EXPECT_EQ(calls.graph_launches, 4);
  EXPECT_EQ(calls.kernels, 2 * 3);  // of the first launch, and captured
}

TEST_F(CudaGraphs, WithoutGraphsNothingIsCaptured) {
  Open({.graphs = false});
  for (int i = 0; i < 5; ++i) Run(1);
  EXPECT_EQ(cuda_.api->calls().captures, 0);
  EXPECT_EQ(cuda_.api->calls().graph_launches, 0);
}

TEST_F(CudaGraphs, AnotherPlaceIsAnotherGraph) {
  const std::vector<float> one = Plainly(1), two = Plainly(2);
  Open({});
  const int other = chain_->AddPlace();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Run(1), one);
    EXPECT_EQ(Run(2, other), two);
  }
  EXPECT_EQ(cuda_.api->calls().captures, 2);
}

TEST_F(CudaGraphs, AnotherStreamIsAnotherGraph) {
  Open({});
  const device::StreamId other = cuda_.device->CreateStream();
  for (int i = 0; i < 3; ++i) Run(1);
  std::swap(stream_, const_cast<device::StreamId&>(other));
  for (int i = 0; i < 3; ++i) Run(1);
  EXPECT_EQ(cuda_.api->calls().captures, 2);
}

TEST_F(CudaGraphs, OnlySoManyAreKeptAndThoseInUseAreNotDestroyed) {
  const std::vector<float> one = Plainly(1);
  Open({.max_graphs = 2});
  const std::vector<float> x = Numbers(1);
  chain_->Set("x", x.data(), x.size() * sizeof(float));
  for (int place = 1; place < 6; ++place) {
    chain_->AddPlace();
    chain_->Set("x", x.data(), x.size() * sizeof(float), place);
  }
  // All at once: what falls out of the cache may not have run yet (the double checks that).
  for (int round = 0; round < 3; ++round) {
    for (int place = 0; place < 6; ++place) {
      for (int i = 0; i < 3; ++i) chain_->Launch(stream_, place);
    }
  }
  EXPECT_TRUE(Finish(*cuda_.device, stream_).ok());
  EXPECT_EQ(cuda_.api->calls().captures, 3 * 6);
  for (int place = 0; place < 6; ++place) EXPECT_EQ(chain_->Get("u", place), one);
}

TEST_F(CudaGraphs, WhatCannotBeCapturedIsLaunchedPlainly) {
  const std::vector<float> one = Plainly(1);
  for (const Fault fault : {Fault::kEndCapture, Fault::kInstantiate, Fault::kLaunchGraph}) {
    Open({});
    cuda_.api->FailAt(fault, 1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Run(1), one);
    EXPECT_EQ(cuda_.api->calls().captures, 1) << static_cast<int>(fault);
    EXPECT_EQ(cuda_.api->calls().graph_launches, 0) << static_cast<int>(fault);
  }
}

TEST_F(CudaGraphs, AKernelThatIsRefusedWhileCapturedIsTriedPlainly) {
  const std::vector<float> one = Plainly(1);
  Open({});
  Run(1);
  cuda_.api->FailAt(Fault::kLaunch, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(1), one);
}

}  // namespace
}  // namespace ebb::testing
