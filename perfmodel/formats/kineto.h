// Kineto's traces (PyTorch's profiler; Chrome's trace format): what a rank's host and device did.
// Read from text and written as text; files and gzip are the caller's. Free functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

enum class KinetoKind : uint8_t {
  kOp,          // of the framework, on a host thread
  kAnnotation,  // a range that the program named, on a host thread
  kRuntime,     // a call of the device's runtime or driver, on a host thread
  kKernel,      // on the device, as the two below
  kMemcpy,
  kMemset,
};

struct KinetoEvent {
  KinetoKind kind = KinetoKind::kOp;
  std::string name;
  double begin = 0;  // us from the trace's origin
  double micros = 0;
  int64_t thread = 0;            // of the host; of device events the stream
  int64_t correlation = -1;      // of a runtime call and what it launched; -1: none
  int64_t record_function = -1;  // "Record function id", an execution trace's rf_id; -1: none
  int stream = -1;               // of device events
  int64_t bytes = 0;             // of copies
  std::vector<std::vector<int64_t>> dims = {};  // of an op's operands, where recorded
  // Of NCCL's kernels in newer traces; empty and 0 in older ones.
  std::string collective = {};  // "all_to_allv"
  std::string dtype = {}, group = {};
  int64_t in_elements = 0, out_elements = 0, group_size = 0;

  double end() const { return begin + micros; }
  bool on_device() const { return kind >= KinetoKind::kKernel; }
};

struct KinetoTrace {
  int rank = 0, ranks = 1;
  std::string device;               // its name, where recorded
  double origin_us = 0;             // that `begin` counts from, on the clock of the machine
  std::vector<KinetoEvent> events;  // by begin; of equal ones the longer first
};

// Complete events ("X") of the kinds above; all else is skipped. Both generations: whole and
// fractional times, times from baseTimeNanoseconds, NCCL's kernels with and without their message.
// InvalidArgument with the event's number or the byte: not such a trace, or damaged.
absl::StatusOr<KinetoTrace> ReadKineto(absl::string_view text);

// As Perfetto, chrome://tracing and ReadKineto read it.
std::string WriteKineto(const KinetoTrace& trace);

}  // namespace ebb::perfmodel
