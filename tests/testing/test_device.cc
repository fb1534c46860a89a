#include "tests/testing/test_device.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::testing {
namespace {

constexpr size_t kHostAlignment = 64;
constexpr size_t kChunk = size_t{64} << 20;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

std::string TestDevice(const std::string& usual) {
  const char* const given = std::getenv("EBB_TEST_DEVICE");
  return given != nullptr && *given != '\0' ? given : usual;
}

std::vector<std::string> TestDevices(std::vector<std::string> usual) {
  const std::string given = TestDevice("");
  return given.empty() ? usual : std::vector<std::string>{given};
}

absl::StatusOr<std::unique_ptr<device::Device>> OpenOnOneThread(const std::string& name) {
  const bool host = name == "cpu" || name == "ref";
  return device::OpenDevice(name, {.threads_per_stream = host ? 1 : 0});
}

std::string TestName(std::string device) {
  for (char& c : device) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return device;
}

std::string SourcePath(absl::string_view path) {
  const char* const given = std::getenv("EBB_SOURCE_DIR");
  return absl::StrCat(given != nullptr && *given != '\0' ? given : EBB_SOURCE_DIR, "/", path);
}

struct TestMemory::Chunk {
  char* base = nullptr;
  size_t size = 0;
  size_t used = 0;
};

TestMemory::TestMemory(device::Device& device)
    : device_(device), on_host_(device.spec().host_memory || !device.spec().computes) {
  if (!on_host_) stream_ = device_.CreateStream();
}

TestMemory::~TestMemory() {
  if (!on_host_) device_.DestroyStream(stream_);
  for (const Chunk& chunk : chunks_) {
    if (on_host_) {
      std::free(chunk.base);
      continue;
    }
    const Bytes size(static_cast<int64_t>(chunk.size));
    device_.granules().Decommit(chunk.base, Bytes(0), size);
    device_.granules().Unreserve(chunk.base, size);
  }
}

char* TestMemory::Allocate(size_t bytes) {
  const auto alignment = static_cast<size_t>(device_.spec().alignment.count());
  bytes = RoundUp(std::max<size_t>(bytes, 1), std::max(alignment, kHostAlignment));
  if (on_host_) {
    auto* const base = static_cast<char*>(std::aligned_alloc(kHostAlignment, bytes));
    EBB_CHECK(base != nullptr);
    chunks_.push_back({base, bytes, bytes});
    return base;
  }
  if (chunks_.empty() || chunks_.back().size - chunks_.back().used < bytes) {
    memory::GranuleSource& granules = device_.granules();
    const size_t size =
        RoundUp(std::max(bytes, kChunk), static_cast<size_t>(granules.granule().count()));
    const auto base = granules.Reserve(Bytes(static_cast<int64_t>(size)));
    EBB_CHECK(base.ok());
    EBB_CHECK(granules.Commit(*base, Bytes(0), Bytes(static_cast<int64_t>(size))).ok());
    chunks_.push_back({*base, size, 0});
  }
  Chunk& chunk = chunks_.back();
  char* const at = chunk.base + chunk.used;
  chunk.used += bytes;
  return at;
}

void TestMemory::Put(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (on_host_) {
    std::memcpy(to, from, bytes);
    return;
  }
  device_.Copy(stream_, to, from, Bytes(static_cast<int64_t>(bytes)));
  device_.Synchronize(stream_);
}

void TestMemory::Get(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) return;
  if (on_host_) {
    std::memcpy(to, from, bytes);
    return;
  }
  device_.Copy(stream_, to, from, Bytes(static_cast<int64_t>(bytes)));
  device_.Synchronize(stream_);
}

}  // namespace ebb::testing
