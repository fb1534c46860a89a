#include "tests/testing/heap_watch.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EBB_NO_HEAP_WATCH
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define EBB_NO_HEAP_WATCH
#endif

namespace ebb::testing {
namespace {

// What is used within malloc neither allocates nor waits, and needs no construction.
template <class T>
void RaiseTo(std::atomic<T>& maximum, T value) {
  for (T seen = maximum; value > seen && !maximum.compare_exchange_weak(seen, value);) {
  }
}

struct SiteSlot {
  std::atomic<uint64_t> key;  // hash of the frames; 0: free
  std::atomic<int64_t> count;
  std::atomic<size_t> largest;
  int depth;
  std::array<void*, AllocationSite::kMaxDepth> frames;
};
struct LiveSlot {
  std::atomic<void*> address;
  size_t bytes;
};

constexpr size_t kOff = SIZE_MAX;
std::atomic<size_t> limit = kOff;
std::atomic<int> noting;  // threads within Note()
std::array<SiteSlot, 256> sites;
std::array<LiveSlot, 64> in_use;
std::atomic<int> in_use_count;
std::atomic<int64_t> live_bytes, peak_bytes, untracked, map_calls;

// The slot of a chain of calls; null when all are taken.
SiteSlot* FindSite(void* const* frames, int depth) {
  uint64_t key = 14695981039346656037u;  // FNV-1a
  for (int f = 0; f < depth; ++f)
    key = (key ^ reinterpret_cast<uintptr_t>(frames[f])) * 1099511628211u;
  key = std::max<uint64_t>(key, 1);
  for (size_t probe = 0; probe < sites.size(); ++probe) {
    SiteSlot& slot = sites[(key + probe) % sites.size()];
    uint64_t found = 0;
    if (slot.key.compare_exchange_strong(found, key)) {
      slot.depth = depth;
      std::copy(frames, frames + depth, slot.frames.begin());
      return &slot;
    }
    if (found == key) return &slot;
  }
  return nullptr;
}

bool AddLive(void* address, size_t bytes) {
  for (LiveSlot& slot : in_use) {
    void* empty = nullptr;
    if (!slot.address.compare_exchange_strong(empty, address)) continue;
    slot.bytes = bytes;  // Nobody but the caller has the address yet.
    in_use_count.fetch_add(1);
    const auto added = static_cast<int64_t>(bytes);
    RaiseTo(peak_bytes, live_bytes.fetch_add(added) + added);
    return true;
  }
  return false;
}

[[maybe_unused]] __attribute__((noinline)) void Note(void* address, size_t bytes) {
  if (bytes <= limit.load(std::memory_order_relaxed) || address == nullptr) return;
  noting.fetch_add(1);
  if (bytes > limit.load()) {
    constexpr int kOwn = 2;  // this function and the one that is replaced
    void* frames[AllocationSite::kMaxDepth + kOwn];
    const int depth = backtrace(frames, AllocationSite::kMaxDepth + kOwn) - kOwn;
    SiteSlot* site = FindSite(frames + kOwn, std::max(depth, 0));
    if (site != nullptr) {
      site->count.fetch_add(1);
      RaiseTo(site->largest, bytes);
    }
    if (!AddLive(address, bytes) || site == nullptr) untracked.fetch_add(1);
  }
  noting.fetch_sub(1);
}

[[maybe_unused]] void NoteFree(void* address) {
  if (address == nullptr || in_use_count.load(std::memory_order_relaxed) == 0) return;
  for (LiveSlot& slot : in_use) {
    if (slot.address.load(std::memory_order_relaxed) != address) continue;
    live_bytes.fetch_sub(static_cast<int64_t>(slot.bytes));
    in_use_count.fetch_sub(1);
    slot.address.store(nullptr);
    return;
  }
}

[[maybe_unused]] void NoteMap() {
  if (limit.load(std::memory_order_relaxed) != kOff) map_calls.fetch_add(1);
}

}  // namespace

const char* WhyNoHeapWatch() {
#ifdef EBB_NO_HEAP_WATCH
  return "malloc cannot be replaced in this build: a sanitizer has done it, or the C library is "
         "not "
         "glibc";
#else
  return nullptr;
#endif
}

void StartHeapWatch(size_t above) {
  void* frames[1];
  backtrace(frames, 1);  // The first call loads the unwinder.
  for (SiteSlot& slot : sites) slot.key = 0, slot.count = 0, slot.largest = 0;
  for (LiveSlot& slot : in_use) slot.address = nullptr;
  in_use_count = 0;
  for (auto* counter : {&live_bytes, &peak_bytes, &untracked, &map_calls}) *counter = 0;
  limit = above;
}

HeapUse StopHeapWatch() {
  limit = kOff;
  while (noting > 0) {  // A note takes microseconds.
  }
  HeapUse use;
  for (const SiteSlot& slot : sites) {
    if (slot.key == 0) continue;
    use.sites.push_back({slot.frames, slot.depth, slot.count, slot.largest});
  }
  use.peak = peak_bytes;
  use.untracked = untracked;
  use.map_calls = map_calls;
  return use;
}

std::string ModuleOf(void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
  const std::string path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

std::string FunctionOf(void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr) return "?";
  int status = 0;
  char* name = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const std::string result = status == 0 ? name : info.dli_sname;
  std::free(name);
  return result;
}

std::string Describe(const AllocationSite& site) {
  std::string text = absl::StrCat(site.count, " of at most ", site.largest, " bytes, from\n");
  for (int f = 0; f < site.depth; ++f) {
    void* at = site.frames[static_cast<size_t>(f)];
    absl::StrAppend(&text, "  ", ModuleOf(at), "  ", FunctionOf(at), "\n");
  }
  return text;
}

}  // namespace ebb::testing

#ifndef EBB_NO_HEAP_WATCH
extern "C" {

// glibc's own, under the names that remain.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t elements, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* address);

void* malloc(size_t bytes) {
  void* address = __libc_malloc(bytes);
  ebb::testing::Note(address, bytes);
  return address;
}

void* calloc(size_t elements, size_t bytes) {
  void* address = __libc_calloc(elements, bytes);
  ebb::testing::Note(address, elements * bytes);
  return address;
}

void* realloc(void* old, size_t bytes) {
  ebb::testing::NoteFree(old);
  void* address = __libc_realloc(old, bytes);
  ebb::testing::Note(address, bytes);
  return address;
}

void* memalign(size_t alignment, size_t bytes) {
  void* address = __libc_memalign(alignment, bytes);
  ebb::testing::Note(address, bytes);
  return address;
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  void* address = __libc_memalign(alignment, bytes);
  ebb::testing::Note(address, bytes);
  return address;
}

int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* address = __libc_memalign(alignment, bytes);
  if (address == nullptr) return ENOMEM;
  ebb::testing::Note(address, bytes);
  *result = address;
  return 0;
}

void free(void* address) {
  ebb::testing::NoteFree(address);
  __libc_free(address);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  ebb::testing::NoteMap();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, fd, offset));
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  ebb::testing::NoteMap();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, fd, offset));
}

int munmap(void* address, size_t bytes) {
  ebb::testing::NoteMap();
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

int mprotect(void* address, size_t bytes, int protection) {
  ebb::testing::NoteMap();
  return static_cast<int>(syscall(SYS_mprotect, address, bytes, protection));
}

int madvise(void* address, size_t bytes, int advice) {
  ebb::testing::NoteMap();
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

}  // extern "C"
#endif
