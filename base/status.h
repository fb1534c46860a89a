// Short forms for absl::Status, which crosses every module border.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb {

// The same status with "`context`: " before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace ebb

#define EBB_RETURN_IF_ERROR(expr)                             \
  do {                                                        \
    if (absl::Status ebb_status = (expr); !ebb_status.ok()) { \
      return ebb_status;                                      \
    }                                                         \
  } while (false)
// NOLINTBEGIN(bugprone-macro-parentheses): `lhs` may declare a variable.
#define EBB_CONCAT_INNER(a, b) a##b
#define EBB_CONCAT(a, b) EBB_CONCAT_INNER(a, b)
#define EBB_ASSIGN_OR_RETURN(lhs, expr) \
  EBB_ASSIGN_OR_RETURN_IMPL(EBB_CONCAT(ebb_statusor_, __LINE__), lhs, expr)
#define EBB_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)
