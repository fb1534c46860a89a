#include "device/check/race_detector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ebb::device {
namespace {

std::string Text(const AddressRange& range) {
  return absl::StrFormat("[%#x, +%d)", range.begin, range.end - range.begin);
}

std::string Text(const Access& access) {
  return absl::StrCat("operation ", access.operation.number, " of stream ",
                      access.operation.stream.value(), ", ", *access.what);
}

}  // namespace

void RaceDetector::Touch(const AddressRange& range, const Access& access) {
  if (range.begin == range.end) return;
  if (fault_.empty() && !memory_.HasMemory(range)) {
    fault_ = absl::StrCat("no memory: ", Text(access), " at ", Text(range),
                          ", a part of which is reserved but not committed");
  }
  accesses_.Enter(range, access, clocks_, [&](const AddressRange& shared, const Access& earlier) {
    if (!fault_.empty()) return;
    fault_ =
        absl::StrCat("race: ", Text(access), " at ", Text(range), ", but nothing orders it after ",
                     Text(earlier), "; both touch ", Text(shared));
  });
}

void RaceDetector::TakeAway(const AddressRange& range, const char* how) {
  accesses_.Erase(range, clocks_, [&](const AddressRange& shared, const Access& earlier) {
    if (!fault_.empty()) return;
    fault_ = absl::StrCat("memory in use: ", Text(range), " is ", how,
                          ", but the host has not seen the end of ", Text(earlier),
                          ", which touches ", Text(shared));
  });
}

std::string RaceDetector::TakeFault() { return std::exchange(fault_, {}); }

}  // namespace ebb::device
