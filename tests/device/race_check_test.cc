// The race check on the reference device: what orders accesses and what does not.
#include "device/check/race_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "graph/text.h"
#include "tests/testing/idle_device.h"

namespace ebb::device {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kFloats = 16;
constexpr Bytes kBytes(kFloats * sizeof(float));

class RaceCheck : public ::testing::Test {
 protected:
  // A program, its graph and one place for each of its values.
  struct Loaded {
    graph::Graph graph;
    std::unique_ptr<Program> program;
    Bindings bindings;
    std::vector<std::vector<float>> values;
    float*& at(const char* name) {
      return reinterpret_cast<float*&>(bindings.values[graph.Find(name).index()]);
    }
  };

  void SetUp() override { OpenChecked(*OpenDevice("ref", {}), RaceCheckOptions::Released::kKeep); }
  void TearDown() override { device_.reset(); }  // before what its work refers to

  void OpenChecked(std::unique_ptr<Device> device, RaceCheckOptions::Released released) {
    unchecked_ = device.get();
    device_ = CheckRaces(
        std::move(device),
        {.on_fault = [this](const std::string& f) { faults_.push_back(f); }, .released = released});
    a_ = device_->CreateStream();
    b_ = device_->CreateStream();
  }
  Loaded* Load(const std::string& text) {
    auto loaded = std::make_unique<Loaded>();
    auto graph = graph::ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    loaded->graph = *std::move(graph);
    auto program = device_->Compile(loaded->graph);
    EXPECT_TRUE(program.ok()) << program.status();
    loaded->program = *std::move(program);
    loaded->values.assign(loaded->graph.values.size(), std::vector<float>(kFloats, 1));
    for (auto& value : loaded->values) loaded->bindings.values.push_back(value.data());
    loaded->bindings.workspaces.assign(loaded->graph.nodes.size(), nullptr);
    loaded_.push_back(std::move(loaded));
    return loaded_.back().get();
  }
  void Launch(StreamId stream, const Loaded& loaded, int first = 0, int last = 0) {
    device_->Launch(stream, {loaded.program.get(), &loaded.bindings, first, last});
  }

  Device* unchecked_ = nullptr;
  std::unique_ptr<Device> device_;
  StreamId a_, b_;
  std::vector<std::string> faults_;
  std::vector<std::unique_ptr<Loaded>> loaded_;
  std::vector<char> memory_ = std::vector<char>(256);
};

// `reader` reads what `writer` writes.
class TwoPrograms : public RaceCheck {
 protected:
  void SetUp() override {
    RaceCheck::SetUp();
    writer_ = Load("x = input f32[16]; y = Neg(x); output y");
    reader_ = Load("in = input f32[16]; out = Exp(in); output out");
    reader_->at("in") = writer_->at("y");
  }
  Loaded* writer_ = nullptr;
  Loaded* reader_ = nullptr;
};

TEST_F(TwoPrograms, AReadWithoutAWaitIsARaceWithBothAccessesInWords) {
  Launch(a_, *writer_);
  Launch(b_, *reader_);
  EXPECT_THAT(faults_, ElementsAre(AllOf(HasSubstr("race"), HasSubstr("stream 1, node"),
                                         HasSubstr("(Exp) reads 'in'"), HasSubstr("stream 0, node"),
                                         HasSubstr("(Neg) writes 'y'"), HasSubstr(", +64)"))));
}

TEST_F(TwoPrograms, OneStreamIsInOrder) {
  Launch(a_, *writer_);
  Launch(a_, *reader_);
  Launch(a_, *writer_);
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TwoPrograms, AWaitForTheEventOrders) {
  Launch(a_, *writer_);
  device_->Wait(b_, device_->Record(a_));
  Launch(b_, *reader_);
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TwoPrograms, AWaitForAnEventRecordedBeforeDoesNot) {
  const EventId event = device_->Record(a_);
  Launch(a_, *writer_);
  device_->Wait(b_, event);
  Launch(b_, *reader_);
  EXPECT_EQ(faults_.size(), 1u);
}

TEST_F(TwoPrograms, AWaitOnTheWrongStreamDoesNot) {
  const StreamId c = device_->CreateStream();
  Launch(a_, *writer_);
  device_->Wait(c, device_->Record(a_));
  Launch(b_, *reader_);
  EXPECT_EQ(faults_.size(), 1u);
}

TEST_F(TwoPrograms, OrderIsPassedOnByAThirdStream) {
  const StreamId c = device_->CreateStream();
  Launch(a_, *writer_);
  device_->Wait(c, device_->Record(a_));
  device_->Wait(b_, device_->Record(c));
  Launch(b_, *reader_);
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TwoPrograms, AWriteComesAfterEveryReadSinceTheLastWrite) {
  Launch(a_, *writer_);
  const EventId written = device_->Record(a_);
  device_->Wait(b_, written);
  Launch(b_, *reader_);
  Launch(a_, *writer_);  // the reader may still be at it
  EXPECT_THAT(faults_,
              ElementsAre(AllOf(HasSubstr("writes 'y' at"), HasSubstr("(Exp) reads 'in'"))));
}

TEST_F(TwoPrograms, ReadersDoNotRace) {
  Loaded* other = Load("in = input f32[16]; out = Exp(in); output out");
  other->at("in") = reader_->at("in");
  Launch(a_, *reader_);
  Launch(b_, *other);
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TwoPrograms, WhatTheHostHasSeenCompleteIsBeforeAllThatItEnqueuesThen) {
  Launch(a_, *writer_);
  const EventId event = device_->Record(a_);
  unchecked_->Synchronize(a_);
  EXPECT_TRUE(device_->Query(event).complete);
  device_->Release(event);
  Launch(b_, *reader_);
  device_->Synchronize(b_);
  Launch(a_, *writer_);
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TwoPrograms, ThatItHappensToBeCompleteOrdersNothing) {
  Launch(a_, *writer_);
  unchecked_->Synchronize(a_);  // unseen by the check
  Launch(b_, *reader_);
  EXPECT_EQ(faults_.size(), 1u);
}

TEST_F(TwoPrograms, OneSharedByteIsEnough) {
  device_->Copy(a_, &memory_[64], &memory_[0], Bytes(64));
  device_->Copy(b_, &memory_[192], &memory_[127], Bytes(64));
  EXPECT_THAT(faults_, ElementsAre(AllOf(HasSubstr("a copy reads"), HasSubstr("a copy writes"),
                                         HasSubstr(", +1)"))));
}

TEST_F(TwoPrograms, NeighboursShareNothing) {
  device_->Copy(a_, &memory_[64], &memory_[0], Bytes(64));
  device_->Copy(b_, &memory_[192], &memory_[128], Bytes(64));
  const int32_t one = 1;
  device_->Write(b_, &memory_[60], {reinterpret_cast<const char*>(&one), sizeof(one)});
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("the host's bytes are written")));
}

TEST_F(RaceCheck, AParameterIsWrittenByItsUpdate) {
  Loaded* update = Load(
      "w = param f32[16]; dw = input f32[16]; ebb.hyper = scalar f64[4]\n"
      "SgdUpdate(w, dw, ebb.hyper) {weight_decay=0.0} @update");
  Loaded* reader = Load("in = input f32[16]; out = Exp(in); output out");
  reader->at("in") = update->at("w");
  Launch(a_, *reader);
  Launch(b_, *update);
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("(SgdUpdate) writes 'w'")));
}

TEST_F(RaceCheck, AViewInPlaceOnlyReads) {
  Loaded* view = Load("x = input f32[16]; y = Reshape(x) {shape=[4,4]}; output y");
  Loaded* other = Load("x = input f32[16]; y = Reshape(x) {shape=[2,8]}; output y");
  for (Loaded* loaded : {view, other}) {
    loaded->at("x") = loaded->at("y") = view->values[0].data();
  }
  Launch(a_, *view);
  Launch(b_, *other);
  EXPECT_THAT(faults_, IsEmpty());
  other->at("x") = other->values[0].data();
  Launch(b_, *other);  // from elsewhere it is a copy
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("(Reshape) writes 'y'")));
}

TEST_F(RaceCheck, MemoryInUseMustNotBeTakenAway) {
  memory::GranuleSource& granules = device_->granules();
  const Bytes granule = granules.granule();
  auto base = granules.Reserve(4 * granule);
  ASSERT_TRUE(base.ok());
  ASSERT_TRUE(granules.Commit(*base, Bytes(0), 2 * granule).ok());
  device_->Copy(a_, *base + granule.count(), memory_.data(), Bytes(64));
  const EventId event = device_->Record(a_);
  unchecked_->Synchronize(a_);
  granules.Decommit(*base, granule, granule);
  EXPECT_THAT(faults_, ElementsAre(AllOf(HasSubstr("memory in use"), HasSubstr("decommitted"),
                                         HasSubstr("a copy writes"))));
  device_->Copy(a_, *base, memory_.data(), Bytes(64));
  device_->Synchronize(a_);
  device_->Release(event);
  granules.Decommit(*base, Bytes(0), granule);
  granules.Unreserve(*base, 4 * granule);
  EXPECT_EQ(faults_.size(), 1u);
}

TEST_F(RaceCheck, AddressesWithoutMemoryMustNotBeTouched) {
  OpenChecked(testing::MakeIdleDevice(),
              RaceCheckOptions::Released::kKeep);  // it would end the process
  memory::GranuleSource& granules = device_->granules();
  const Bytes granule = granules.granule();
  auto base = granules.Reserve(2 * granule);
  ASSERT_TRUE(base.ok());
  ASSERT_TRUE(granules.Commit(*base, Bytes(0), granule).ok());
  Loaded* neg = Load("x = input f32[16]; y = Neg(x); output y");
  neg->at("x") = reinterpret_cast<float*>(*base + (granule - kBytes).count());
  Launch(a_, *neg);
  EXPECT_THAT(faults_, IsEmpty());
  neg->at("y") = neg->at("x") + 1;
  Launch(a_, *neg);
  EXPECT_THAT(faults_, ElementsAre(AllOf(HasSubstr("no memory"), HasSubstr("(Neg) writes 'y'"))));
  device_->Synchronize(a_);
  granules.Decommit(*base, Bytes(0), granule);
  granules.Unreserve(*base, 2 * granule);
  EXPECT_EQ(faults_.size(), 1u);
}

// Transposed again and again: no value can be made in the place of the one before.
class Poison : public RaceCheck {
 protected:
  void SetUp() override {
    OpenChecked(*OpenDevice("ref", {}), RaceCheckOptions::Released::kPoison);
    chain_ = Load(
        "x = input f32[4,4]; y = Transpose(x) {perm=[1,0]}\n"
        "z = Transpose(y) {perm=[1,0]}; u = Transpose(z) {perm=[1,0]}; output u");
  }
  // How many of the value's elements are NaN; the others must be as they were made.
  int Poisoned(const char* name) {
    int poisoned = 0;
    for (size_t i = 0; i < kFloats; ++i) {
      const float value = chain_->at(name)[i];
      poisoned += std::isnan(value);
      EXPECT_TRUE(std::isnan(value) || value == 1) << name;
    }
    return poisoned;
  }
  Loaded* chain_ = nullptr;
};

TEST_F(Poison, FillsWhatDiesInALaunchInStreamOrder) {
  Launch(a_, *chain_, 0, 1);
  device_->Synchronize(a_);
  EXPECT_EQ(Poisoned("x"), 16);
  EXPECT_EQ(Poisoned("y"), 16);
  EXPECT_EQ(Poisoned("z"), 0);
  Launch(a_, *chain_, 2, 2);
  device_->Synchronize(a_);
  EXPECT_EQ(Poisoned("z"), 16);
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(Poison, SparesWhatIsAliveInTheSamePlace) {
  chain_->values[0].resize(2 * kFloats, 1);
  chain_->at("x") = chain_->values[0].data();
  chain_->at("z") = chain_->at("x") + 4;  // x has died when z is made
  Launch(a_, *chain_, 0, 1);
  device_->Synchronize(a_);
  EXPECT_EQ(Poisoned("x"), 4);
  EXPECT_EQ(Poisoned("z"), 0);
}

TEST_F(Poison, IsAnAccessLikeAnyOther) {
  Launch(a_, *chain_, 0, 0);
  device_->Copy(b_, memory_.data(), chain_->at("x"), kBytes);  // has been released
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("released bytes are poisoned")));
}

}  // namespace
}  // namespace ebb::device
