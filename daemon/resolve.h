// From the references in a job spec (sha256:, store:, host paths) to bytes and loaded data sets.
// A host path must lie inside an allowed root after all symbolic links are resolved. Thread-safe.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/units.h"
#include "daemon/host_roots.h"
#include "daemon/store.h"
#include "data/dataset.h"
#include "data/tokens.h"
#include "graph/graph.h"
#include "runtime/host_budget.h"

namespace ebb::daemon {

using runtime::HostBudget;

class Resolver {
 public:
  // `roots` are directories; none = no host paths. `file_limit`: the largest file that is read;
  // `host_memory`: for all that is read and held.
  Resolver(const Store* store, std::vector<std::string> roots, Bytes file_limit,
           Bytes host_memory = Bytes(std::numeric_limits<int64_t>::max()));

  // Errors name the reference: NotFound, PermissionDenied (outside the roots), InvalidArgument,
  // ResourceExhausted. What is returned counts against the host's memory until it is let go.
  absl::StatusOr<std::shared_ptr<const std::string>> Read(absl::string_view reference);
  absl::StatusOr<std::shared_ptr<const graph::TensorMap>> Weights(absl::string_view reference);
  absl::StatusOr<std::shared_ptr<const std::vector<int64_t>>> Index(absl::string_view reference);
  // The same content is loaded once as long as someone holds it.
  absl::StatusOr<std::shared_ptr<const data::DataSet>> Load(absl::string_view reference,
                                                            const data::FileOptions& options);
  absl::StatusOr<std::shared_ptr<const data::DataSet>> LoadTokens(
      absl::string_view reference, const data::TokenOptions& options);
  // A directory on the daemon's host, or a zip of one.
  absl::StatusOr<std::shared_ptr<const data::DataSet>> LoadImages(absl::string_view reference);
  const HostBudget& budget() const { return budget_; }

 private:
  absl::StatusOr<std::string> ReadHostFile(const std::string& path, HostBudget::Share* share) const;

  absl::StatusOr<std::shared_ptr<const data::DataSet>> LoadFolder(const std::string& path);

  using Parse = absl::FunctionRef<absl::StatusOr<std::shared_ptr<const data::DataSet>>(
      absl::string_view bytes, const data::Reserve& reserve)>;
  // `how` names what `parse` does with the bytes.
  absl::StatusOr<std::shared_ptr<const data::DataSet>> LoadAs(absl::string_view reference,
                                                              const std::string& how, Parse parse);

  const Store* const store_;
  const HostRoots roots_;
  const Bytes file_limit_;
  HostBudget budget_;
  Mutex mu_;
  // By (sha256, how it was parsed).
  absl::flat_hash_map<std::pair<std::string, std::string>, std::weak_ptr<const data::DataSet>>
      cache_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::daemon
