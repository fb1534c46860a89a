// zlib's inflate in steps, so that memory grows with what really comes out and never past the
// limit.
#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::data {
namespace {

constexpr size_t kChunk = 256 << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("gzip: ", what, "; compress the file again (gzip -t FILE checks it)"));
}

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

}  // namespace

bool IsGzip(absl::string_view bytes) { return absl::StartsWith(bytes, "\x1f\x8b"); }

absl::StatusOr<std::string> Gunzip(absl::string_view bytes, Bytes limit, const Reserve& reserve) {
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    return absl::ResourceExhaustedError("gzip: no memory to start unpacking");
  }
  const std::unique_ptr<z_stream, EndInflate> end(&stream);

  const auto* input = reinterpret_cast<const Bytef*>(bytes.data());
  size_t left = bytes.size();
  std::string out;
  const std::unique_ptr<Bytef[]> chunk(new Bytef[kChunk]);
  while (true) {
    if (stream.avail_in == 0 && left > 0) {
      const size_t taken = std::min<size_t>(left, std::numeric_limits<uInt>::max());
      stream.next_in = const_cast<Bytef*>(input);
      stream.avail_in = static_cast<uInt>(taken);
      input += taken;
      left -= taken;
    }
    stream.next_out = chunk.get();
    stream.avail_out = kChunk;
    const int result = inflate(&stream, Z_NO_FLUSH);
    const size_t made = kChunk - stream.avail_out;
    if (out.size() + made > static_cast<uint64_t>(limit.count())) {
      return absl::ResourceExhaustedError(
          absl::StrCat("gzip: unpacks to more than the limit of ", FormatBytes(limit)));
    }
    // Twice: a string that grows is copied.
    if (reserve) EBB_RETURN_IF_ERROR(reserve(Bytes(static_cast<int64_t>(2 * made))));
    out.append(reinterpret_cast<const char*>(chunk.get()), made);
    const bool more_input = stream.avail_in > 0 || left > 0;
    if (result == Z_STREAM_END) {
      if (!more_input) return out;
      if (inflateReset(&stream) != Z_OK) return Damaged("cannot start the next member");
    } else if (result == Z_MEM_ERROR) {
      return absl::ResourceExhaustedError("gzip: no memory to unpack");
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return Damaged(stream.msg != nullptr ? stream.msg : "damaged data");
    } else if (!more_input && made < kChunk) {
      return Damaged("the file is cut short");
    }
  }
}

}  // namespace ebb::data
