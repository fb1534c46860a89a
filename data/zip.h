// Zip archives from memory, by libzip. Declared sizes are not believed: deflate cannot expand more
// than about 1032 times, so a larger claim is a lie and nothing is allocated for it. Stateless.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"

namespace ebb::data {

bool IsZip(absl::string_view bytes);

// How errors speak of the archive.
struct ZipWords {
  absl::string_view format;  // "npz"
  absl::string_view remedy;  // "save it again with numpy.savez"
};

enum class ZipEntry { kRead, kSkip };

// Asked for each entry before it is unpacked, with what it says to be its size.
using ZipFilter = absl::FunctionRef<absl::StatusOr<ZipEntry>(absl::string_view name, Bytes size)>;
using ZipVisitor = absl::FunctionRef<absl::Status(absl::string_view name, std::string content)>;

// Entries that are read, in the archive's order; an error of theirs gets the entry's name.
// InvalidArgument: damaged. Unimplemented: encrypted, or another compression than deflate.
// ResourceExhausted: together more than `limit` unpacked.
absl::Status VisitZip(absl::string_view bytes, const ZipWords& words, Bytes limit, ZipFilter filter,
                      ZipVisitor visit);

}  // namespace ebb::data
