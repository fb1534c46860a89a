// What every device must do, whatever its kernels: run once for each that the program names
// (contract_devices.h). What asks for values is skipped on a device that computes none.
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/strip.h"
#include "device/check/race_check.h"
#include "device/device.h"
#include "gmock/gmock.h"
#include "graph/op.h"
#include "gtest/gtest.h"
#include "tests/device/contract_devices.h"

namespace ebb::device {
namespace {

using graph::DType;
using ::testing::HasSubstr;

class DeviceContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    absl::string_view name = GetParam();
    const bool checked = absl::ConsumePrefix(&name, "checked_");
    name_ = std::string(name);
    auto device = OpenDevice(name_, {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    if (!checked) return;
    device_ = CheckRaces(std::move(device_),
                         {.on_fault = [](const std::string& fault) { ADD_FAILURE() << fault; }});
  }

  void TearDown() override {
    for (const auto& [base, bytes] : taken_) {
      device_->granules().Decommit(base, Bytes(0), bytes);
      device_->granules().Unreserve(base, bytes);
    }
  }

  // Memory of the device for `count` of them, until the test ends.
  template <class T>
  T* Take(size_t count) {
    memory::GranuleSource& granules = device_->granules();
    const Bytes bytes = AlignUp(Bytes(static_cast<int64_t>(count * sizeof(T))), granules.granule());
    const auto base = granules.Reserve(bytes);
    EXPECT_TRUE(base.ok()) << base.status();
    const absl::Status committed = granules.Commit(*base, Bytes(0), bytes);
    EXPECT_TRUE(committed.ok()) << committed;
    taken_.emplace_back(*base, bytes);
    return reinterpret_cast<T*>(*base);
  }
  // By a stream of its own, at once.
  template <class T>
  void Put(T* to, const std::vector<T>& values) {
    Move(to, values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> Get(const T* from, size_t count) {
    std::vector<T> values(count);
    Move(values.data(), from, count * sizeof(T));
    return values;
  }
  void Move(void* to, const void* from, size_t bytes) {
    const StreamId stream = device_->CreateStream();
    device_->Copy(stream, to, from, Bytes(static_cast<int64_t>(bytes)));
    device_->DestroyStream(stream);
  }

  bool Computes() const { return device_->spec().computes; }
  static constexpr char kNoValues[] = "a device without values";

  // y1 = Neg(x), y2 = Neg(y1), ... of `elements` floats.
  graph::Graph NegChain(int nodes, int64_t elements, const graph::OpDef* op) {
    graph::Graph graph;
    ValueId last = graph.AddValue("x", {DType::kF32, {elements}}, graph::Role::kInput);
    for (int i = 0; i < nodes; ++i) {
      const ValueId y = graph.AddValue("y", {DType::kF32, {elements}}, graph::Role::kActivation);
      const NodeId id(i);
      graph.value(y).producer = id;
      graph::Node node;
      node.id = id;
      node.name = "neg" + std::to_string(i);
      node.op = op;
      node.inputs = {last};
      node.outputs = {y};
      graph.nodes.push_back(node);
      last = y;
    }
    return graph;
  }

  std::string name_;  // of the device, without "checked_" for one under CheckRaces()
  std::unique_ptr<Device> device_;
  std::vector<std::pair<char*, Bytes>> taken_;
  const graph::OpDef neg_{.name = "Neg"};
};

TEST_P(DeviceContract, SpecNamesItsKindAndMemory) {
  EXPECT_EQ(device_->spec().kind, name_.substr(0, name_.find(':')));
  EXPECT_GT(device_->spec().memory, Bytes(0));
  EXPECT_EQ(device_->spec().granule, device_->granules().granule());
  EXPECT_GE(device_->spec().alignment, Bytes(64));
  EXPECT_GE(device_->spec().parallelism, 1);
}

TEST_P(DeviceContract, WorkOfOneStreamRunsInOrder) {
  if (!Computes()) GTEST_SKIP() << kNoValues;
  const StreamId stream = device_->CreateStream();
  constexpr size_t kCells = 200;
  int* const cells = Take<int>(kCells);
  const int one = 1;
  device_->Write(stream, &cells[0], {reinterpret_cast<const char*>(&one), sizeof(one)});
  for (size_t i = 1; i < kCells; ++i) {
    device_->Copy(stream, &cells[i], &cells[i - 1], Bytes(sizeof(int)));
  }
  device_->Synchronize(stream);
  EXPECT_EQ(Get(cells, kCells).back(), 1);
  device_->DestroyStream(stream);
}

TEST_P(DeviceContract, WriteKeepsTheBytesItWasGiven) {
  if (!Computes()) GTEST_SKIP() << kNoValues;
  const StreamId stream = device_->CreateStream();
  int64_t value = 7;
  auto* const target = Take<int64_t>(1);
  device_->Write(stream, target, {reinterpret_cast<const char*>(&value), sizeof(value)});
  value = 8;
  device_->Synchronize(stream);
  EXPECT_EQ(Get(target, 1)[0], 7);
}

TEST_P(DeviceContract, LaunchRunsExactlyTheNodesAskedFor) {
  if (!Computes()) GTEST_SKIP() << kNoValues;
  const graph::Graph graph = NegChain(4, 3, &neg_);
  auto program = device_->Compile(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  constexpr size_t kRow = 64;  // floats from one value to the next
  auto* const x = Take<float>(5 * kRow);
  std::vector<float> before(5 * kRow, 0);
  for (size_t i = 0; i < 3; ++i) before[i] = 9;
  for (size_t i = 0; i < 3; ++i) before[kRow + i] = static_cast<float>(i + 1);
  Put(x, before);
  Bindings bindings{.values = {x, x + kRow, x + 2 * kRow, x + 3 * kRow, x + 4 * kRow},
                    .workspaces = std::vector<void*>(4, nullptr)};
  const StreamId stream = device_->CreateStream();
  device_->Launch(stream, {program->get(), &bindings, 1, 2});
  device_->Synchronize(stream);
  const std::vector<float> after = Get(x, 5 * kRow);
  EXPECT_EQ(after[kRow], 1);           // node 0 did not run
  EXPECT_EQ(after[2 * kRow + 2], -3);  // nodes 1 and 2 did
  EXPECT_EQ(after[3 * kRow + 2], 3);
  EXPECT_EQ(after[4 * kRow + 2], 0);  // node 3 did not
}

TEST_P(DeviceContract, CompileNamesTheNodeAndOpWithoutAKernel) {
  const graph::OpDef unknown{.name = "Frobnicate"};
  const graph::Graph graph = NegChain(1, 1, &unknown);
  auto program = device_->Compile(graph);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(program.status().message(),
            "node 'neg0': op Frobnicate has no kernel on device " + device_->spec().kind);
}

TEST_P(DeviceContract, EventCompletesAfterTheWorkBeforeIt) {
  const StreamId stream = device_->CreateStream();
  const std::vector<char> from(1 << 20, 1);
  char* const to = Take<char>(1 << 20);
  device_->Copy(stream, to, from.data(), Bytes(1 << 20));
  const EventId event = device_->Record(stream);
  while (!device_->Query(event).complete) device_->AwaitProgress(absl::InfiniteDuration());
  if (Computes()) {
    EXPECT_EQ(Get(to, from.size()), from);
  }
  const EventState state = device_->Query(event);
  EXPECT_TRUE(state.status.ok());
  EXPECT_LE(state.start, state.end);
  device_->Release(event);
}

TEST_P(DeviceContract, StampsOfConsecutiveEventsDoNotOverlap) {
  const StreamId stream = device_->CreateStream();
  const std::vector<char> from(1 << 20, 1);
  char* const to = Take<char>(1 << 20);
  std::vector<EventId> events;
  for (int i = 0; i < 8; ++i) {
    device_->Copy(stream, to, from.data(), Bytes(1 << 20));
    events.push_back(device_->Record(stream));
  }
  device_->Synchronize(stream);
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_LE(device_->Query(events[i - 1]).end, device_->Query(events[i]).start);
  }
}

TEST_P(DeviceContract, WaitOrdersWorkAcrossStreams) {
  if (!Computes()) GTEST_SKIP() << kNoValues;
  // A token goes round 4 streams; each hop waits for the event of the hop before it.
  std::vector<StreamId> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(device_->CreateStream());
  constexpr size_t kCells = 401;
  int* const cells = Take<int>(kCells);
  Put(cells, {42});
  for (size_t i = 0; i + 1 < kCells; ++i) {
    const StreamId stream = streams[i % streams.size()];
    device_->Copy(stream, &cells[i + 1], &cells[i], Bytes(sizeof(int)));
    const EventId event = device_->Record(stream);
    device_->Wait(streams[(i + 1) % streams.size()], event);
    device_->Release(event);  // the wait keeps its meaning
  }
  device_->Synchronize(streams[(kCells - 2) % streams.size()]);
  EXPECT_EQ(Get(cells, kCells).back(), 42);
  for (StreamId stream : streams) device_->DestroyStream(stream);
}

TEST_P(DeviceContract, StampsOfWorkThatWaitsFollowThoseOfWhatItWaitsFor) {
  memory::GranuleSource& granules = device_->granules();
  const Bytes bytes = granules.granule();
  auto memory = granules.Reserve(bytes * 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_TRUE(granules.Commit(*memory, Bytes(0), bytes * 2).ok());
  std::vector<StreamId> streams = {device_->CreateStream(), device_->CreateStream()};
  std::vector<EventId> events;
  for (size_t i = 0; i < 20; ++i) {
    const StreamId stream = streams[i % 2];
    if (!events.empty()) device_->Wait(stream, events.back());
    device_->Copy(stream, *memory, *memory + bytes.count(), bytes);
    events.push_back(device_->Record(stream));
  }
  for (const StreamId stream : streams) device_->DestroyStream(stream);
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_LE(device_->Query(events[i - 1]).end, device_->Query(events[i]).start);
  }
  EXPECT_LE(device_->Query(events.back()).end, device_->Now());
  granules.Decommit(*memory, Bytes(0), bytes * 2);
  granules.Unreserve(*memory, bytes * 2);
}

TEST_P(DeviceContract, ManyThreadsMayUseItAtOnce) {
  std::vector<std::thread> threads;
  char* const cells = Take<char>(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const StreamId stream = device_->CreateStream();
      const Micros before = device_->Now();
      const char byte = 1;
      for (int i = 1; i <= 100; ++i) {
        device_->Write(stream, &cells[t], {&byte, 1});
        const EventId event = device_->Record(stream);
        device_->Wait(stream, event);
        device_->Release(event);
      }
      device_->Synchronize(stream);
      EXPECT_LE(before, device_->Now());
      device_->DestroyStream(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceContract, WaitingForACompleteEventIsHarmless) {
  const StreamId first = device_->CreateStream();
  const StreamId second = device_->CreateStream();
  const EventId event = device_->Record(first);
  device_->Synchronize(first);
  device_->Wait(second, event);
  device_->Wait(first, event);
  device_->Synchronize(second);
  device_->Synchronize(first);
  EXPECT_TRUE(device_->Query(event).complete);
}

TEST_P(DeviceContract, AwaitProgressSeesAnEventThatCompletedBeforeTheCall) {
  const StreamId stream = device_->CreateStream();
  device_->Record(stream);
  device_->Synchronize(stream);
  device_->AwaitProgress(absl::InfiniteDuration());  // would block for ever if it were lost
}

TEST_P(DeviceContract, AwaitProgressReturnsAtItsTimeout) {
  device_->AwaitProgress(absl::Milliseconds(1));
}

TEST_P(DeviceContract, WakeEndsAwaitProgressEvenWhenItComesFirst) {
  device_->Wake();
  device_->AwaitProgress(absl::InfiniteDuration());
  std::thread waker([&] { device_->Wake(); });
  device_->AwaitProgress(absl::InfiniteDuration());
  waker.join();
}

TEST_P(DeviceContract, StreamsAndEventsAreNeverReused) {
  std::set<StreamId> streams;
  std::set<EventId> events;
  for (int i = 0; i < 5; ++i) {
    const StreamId stream = device_->CreateStream();
    const EventId event = device_->Record(stream);
    EXPECT_TRUE(streams.insert(stream).second);
    EXPECT_TRUE(events.insert(event).second);
    device_->DestroyStream(stream);
    EXPECT_TRUE(device_->Query(event).complete);  // destroying waits for the stream's work
    device_->Release(event);
  }
}

TEST_P(DeviceContract, ManyThreadsMayEnqueueAtOnce) {
  if (!Computes()) GTEST_SKIP() << kNoValues;
  std::vector<std::thread> threads;
  constexpr size_t kThreads = 4;
  int* const cells = Take<int>(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const StreamId stream = device_->CreateStream();
      for (int i = 1; i <= 100; ++i) {
        device_->Write(stream, &cells[t], {reinterpret_cast<const char*>(&i), sizeof(i)});
        device_->Release(device_->Record(stream));
      }
      device_->DestroyStream(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Get(cells, kThreads), ::testing::Each(100));
}

TEST_P(DeviceContract, CommittedMemoryCanBeUsedAndKeepsWhatIsNotTakenAway) {
  if (!Computes()) GTEST_SKIP() << kNoValues;
  memory::GranuleSource& granules = device_->granules();
  const Bytes granule = granules.granule();
  const auto size = static_cast<size_t>(granule.count());
  auto base = granules.Reserve(granule * 8);
  ASSERT_TRUE(base.ok()) << base.status();
  ASSERT_TRUE(granules.Commit(*base, granule * 2, granule * 3).ok());
  char* middle = *base + (granule * 2).count();
  const bool zeroed = device_->spec().host_memory;
  if (zeroed) {
    EXPECT_THAT(Get(middle, size * 3), ::testing::Each(0));
  }
  Put(middle, std::vector<char>(size * 3, 1));
  granules.Decommit(*base, granule * 3, granule);
  ASSERT_TRUE(granules.Commit(*base, granule * 3, granule).ok());
  EXPECT_EQ(Get(middle, 1)[0], 1);  // kept
  if (zeroed) {
    EXPECT_EQ(Get(middle + size, 1)[0], 0);  // taken and given again
  }
  EXPECT_EQ(Get(middle + size * 2, 1)[0], 1);  // kept
  Put(middle + size, {char{2}});
  EXPECT_EQ(Get(middle + size, 1)[0], 2);
  granules.Decommit(*base, granule * 2, granule * 3);
  granules.Unreserve(*base, granule * 8);
}

TEST_P(DeviceContract, TooMuchOrOddMemoryIsRefusedWithAReason) {
  memory::GranuleSource& granules = device_->granules();
  auto huge = granules.Reserve(Bytes(int64_t{1} << 62));
  EXPECT_EQ(huge.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(granules.Reserve(Bytes(0)).status().code(), absl::StatusCode::kInvalidArgument);
  auto base = granules.Reserve(granules.granule());
  ASSERT_TRUE(base.ok());
  absl::Status odd = granules.Commit(*base, Bytes(0), Bytes(100));
  EXPECT_EQ(odd.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(odd.message()), HasSubstr("granules"));
  granules.Unreserve(*base, granules.granule());
}

TEST_P(DeviceContract, OptionsOutOfRangeAreRefused) {
  EXPECT_EQ(OpenDevice(name_, {.threads_per_stream = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract, ::testing::ValuesIn(testing::ContractDevices()),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

}  // namespace
}  // namespace ebb::device
