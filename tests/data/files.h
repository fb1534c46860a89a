// Files of every data format, built byte by byte, for the tests of data/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace ebb::data {

// A version-1 .npy: descr "<f4" and the like, shape "(4, 3)", order "False".
std::string Npy(absl::string_view descr, absl::string_view shape, absl::string_view payload,
                absl::string_view fortran_order = "False");
// The same with a header of the caller's.
std::string NpyWithHeader(absl::string_view header, absl::string_view payload);

enum class ZipMethod { kStore, kDeflate };
// Entries are (name with ".npy", content).
std::string Zip(const std::vector<std::pair<std::string, std::string>>& entries,
                ZipMethod method = ZipMethod::kStore);

std::string Gzip(absl::string_view content);

// `dims` big-endian, then the payload as it is.
std::string Idx(unsigned char code, const std::vector<unsigned>& dims, absl::string_view payload);

// A file of the source tree, by its path from the root.
std::string ReadSource(absl::string_view path);
// A file of tests/data/fixtures (made by numpy 1.24).
std::string Fixture(absl::string_view name);

// The bytes of values as they lie in memory.
template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace ebb::data
