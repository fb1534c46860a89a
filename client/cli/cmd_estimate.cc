// estimate: what a job would take and when it could start, without submitting it.
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "client/submit.h"

namespace ebb::cli {
namespace {

int Estimate(const Context& context) {
  const std::string& path = context.args.positional()[0];
  auto spec = client::ReadSpecFile(path, context.args.All("set"));
  if (!spec.ok()) return Fail(spec.status());
  client::Uploader uploader(&context.client);
  const absl::Status status = uploader.UploadModel(client::DirectoryOf(path), &*spec);
  if (!status.ok()) return Fail(Annotate(status, path));
  const auto response = context.client.Estimate(*spec, context.args.All("device"));
  if (!response.ok()) {
    const std::string message = uploader.WithPaths(response.status().message());
    return Fail(Annotate(absl::Status(response.status().code(), message), path));
  }
  std::fputs(
      context.json
          ? absl::StrCat(client::ToJson(*response, client::JsonStyle::kIndented), "\n").c_str()
          : EstimateText(*response).c_str(),
      stdout);
  const bool somewhere =
      std::any_of(response->estimates().begin(), response->estimates().end(),
                  [](const auto& one) { return one.verdict() != v1::Estimate::VERDICT_NEVER; });
  return somewhere ? kOk : kRefused;
}

}  // namespace

std::vector<Command> EstimateCommands() {
  return {
      {"estimate",
       "estimate SPEC [--device DEVICE]... [--set KEY.PATH=VALUE]...",
       "Say whether a job would fit now, later or never, and what it would take, without "
       "submitting "
       "it; its data are not read.",
       "  ebb estimate job.yaml\n"
       "  ebb estimate job.yaml --device sim:v100-16gb --device sim:h100-80gb --set "
       "batch_size=256\n"
       "  ebb estimate job.yaml --json | jq '.estimates[0].largest_batch_now'\n",
       1,
       1,
       {{"device", "DEVICE", "live (the default) or sim:PROFILE; repeatable: a column each"},
        {"set", "KEY.PATH=VALUE", "change a field of the file; repeatable"}},
       Estimate},
  };
}

}  // namespace ebb::cli
