// Failures, stamps and concurrency of host devices, with kernels that the tests control: the kernel
// of the op "Call" calls the function that its input points to.
#include "device/host/host_device.h"

#include <atomic>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/op.h"
#include "gtest/gtest.h"

namespace ebb::device {
namespace {

using Function = std::function<absl::Status()>;

absl::StatusOr<Kernel> MakeCall(const graph::Graph&, const graph::Node&) {
  auto run = [](const KernelArgs& args) { return (*static_cast<Function*>(args.in[0]))(); };
  return Kernel{.run = run, .workspace = Bytes(0)};
}

class HostDeviceTest : public ::testing::Test {
 protected:
  // Calls `functions` in order on `stream`, as one launch. They must outlive it.
  void Call(StreamId stream, std::vector<Function>* functions) {
    auto graph = std::make_unique<graph::Graph>();
    auto bindings = std::make_unique<Bindings>();
    for (size_t i = 0; i < functions->size(); ++i) {
      const ValueId in = graph->AddValue("f", {}, graph::Role::kConstant);
      graph::Node node;
      node.id = NodeId(static_cast<int>(i));
      node.name = "call" + std::to_string(i);
      node.op = &call_;
      node.inputs = {in};
      graph->nodes.push_back(node);
      bindings->values.push_back(&(*functions)[i]);
      bindings->workspaces.push_back(nullptr);
    }
    programs_.push_back(*device_.Compile(*graph));
    device_.Launch(stream, {programs_.back().get(), bindings.get(), 0,
                            static_cast<int>(functions->size()) - 1});
    graphs_.push_back(std::move(graph));
    bindings_.push_back(std::move(bindings));
  }

  static DeviceSpec Spec() { return HostSpec("test", 1); }

  const graph::OpDef call_{.name = "Call"};
  std::vector<std::unique_ptr<graph::Graph>> graphs_;
  std::vector<std::unique_ptr<Bindings>> bindings_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::atomic<int> setups_ = 0;
  HostDevice device_{{.spec = Spec(),
                      .find_kernel = [](absl::string_view op) -> KernelFactory {
                        return op == "Call" ? MakeCall : nullptr;
                      },
                      .thread_setup = [this] { ++setups_; }}};
};

absl::Status Ok() { return absl::OkStatus(); }

TEST_F(HostDeviceTest, AFailureEndsItsLaunchAndIsReportedByTheNextEventOnly) {
  const StreamId stream = device_.CreateStream();
  int ran = 0;
  std::vector<Function> failing = {[&] { return ++ran, absl::OkStatus(); },
                                   [] { return absl::DataLossError("bad bytes"); },
                                   [&] { return ++ran, absl::OkStatus(); }};
  std::vector<Function> later = {[&] { return ran += 10, absl::InternalError("second"); }};
  std::vector<Function> fine = {[&] { return ran += 100, absl::OkStatus(); }};
  Call(stream, &failing);
  Call(stream, &later);
  const EventId first = device_.Record(stream);
  Call(stream, &fine);
  const EventId second = device_.Record(stream);
  device_.Synchronize(stream);
  EXPECT_EQ(ran, 111);  // the node after the failure did not run, the launches after it did
  const absl::Status status = device_.Query(first).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "node 'call1': bad bytes");
  EXPECT_TRUE(device_.Query(second).status.ok());
}

TEST_F(HostDeviceTest, AnExceptionOfAKernelBecomesAStatus) {
  const StreamId stream = device_.CreateStream();
  std::vector<Function> throwing = {
      []() -> absl::Status { throw std::runtime_error("vendor trouble"); }};
  Call(stream, &throwing);
  const EventId event = device_.Record(stream);
  device_.Synchronize(stream);
  EXPECT_EQ(device_.Query(event).status, absl::InternalError("node 'call0': vendor trouble"));
}

TEST_F(HostDeviceTest, TwoStreamsRunAtTheSameTime) {
  const StreamId a = device_.CreateStream();
  const StreamId b = device_.CreateStream();
  std::latch both(2);
  std::vector<Function> meet = {[&] { return both.arrive_and_wait(), absl::OkStatus(); }};
  Call(a, &meet);  // each returns only when the other has begun
  Call(b, &meet);
  device_.Synchronize(a);
  device_.Synchronize(b);
  EXPECT_EQ(setups_, 2);  // once on each worker
}

TEST_F(HostDeviceTest, AWaitHoldsWorkBackUntilTheEventIsComplete) {
  const StreamId a = device_.CreateStream();
  const StreamId b = device_.CreateStream();
  std::latch go(1);
  bool done = false, seen = false;
  std::vector<Function> slow = {[&] { return go.wait(), done = true, absl::OkStatus(); }};
  std::vector<Function> look = {[&] { return seen = done, absl::OkStatus(); }};
  Call(a, &slow);
  const EventId event = device_.Record(a);
  device_.Wait(b, event);
  Call(b, &look);
  const EventId after = device_.Record(b);
  EXPECT_FALSE(device_.Query(event).complete);
  EXPECT_FALSE(device_.Query(after).complete);
  go.count_down();
  device_.Synchronize(b);
  EXPECT_TRUE(seen);
}

TEST_F(HostDeviceTest, TimeSpentWaitingForAnotherStreamIsNotInTheStamps) {
  const StreamId a = device_.CreateStream();
  const StreamId b = device_.CreateStream();
  std::latch go(1);
  std::vector<Function> slow = {[&] { return go.wait(), absl::OkStatus(); }};
  std::vector<Function> quick = {Ok};
  Call(a, &slow);
  const EventId first = device_.Record(a);
  device_.Wait(b, first);
  Call(b, &quick);
  const EventId second = device_.Record(b);
  go.count_down();
  device_.Synchronize(b);
  EXPECT_GE(device_.Query(second).start, device_.Query(first).end);
}

TEST_F(HostDeviceTest, ProgressIsReportedForEveryEventThatCompletes) {
  const StreamId stream = device_.CreateStream();
  for (int i = 0; i < 300; ++i) {
    const EventId event = device_.Record(stream);
    while (!device_.Query(event).complete) device_.AwaitProgress(absl::InfiniteDuration());
    device_.Release(event);
  }
}

TEST_F(HostDeviceTest, DestroyingTheDeviceFinishesItsWork) {
  int ran = 0;
  std::vector<Function> count = {[&] { return ++ran, absl::OkStatus(); }};
  auto device = std::make_unique<HostDevice>(
      HostConfig{.spec = Spec(),
                 .find_kernel = [](absl::string_view) -> KernelFactory { return MakeCall; },
                 .thread_setup = {}});
  graph::Graph graph;
  graph::Node node;
  node.id = NodeId(0);
  node.name = "count";
  node.op = &call_;
  node.inputs = {graph.AddValue("f", {}, graph::Role::kConstant)};
  graph.nodes.push_back(node);
  auto program = *device->Compile(graph);
  Bindings bindings{.values = {count.data()}, .workspaces = {nullptr}};
  const StreamId stream = device->CreateStream();
  for (int i = 0; i < 50; ++i) device->Launch(stream, {program.get(), &bindings, 0, 0});
  device.reset();
  EXPECT_EQ(ran, 50);
}

}  // namespace
}  // namespace ebb::device
