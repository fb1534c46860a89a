#include "data/tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/decode.h"
#include "data/gzip.h"
#include "data/npy.h"
#include "data/zip.h"

namespace ebb::data {
namespace {

constexpr absl::string_view kHowToSave =
    "save the ids with numpy.save, or bare with numpy.array(ids, numpy.uint16).tofile(\"t.bin\")";

// The tokens as they lie in the file.
struct Flat {
  RawElement element;
  absl::string_view payload;
  int64_t count() const { return static_cast<int64_t>(payload.size()) / element.bytes; }
};

absl::StatusOr<Flat> ReadNpy(absl::string_view bytes, TokenType said) {
  EBB_ASSIGN_OR_RETURN(const NpyArray array, OpenNpy(bytes));
  if (said != TokenType::kUnsaid) {
    return absl::InvalidArgumentError(
        "token_type is for bare arrays, but this is a .npy, whose header says the type; remove "
        "token_type");
  }
  if (array.element.kind != 'u' && array.element.kind != 'i') {
    return absl::InvalidArgumentError(
        absl::StrCat("npy: tokens are integers, but the elements are of type ",
                     std::string(1, array.element.kind), array.element.bytes,
                     "; save array.astype(numpy.uint16), or uint32 for more than 65,536 tokens"));
  }
  if (array.shape.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("npy: the array has shape ", graph::ToString(array.shape),
                     ", but tokens are one flat array; save array.reshape(-1)"));
  }
  EBB_RETURN_IF_ERROR(
      Annotate(CheckPayload(array.element, array.shape, array.payload.size()), "npy"));
  return Flat{array.element, array.payload};
}

bool LooksLikeText(absl::string_view bytes) {
  const absl::string_view head = bytes.substr(0, 4096);
  return std::all_of(head.begin(), head.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
}

// Small numbers of four bytes have two zeros each; so many of them are no accident.
bool LooksLikeU32(absl::string_view bytes) {
  const absl::string_view head = bytes.substr(0, 65536);
  if (head.size() < 64 || bytes.size() % 4 != 0) return false;
  bool any = false;
  for (size_t i = 0; i + 4 <= head.size(); i += 4) {
    if (head[i + 2] != 0 || head[i + 3] != 0) return false;
    any = any || head[i] != 0 || head[i + 1] != 0;
  }
  return any;
}

// What people give by mistake, when nothing says that these are tokens of two bytes.
absl::Status RefuseOthers(absl::string_view bytes) {
  constexpr absl::string_view kInsist = "; if these are ids of two bytes, say token_type: u16";
  if (IsGzip(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the file is gzipped; gunzip it", kInsist));
  }
  if (IsZip(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file is a zip or .npz; ", kHowToSave, kInsist));
  }
  if (LooksLikeText(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file is text, but tokens are numbers: encode it; ", kHowToSave, kInsist));
  }
  if (LooksLikeU32(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "every second number of two bytes is 0, as in an array of four bytes each; say "
        "token_type: u32",
        kInsist));
  }
  return absl::OkStatus();
}

absl::StatusOr<Flat> ReadBare(absl::string_view bytes, TokenType said) {
  if (said == TokenType::kUnsaid) EBB_RETURN_IF_ERROR(RefuseOthers(bytes));
  const int size = said == TokenType::kU32 ? 4 : 2;
  if (bytes.size() % static_cast<size_t>(size) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file has ", bytes.size(), " bytes, which are no whole number of u",
                     8 * size, " tokens; it is cut short, or of another type: ", kHowToSave));
  }
  return Flat{{'u', size, ByteOrder::kLittle}, bytes};
}

template <class T>
absl::Status CheckSign(const graph::HostTensor& tokens, int64_t first) {
  const absl::Span<const T> values = tokens.as<T>();
  const auto bad = std::find_if(values.begin(), values.end(), [](T value) { return value < 0; });
  if (bad == values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("token ", first + (bad - values.begin()),
                                                 " of the file is ", *bad,
                                                 "; token ids are 0 or more"));
}

absl::StatusOr<std::shared_ptr<const DataSet>> Cut(const Flat& flat, const TokenOptions& options,
                                                   Bytes limit, const Reserve& reserve) {
  const auto at = [&](double fraction) {
    return std::min(flat.count(),
                    static_cast<int64_t>(std::floor(fraction * static_cast<double>(flat.count()))));
  };
  const int64_t first = at(options.from);
  const int64_t count = at(options.to) - first;
  const int64_t windows = count / options.window;
  if (windows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("window ", options.window, " is longer than the ", count,
                     " tokens in the range [", options.from, ", ", options.to, ") of the file's ",
                     flat.count(), "; shorten the window or widen the range"));
  }
  const int64_t taken = windows * options.window;
  // An element becomes one of twice its size at most, and at least four bytes.
  const Bytes unpacked = Bytes(std::max(4, 2 * flat.element.bytes)) * taken;
  if (unpacked > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(taken, " tokens unpack to ", FormatBytes(unpacked),
                     ", more than the limit of ", FormatBytes(limit), "; narrow the range"));
  }
  if (reserve) EBB_RETURN_IF_ERROR(reserve(unpacked));
  const auto size = static_cast<size_t>(flat.element.bytes);
  EBB_ASSIGN_OR_RETURN(graph::HostTensor tokens,
                       DecodeArray(flat.element, {windows, options.window},
                                   flat.payload.substr(static_cast<size_t>(first) * size,
                                                       static_cast<size_t>(taken) * size)));
  if (tokens.type.dtype == graph::DType::kI32)
    EBB_RETURN_IF_ERROR(CheckSign<int32_t>(tokens, first));
  if (tokens.type.dtype == graph::DType::kI64)
    EBB_RETURN_IF_ERROR(CheckSign<int64_t>(tokens, first));
  std::map<std::string, graph::HostTensor> fields;
  fields.emplace("tokens", std::move(tokens));
  return DataSet::Create(std::move(fields), TokenOrigin{.first = first, .window = options.window});
}

}  // namespace

absl::Status CheckTokenOptions(const TokenOptions& options) {
  if (options.window < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("window is ", options.window,
                     "; give the tokens of one sample, e.g. 257 for 256 inputs and their targets"));
  }
  if (!(options.from >= 0 && options.from < options.to && options.to <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("range is [", options.from, ", ", options.to,
                     "]; give two fractions of the file in order, such as [0, 0.9] and [0.9, 1]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const DataSet>> ParseTokens(absl::string_view bytes,
                                                           const TokenOptions& options, Bytes limit,
                                                           const Reserve& reserve) {
  EBB_RETURN_IF_ERROR(CheckTokenOptions(options));
  if (bytes.empty()) return absl::InvalidArgumentError("the token file is empty (0 bytes)");
  try {
    EBB_ASSIGN_OR_RETURN(const Flat flat, IsNpy(bytes) ? ReadNpy(bytes, options.type)
                                                       : ReadBare(bytes, options.type));
    return Cut(flat, options, limit, reserve);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host has too little memory to unpack the tokens");
  }
}

}  // namespace ebb::data
