// calibrate: a model of a GPU's kernels from what was measured there (docs/perfmodel.md).
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "client/local_file.h"

namespace ebb::cli {
namespace {

absl::Status Write(const std::string& path, const std::string& text) {
  EBB_ASSIGN_OR_RETURN(const auto file, client::OutputFile::Create(path));
  EBB_RETURN_IF_ERROR(file->Write(text));
  return file->Commit();
}

std::string LawTable(const v1::CalibrateResponse& response) {
  std::vector<std::vector<std::string>> rows = {{"kernels", "type", "different", "error"}};
  for (const auto& law : response.laws()) {
    rows.push_back({law.family(), law.dtype(), absl::StrCat(law.kernels()),
                    law.fitted() ? absl::StrFormat("%.1f %% of those left out", law.mape())
                                 : "too few: the data sheet answers"});
  }
  return Table(rows);
}

int Calibrate(const Context& context) {
  const Args& args = context.args;
  const std::string& path = args.positional()[0];
  if (!args.Has("hardware") || !args.Has("o")) {
    return Fail(absl::InvalidArgumentError(
        "calibrate needs --hardware, whose data sheet it starts from, and -o, where to write"));
  }
  auto samples = client::ReadRegularFile(path);
  if (!samples.ok()) return Fail(samples.status());
  v1::CalibrateRequest request;
  request.set_hardware(args.Get("hardware"));
  request.set_device(args.Get("device"));
  request.set_samples(*std::move(samples));
  auto response = context.client.Calibrate(request);
  if (!response.ok()) return Fail(Annotate(response.status(), path));
  if (const absl::Status status = Write(args.Get("o"), response->model()); !status.ok()) {
    return Fail(status);
  }
  response->clear_model();  // it is in the file
  std::fputs(
      context.json
          ? absl::StrCat(client::ToJson(*response, client::JsonStyle::kIndented), "\n").c_str()
          : absl::StrCat(LawTable(*response), args.Get("o"), "\n").c_str(),
      stdout);
  return kOk;
}

}  // namespace

std::vector<Command> CalibrateCommands() {
  return {
      {"calibrate",
       "calibrate SAMPLES --hardware NAME -o FILE [--device NAME]",
       "Fit a model of a GPU's kernels to measured ones, for ebb predict --calibration; say how "
       "far "
       "it is off kernels that were left out.",
       "  ebb calibrate kernels.jsonl --hardware a100-80gb -o a100.json\n",
       1,
       1,
       {{"hardware", "NAME", "whose data sheet it starts from: a100-80gb, ..."},
        {"device", "NAME", "whose samples count, if they are of several"},
        {"o", "FILE", "where to write the model"}},
       Calibrate},
  };
}

}  // namespace ebb::cli
