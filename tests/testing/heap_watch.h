// Watches what this process takes from the heap and which memory it maps. heap_watch.cc, linked
// into a program, replaces malloc and its family (operator new comes through malloc) and mmap and
// its family, for the program and its libraries. One watch at a time, started and stopped by one
// thread; all threads are watched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ebb::testing {

// Null, or why this build cannot be watched.
const char* WhyNoHeapWatch();

// A chain of calls that took more than the limit at least once.
struct AllocationSite {
  static constexpr int kMaxDepth = 24;
  std::array<void*, kMaxDepth> frames = {};  // return addresses, from malloc's caller outwards
  int depth = 0;
  int64_t count = 0;
  size_t largest = 0;  // bytes
};

struct HeapUse {
  std::vector<AllocationSite> sites;
  int64_t peak = 0;       // most bytes of what was taken that were in use at once
  int64_t untracked = 0;  // allocations above the limit that `sites` or `peak` leave out
  int64_t map_calls = 0;  // mmap, munmap, mprotect, madvise, by whatever size
};

// Starts to note allocations of more than `limit` bytes.
void StartHeapWatch(size_t limit);
HeapUse StopHeapWatch();

// The file that has the code at `address`: "libdnnl.so.2"; "?" if none has.
std::string ModuleOf(void* address);
// The exported function that has it; "?" if none has. Programs export what they are told to.
std::string FunctionOf(void* address);
std::string Describe(const AllocationSite& site);

}  // namespace ebb::testing
