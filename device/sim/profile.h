// The constants of a simulated device: what its file says, in the file's units. Plain data; the
// built-in ones are the files of the folder sim/, embedded in the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "device/sim/kernel_times.h"

namespace ebb::device {

struct SimProfile {
  std::string key;     // "v100-16gb", or the path of a file
  std::string name;    // of the hardware, for people
  std::string sha256;  // of the text below, printed with every figure that rests on it

  // Hardware; rates are what large kernels reach, not what the data sheet says.
  double memory_gib = 0;  // usable
  double multiprocessors = 0;
  double peak_tflops = 0;
  double bandwidth_gbs = 0;    // of device memory, 1e9 bytes a second
  double bus_gbs = 0;          // to and from the host, each
  double copy_latency_us = 0;  // of every copy over the bus

  // Kernels.
  double tile_rows = 0, tile_columns = 0;  // output tile of a GEMM or convolution
  double tiles_per_multiprocessor = 0;
  double split_depth = 0;       // elements of the reduction that a tile takes at least, when split
  double conv_split_depth = 0;  // the same of convolutions and their gradients
  double block_elements = 0;    // of every other kernel
  double blocks_per_multiprocessor = 0;
  double kernel_overhead_us = 0;  // of every kernel, on top of its work
  double kernel_gap_us = 0;       // between two kernels of one stream
  double conv_workspace_mib = 0;

  // Host.
  double launch_us = 0;     // of one kernel, on the stream's launching thread
  double admission_us = 0;  // of a sub-model, before its first launch
  double step_us = 0;       // more of it at the start of a step

  // Sharing.
  double interference = 0;   // slow-down for every running kernel beyond the first
  double steps_at_once = 0;  // steps that may execute at once
  double granule_kib = 0;
  double alignment_bytes = 0;

  // Of a real device that is simulated: its name ("cpu"), from which lowering, scratch memory and
  // where batches are staged are taken; empty: none. And what was measured on it: kernels that are
  // here take their time from here, each a slot of `steps_at_once`; others from the constants.
  std::string like;
  KernelTimes kernels;

  Bytes memory() const { return Bytes(static_cast<int64_t>(memory_gib * (1 << 30))); }
  Bytes granule() const { return KiB(static_cast<int64_t>(granule_kib)); }
  double flops_per_us() const { return peak_tflops * 1e6; }
  double bytes_per_us() const { return bandwidth_gbs * 1e3; }
  double bus_bytes_per_us() const { return bus_gbs * 1e3; }
};

// A YAML mapping with every constant exactly once, and of a real device `like` and `kernels` (key:
// [microseconds, bandwidth share]); nothing else. InvalidArgument names the line and the key, and
// says what it must be. `source` is for messages.
absl::StatusOr<SimProfile> ParseSimProfile(absl::string_view text, absl::string_view source);

// Built-in profiles by name, else a file whose name ends in ".yaml" or ".yml". NotFound lists what
// there is.
absl::StatusOr<SimProfile> LoadSimProfile(const std::string& name);

// What ParseSimProfile reads as the same profile.
std::string ToText(const SimProfile& profile);

std::vector<std::string> BuiltinSimProfiles();  // their names, sorted

// `profile` with some of its constants replaced: a mapping as above, of any of them. Its hash
// covers both. Errors as above.
absl::StatusOr<SimProfile> OverrideSimProfile(SimProfile profile, absl::string_view text,
                                              absl::string_view source);
// Every constant by its key in the file, in the order of the page docs/device_sim.md.
std::vector<std::pair<std::string, double>> ConstantsOf(const SimProfile& profile);

}  // namespace ebb::device
