// Writers of small files, in the plainest form of each format.
#include "tests/data/files.h"

#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::data {
namespace {

template <class T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Deflate(absl::string_view content, int window_bits) {
  z_stream stream = {};
  EBB_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EBB_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string NpyWithHeader(absl::string_view header, absl::string_view payload) {
  std::string out = absl::StrCat("\x93NUMPY", absl::string_view("\x01\x00", 2));
  Append(&out, static_cast<uint16_t>(header.size()));
  return absl::StrCat(out, header, payload);
}

std::string Npy(absl::string_view descr, absl::string_view shape, absl::string_view payload,
                absl::string_view fortran_order) {
  return NpyWithHeader(absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", fortran_order,
                                    ", 'shape': ", shape, ", }\n"),
                       payload);
}

std::string Zip(const std::vector<std::pair<std::string, std::string>>& entries, ZipMethod method) {
  std::string out, directory;
  for (const auto& [name, content] : entries) {
    const std::string packed = method == ZipMethod::kStore ? content : Deflate(content, -MAX_WBITS);
    const auto offset = static_cast<uint32_t>(out.size());
    std::string common;  // what the local and the central header share
    Append(&common, uint16_t{20});
    Append(&common, uint16_t{0});
    Append(&common, static_cast<uint16_t>(method == ZipMethod::kStore ? 0 : 8));
    Append(&common, uint32_t{0x00210000});  // 1980-01-01
    Append(&common, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                                static_cast<uInt>(content.size()))));
    Append(&common, static_cast<uint32_t>(packed.size()));
    Append(&common, static_cast<uint32_t>(content.size()));
    Append(&common, static_cast<uint16_t>(name.size()));
    Append(&common, uint16_t{0});
    absl::StrAppend(&out, "PK\x03\x04", common, name, packed);
    std::string central = absl::StrCat("PK\x01\x02", absl::string_view("\x14\x00", 2), common);
    central.append(10, '\0');
    Append(&central, offset);
    absl::StrAppend(&directory, central, name);
  }
  const auto directory_at = static_cast<uint32_t>(out.size());
  const auto count = static_cast<uint16_t>(entries.size());
  absl::StrAppend(&out, directory, "PK\x05\x06");
  Append(&out, uint32_t{0});
  Append(&out, count);
  Append(&out, count);
  Append(&out, static_cast<uint32_t>(directory.size()));
  Append(&out, directory_at);
  Append(&out, uint16_t{0});
  return out;
}

std::string Gzip(absl::string_view content) { return Deflate(content, 16 + MAX_WBITS); }

std::string Idx(unsigned char code, const std::vector<unsigned>& dims, absl::string_view payload) {
  std::string out = {'\0', '\0', static_cast<char>(code), static_cast<char>(dims.size())};
  for (unsigned dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(dim >> shift));
  }
  return absl::StrCat(out, payload);
}

std::string ReadSource(absl::string_view path) {
  std::ifstream file(absl::StrCat(EBB_SOURCE_DIR "/", path), std::ios::binary);
  EBB_CHECK(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Fixture(absl::string_view name) {
  return ReadSource(absl::StrCat("tests/data/fixtures/", name));
}

}  // namespace ebb::data
