// Walks the file's protobuf by field numbers (onnx.proto) without keeping anything: weights are
// skipped, not read.
#include "client/onnx_external.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>
#include <unistd.h>

#include <limits>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "client/local_file.h"

namespace ebb::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t Field(int number) {
  return static_cast<uint32_t>(number) << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}
constexpr uint32_t kModelGraph = Field(7), kGraphInitializer = Field(5),
                   kTensorExternal = Field(13), kEntryKey = Field(1), kEntryValue = Field(2);

bool ReadText(CodedInputStream& in, std::string* text) {
  uint32_t length = 0;
  return in.ReadVarint32(&length) && in.ReadString(text, static_cast<int>(length));
}

// Calls `visit` inside each field `tag` of the message, and skips the others. False: not readable.
template <class Visit>
bool ForEach(CodedInputStream& in, uint32_t tag, Visit visit) {
  while (const uint32_t found = in.ReadTag()) {
    if (found != tag) {
      if (!WireFormatLite::SkipField(&in, found)) return false;
      continue;
    }
    uint32_t length = 0;
    if (!in.ReadVarint32(&length)) return false;
    const auto limit = in.PushLimit(static_cast<int>(length));
    if (!visit()) return false;
    in.PopLimit(limit);
  }
  return true;
}

bool ReadEntry(CodedInputStream& in, std::set<std::string>* locations) {
  std::string key, value;
  while (const uint32_t tag = in.ReadTag()) {
    const bool read = tag == kEntryKey     ? ReadText(in, &key)
                      : tag == kEntryValue ? ReadText(in, &value)
                                           : WireFormatLite::SkipField(&in, tag);
    if (!read) return false;
  }
  if (key == "location" && !value.empty()) locations->insert(value);
  return true;
}

bool LeadsOut(const std::string& location) {
  if (location[0] == '/' || location.find('\0') != std::string::npos) return true;
  for (absl::string_view part : absl::StrSplit(location, '/')) {
    if (part == "..") return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExternalLocations(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  const absl::Cleanup closer = [fd] { close(fd); };
  google::protobuf::io::FileInputStream file(fd);
  CodedInputStream in(&file);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  std::set<std::string> locations;
  const bool readable = ForEach(in, kModelGraph, [&] {
    return ForEach(in, kGraphInitializer, [&] {
      return ForEach(in, kTensorExternal, [&] { return ReadEntry(in, &locations); });
    });
  });
  if (!readable) return std::vector<std::string>();
  for (const std::string& location : locations) {
    if (LeadsOut(location)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " keeps weights in '", Escaped(location),
                       "', which is no path inside its directory; save it again with "
                       "onnx.save(model, path, save_as_external_data=True, location=NAME)"));
    }
  }
  return std::vector<std::string>(locations.begin(), locations.end());
}

}  // namespace ebb::client
