#include "tests/testing/heap_watch.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace ebb::testing {
namespace {

constexpr size_t kLimit = 4096;

void* volatile escaped;  // what is stored here was really allocated
void Escape(void* address) { escaped = address; }

int64_t CountOf(const HeapUse& use) {
  int64_t count = 0;
  for (const AllocationSite& site : use.sites) count += site.count;
  return count;
}

TEST(HeapWatch, SeesEveryWayToTakeMemory) {
  if (WhyNoHeapWatch() != nullptr) GTEST_SKIP() << WhyNoHeapWatch();
  const std::vector<std::pair<const char*, std::function<void(size_t)>>> ways = {
      {"malloc", [](size_t n) { Escape(malloc(n)), free(escaped); }},
      {"calloc", [](size_t n) { Escape(calloc(1, n)), free(escaped); }},
      {"realloc", [](size_t n) { Escape(malloc(1)), Escape(realloc(escaped, n)), free(escaped); }},
      {"memalign", [](size_t n) { Escape(memalign(64, n)), free(escaped); }},
      {"aligned_alloc", [](size_t n) { Escape(aligned_alloc(64, n)), free(escaped); }},
      {"posix_memalign",
       [](size_t n) {
         void* address = nullptr;
         ASSERT_EQ(posix_memalign(&address, 64, n), 0);
         Escape(address), free(escaped);
       }},
      {"new", [](size_t n) { Escape(operator new(n)), operator delete(escaped); }},
      {"aligned new",
       [](size_t n) {
         Escape(operator new(n, std::align_val_t(64)));
         operator delete(escaped, std::align_val_t(64));
       }},
      {"another thread",
       [](size_t n) { std::thread([n] { Escape(malloc(n)), free(escaped); }).join(); }},
  };
  for (const auto& [name, take] : ways) {
    SCOPED_TRACE(name);
    StartHeapWatch(kLimit);
    take(kLimit);
    EXPECT_EQ(CountOf(StopHeapWatch()), 0);
    StartHeapWatch(kLimit);
    for (int i = 0; i < 100; ++i) take(2 * kLimit);
    const HeapUse use = StopHeapWatch();
    EXPECT_EQ(CountOf(use), 100);
    EXPECT_EQ(use.peak, 2 * kLimit) << "each was given back before the next";
    EXPECT_EQ(use.untracked, 0);
    EXPECT_EQ(use.map_calls, 0);
  }
}

TEST(HeapWatch, SeesMappings) {
  if (WhyNoHeapWatch() != nullptr) GTEST_SKIP() << WhyNoHeapWatch();
  StartHeapWatch(kLimit);
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(mprotect(page, 4096, PROT_NONE), 0);
  EXPECT_EQ(madvise(page, 4096, MADV_DONTNEED), 0);
  EXPECT_EQ(munmap(page, 4096), 0);
  EXPECT_EQ(StopHeapWatch().map_calls, 4);
}

}  // namespace
}  // namespace ebb::testing
