// shard: which rank should hold which embedding table (docs/perfmodel.md).
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "client/cli/commands.h"
#include "client/cli/fabric_argument.h"
#include "client/cli/predicted.h"
#include "client/json.h"
#include "client/local_file.h"
#include "client/yaml.h"

namespace ebb::cli {
namespace {

absl::StatusOr<v1::ShardEmbeddingsRequest> RequestOf(const Args& args) {
  const std::string& path = args.positional()[0];
  EBB_ASSIGN_OR_RETURN(const std::string text, client::ReadRegularFile(path));
  EBB_ASSIGN_OR_RETURN(v1::ShardEmbeddingsRequest request, client::ParseTables(text, path));
  const auto whole = [&](const char* flag, int64_t most) -> absl::StatusOr<int64_t> {
    int64_t number = 0;
    if (absl::SimpleAtoi(args.Get(flag), &number) && number >= 1 && number <= most) return number;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": '", Escaped(args.Get(flag)),
                                                   "' is no whole number from 1 to ", most));
  };
  if (args.Has("ranks")) {
    EBB_ASSIGN_OR_RETURN(const int64_t ranks, whole("ranks", 4096));
    request.set_ranks(static_cast<int32_t>(ranks));
  }
  if (args.Has("batch")) {
    EBB_ASSIGN_OR_RETURN(const int64_t batch, whole("batch", int64_t{1} << 40));
    request.set_batch_size(batch);
  }
  if (args.Has("hardware")) request.set_hardware(args.Get("hardware"));
  if (args.Has("fabric")) {
    EBB_ASSIGN_OR_RETURN(*request.mutable_fabric(), FabricOf(args.Get("fabric")));
  }
  if (request.ranks() == 0) {
    return absl::InvalidArgumentError("give --ranks, or ranks in the file: how many GPUs");
  }
  if (request.hardware().empty()) {
    return absl::InvalidArgumentError(
        "give --hardware, or hardware in the file: the kind of GPU, such as a100-80gb");
  }
  return request;
}

int Shard(const Context& context) {
  const auto request = RequestOf(context.args);
  if (!request.ok()) return Fail(request.status());
  const auto response = context.client.ShardEmbeddings(*request);
  if (!response.ok()) {
    return Fail(Annotate(response.status(), context.args.positional()[0]));
  }
  std::fputs(
      context.json
          ? absl::StrCat(client::ToJson(*response, client::JsonStyle::kIndented), "\n").c_str()
          : ShardText(*response).c_str(),
      stdout);
  return kOk;
}

}  // namespace

std::vector<Command> ShardCommands() {
  return {
      {"shard",
       "shard TABLES.yaml --ranks N --hardware NAME --fabric FABRIC",
       "Say which rank should hold which embedding table, or which part of it, and how long their "
       "look-ups would take.",
       "  ebb shard tables.yaml --ranks 8 --hardware a100-80gb --fabric a100-nvswitch\n"
       "  where tables.yaml is\n"
       "    batch_size: 65536\n"
       "    tables:\n"
       "    - {name: user, rows: 10000000, width: 64, pooling: 1, skew: 1.05}\n"
       "    - {name: clicks, rows: 2000000, width: 64, pooling: 20, skew: 0.8}\n",
       1,
       1,
       {{"ranks", "N", "how many GPUs (default: ranks of the file)"},
        {"hardware", "NAME", "the kind of GPU (default: hardware of the file)"},
        {"fabric", "FABRIC", "what joins them: a known one's name (ebb fabric show) or a file"},
        {"batch", "N", "samples of a step, of all ranks (default: batch_size of the file)"}},
       Shard},
  };
}

}  // namespace ebb::cli
