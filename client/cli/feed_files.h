// Batches of a feed out of data files, in the order in which a job that reads the file itself would
// have them. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/feed.h"
#include "data/dataset.h"

namespace ebb::cli {

struct FeedOrder {
  int64_t epochs = 1;            // all files one after another are an epoch
  std::optional<uint64_t> seed;  // rows of a file are shuffled as by a job's seed.data
};

class FileBatches {
 public:
  FileBatches(std::vector<std::string> paths, FeedOrder order)
      : paths_(std::move(paths)), order_(order) {}

  // Rows and fields of a batch, as the daemon says.
  absl::Status Begin(const v1::FeedResponse& begun);
  // Nothing after the last one. FailedPrecondition: `number` is beyond that. Other errors name the
  // file. Rows that are left over at the end of a file are in no batch.
  absl::StatusOr<std::optional<client::FedBatch>> Make(int64_t number);

 private:
  absl::Status Load();  // file_, in epoch_
  absl::Status Next();

  const std::vector<std::string> paths_;
  const FeedOrder order_;
  std::vector<data::FieldBinding> bindings_;
  int64_t rows_ = 0;  // of a batch

  int64_t epoch_ = 0;
  size_t file_ = 0;
  int64_t first_ = 0;  // batch of all, which is the first of this file in this epoch
  size_t loaded_ = SIZE_MAX;
  data::BatchSource source_;  // of loaded_
  std::vector<int64_t> rows_in_order_;
};

}  // namespace ebb::cli
