// File descriptors 0 to 2 of the process.
#pragma once

namespace ebb {

// Opens on /dev/null those that the process was started without: else the next file or socket takes
// their number, and what is logged goes into it. For the first line of main().
void OpenStandardStreams();

}  // namespace ebb
