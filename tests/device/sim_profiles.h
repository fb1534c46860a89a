// A profile of round numbers for tests of the simulated device, and changes to it.
#pragma once

#include "device/sim/profile.h"

namespace ebb::testing {

// 10 multiprocessors, 1e6 flops and 1e3 bytes a microsecond, 100 bytes a microsecond on the bus;
// nothing costs anything but work.
inline device::SimProfile PlainProfile() {
  device::SimProfile profile;
  profile.key = "plain";
  profile.name = "round numbers";
  profile.memory_gib = 1;
  profile.multiprocessors = 10;
  profile.peak_tflops = 1;
  profile.bandwidth_gbs = 1;
  profile.bus_gbs = 0.1;
  profile.tile_rows = 128;
  profile.tile_columns = 64;
  profile.tiles_per_multiprocessor = 2;
  profile.split_depth = 1000;
  profile.conv_split_depth = 4000;
  profile.block_elements = 1000;
  profile.blocks_per_multiprocessor = 5;
  profile.conv_workspace_mib = 1;
  profile.steps_at_once = 4;
  profile.granule_kib = 64;
  profile.alignment_bytes = 64;
  return profile;
}

}  // namespace ebb::testing
