#include "tests/device/cuda_double/chain.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "graph/text.h"

namespace ebb::testing {

Chain::Chain(device::Device* device, const std::string& text) : device_(device) {
  auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  graph_ = *std::move(graph);
  auto program = device_->Compile(graph_);
  EXPECT_TRUE(program.ok()) << program.status();
  program_ = *std::move(program);
  const Bytes alignment = device_->spec().alignment;
  for (const graph::Value& value : graph_.values) bytes_ += AlignUp(value.type.bytes(), alignment);
  for (const graph::Node& node : graph_.nodes) {
    bytes_ += AlignUp(program_->Workspace(node.id), alignment);
  }
  bytes_ = AlignUp(bytes_, device_->granules().granule());
  AddPlace();
}

Chain::~Chain() {
  for (const auto& place : places_) {
    device_->granules().Decommit(place->base, Bytes(0), bytes_);
    device_->granules().Unreserve(place->base, bytes_);
  }
}

int Chain::AddPlace() {
  auto place = std::make_unique<Place>();
  const auto base = device_->granules().Reserve(bytes_);
  EBB_CHECK(base.ok() && device_->granules().Commit(*base, Bytes(0), bytes_).ok());
  place->base = *base;
  Bytes at;
  const auto take = [&](Bytes bytes) {
    void* const here = *base + at.count();
    at += AlignUp(bytes, device_->spec().alignment);
    return here;
  };
  for (const graph::Value& value : graph_.values) {
    place->bindings.values.push_back(take(value.type.bytes()));
  }
  for (const graph::Node& node : graph_.nodes) {
    place->bindings.workspaces.push_back(take(program_->Workspace(node.id)));
  }
  places_.push_back(std::move(place));
  return static_cast<int>(places_.size()) - 1;
}

void Chain::Move(void* to, const void* from, size_t bytes) {
  const device::StreamId stream = device_->CreateStream();
  device_->Copy(stream, to, from, Bytes(static_cast<int64_t>(bytes)));
  device_->DestroyStream(stream);
}

void Chain::Set(const std::string& name, const void* data, size_t bytes, int place) {
  Move(places_[static_cast<size_t>(place)]->bindings.values[graph_.Find(name).index()], data,
       bytes);
}

void Chain::Launch(device::StreamId stream, int place) {
  device_->Launch(stream, {.program = program_.get(),
                           .bindings = &places_[static_cast<size_t>(place)]->bindings,
                           .first = 0,
                           .last = static_cast<int>(graph_.nodes.size()) - 1});
}

std::vector<float> Chain::Get(const std::string& name, int place) {
  std::vector<float> values(kFloats);
  Move(values.data(),
       places_[static_cast<size_t>(place)]->bindings.values[graph_.Find(name).index()],
       kFloats * sizeof(float));
  return values;
}

absl::Status Finish(device::Device& device, device::StreamId stream) {
  const device::EventId event = device.Record(stream);
  while (!device.Query(event).complete) device.AwaitProgress(absl::InfiniteDuration());
  absl::Status status = device.Query(event).status;
  device.Release(event);
  return status;
}

}  // namespace ebb::testing
