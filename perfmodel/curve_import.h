// Curves of collectives from what measuring programs print. Pure; reads foreign text, which may be
// cut short or hostile. Errors are InvalidArgument and begin with the place, "SOURCE:LINE: ".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/curve.h"

namespace ebb::perfmodel {

// What a text does not say itself; what it says goes first.
struct CurveHints {
  std::optional<CollectiveKind> kind;
  std::optional<int64_t> ranks;
  std::optional<int64_t> nodes;
};

// nccl-tests and rccl-tests, one run or several, old columns (no root, `error`) and new ones
// (`#wrong`), with the prefixes of mpirun and srun and other programs' lines between. The kind is
// that of the program named in the text (all_reduce_perf) or in `source`; ranks and nodes those of
// its "Rank" lines. Times in place and out of place are two measurements of a size. Refused: a row
// that is cut short, wrong results, busbw that is not that of the kind and ranks.
absl::StatusOr<std::vector<Curve>> ReadNcclTests(absl::string_view text, absl::string_view source,
                                                 const CurveHints& hints = {});

// The COMMS-RES lines of PARAM's comms benchmark: the median latency (p50). Ranks are those of
// "world_size".
absl::StatusOr<std::vector<Curve>> ReadParamComms(absl::string_view text, absl::string_view source,
                                                  const CurveHints& hints = {});

// Tables: vTrain's look-up tables (size(B), time(ns); ranks by the file's name, AR_GPU8_...),
// Vidur's (time_stats.KIND.median in ms, size, num_workers, devices_per_node: a curve for each
// number of ranks and nodes), published logs as `bytes, time_us_out_of_place, time_us_in_place`
// below a comment with "nranks N" and "gpus_per_node N".
absl::StatusOr<std::vector<Curve>> ReadCurveTable(absl::string_view text, absl::string_view source,
                                                  const CurveHints& hints = {});

// Whichever of the three the text is.
absl::StatusOr<std::vector<Curve>> ReadCurves(absl::string_view text, absl::string_view source,
                                              const CurveHints& hints = {});

// The kind that a measuring program is named for: "all_reduce_perf" of nccl-tests, "all_to_allv"
// of PARAM. InvalidArgument for others.
absl::StatusOr<CollectiveKind> KindOfProgram(absl::string_view name);

}  // namespace ebb::perfmodel
