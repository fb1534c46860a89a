// On which devices the tests of devices run, memory there, and where the tests' files are. The
// environment may say otherwise than the tests do: so the same programs check a GPU on a machine
// that has one and nothing else.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/device.h"

namespace ebb::testing {

// Of the environment's EBB_TEST_DEVICE, where it is set; else `usual`.
std::string TestDevice(const std::string& usual);
std::vector<std::string> TestDevices(std::vector<std::string> usual);
// The device of this name, a host device with one thread for each stream: whose sums are always in
// the same order, for comparisons that are tight.
absl::StatusOr<std::unique_ptr<device::Device>> OpenOnOneThread(const std::string& name);
// The name as a part of a test's name: letters, digits and '_'.
std::string TestName(std::string device);

// A file of the repository, from the folder EBB_SOURCE_DIR of the environment, else from where the
// tests were built.
std::string SourcePath(absl::string_view path);

// Memory that a device's work can use: the host's where it computes there (or nowhere), in blocks
// of their own; else the device's, reached by copies. One thread.
class TestMemory {
 public:
  explicit TestMemory(device::Device& device);  // which must outlive it
  ~TestMemory();
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;

  // At a multiple of 64 bytes (of the device's alignment in its own memory), until the end of this
  // object. Stops the test when there is none.
  char* Allocate(size_t bytes);
  template <class T>
  T* Allocate(const std::vector<T>& values) {
    char* const to = Allocate(values.size() * sizeof(T));
    Put(to, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(to);
  }

  // Both are complete when they return. `to` and `from`: any of the device's memory.
  void Put(void* to, const void* from, size_t bytes);
  void Get(void* to, const void* from, size_t bytes) const;
  template <class T>
  std::vector<T> Read(const T* from, size_t count) const {
    std::vector<T> values(count);
    Get(values.data(), from, count * sizeof(T));
    return values;
  }

 private:
  struct Chunk;
  device::Device& device_;
  const bool on_host_;
  device::StreamId stream_;
  std::vector<Chunk> chunks_;
};

}  // namespace ebb::testing
