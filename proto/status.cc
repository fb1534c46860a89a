#include "proto/status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"

namespace ebb::proto {
namespace {

struct Row {
  absl::StatusCode absl_code;
  grpc::StatusCode grpc_code;
};
constexpr Row kCodes[] = {
    {absl::StatusCode::kOk, grpc::StatusCode::OK},
    {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
    {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
    {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
    {absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
    {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
    {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
    {absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
    {absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
    {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
    {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
    {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
    {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
    {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
    {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
};

// gRPC allows 8 KiB of trailers, in which a byte may take three.
constexpr size_t kMaxMessage = 2500;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  for (const Row& row : kCodes) {
    if (row.absl_code == status.code()) code = row.grpc_code;
  }
  // It may quote a file's names, which hold any bytes.
  std::string message = Escaped(status.message());
  if (message.size() > kMaxMessage) {
    size_t length = kMaxMessage;
    while ((static_cast<unsigned char>(message[length]) & 0xc0) == 0x80) --length;
    message = absl::StrCat(message.substr(0, length), " ...");
  }
  return grpc::Status(code, message);
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kUnknown;
  for (const Row& row : kCodes) {
    if (row.grpc_code == status.error_code()) code = row.absl_code;
  }
  return absl::Status(code, status.error_message());
}

}  // namespace ebb::proto
