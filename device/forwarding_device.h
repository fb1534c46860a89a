// A device that hands everything on to another one: the base of wrappers, which override what they
// are about. Thread-safe as the wrapped device is.
#pragma once

#include <memory>
#include <utility>

#include "device/device.h"

namespace ebb::device {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  const DeviceSpec& spec() const override { return inner_->spec(); }
  absl::Status Health() const override { return inner_->Health(); }
  Bytes Outside() const override { return inner_->Outside(); }
  memory::GranuleSource& granules() override { return inner_->granules(); }
  absl::StatusOr<char*> AllocateHost(Bytes bytes) override { return inner_->AllocateHost(bytes); }
  void FreeHost(char* memory, Bytes bytes) override { inner_->FreeHost(memory, bytes); }
  absl::StatusOr<graph::Graph> Lower(graph::Graph graph) const override {
    return inner_->Lower(std::move(graph));
  }
  absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const override {
    return inner_->Compile(graph);
  }
  StreamId CreateStream() override { return inner_->CreateStream(); }
  void DestroyStream(StreamId stream) override { inner_->DestroyStream(stream); }
  void Launch(StreamId stream, const LaunchArgs& args) override { inner_->Launch(stream, args); }
  void Copy(StreamId stream, void* to, const void* from, Bytes bytes) override {
    inner_->Copy(stream, to, from, bytes);
  }
  void Write(StreamId stream, void* to, absl::Span<const char> bytes) override {
    inner_->Write(stream, to, bytes);
  }
  EventId Record(StreamId stream) override { return inner_->Record(stream); }
  void Wait(StreamId stream, EventId event) override { inner_->Wait(stream, event); }
  EventState Query(EventId event) const override { return inner_->Query(event); }
  void Release(EventId event) override { inner_->Release(event); }
  void AwaitProgress(absl::Duration timeout) override { inner_->AwaitProgress(timeout); }
  void Wake() override { inner_->Wake(); }
  void Synchronize(StreamId stream) override { inner_->Synchronize(stream); }
  Micros Now() const override { return inner_->Now(); }

 protected:
  Device& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Device> inner_;
};

}  // namespace ebb::device
