#include "client/cli/predict_training.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "client/cli/fabric_argument.h"
#include "client/cli/predicted.h"
#include "client/json.h"
#include "client/local_file.h"
#include "client/submit.h"
#include "perfmodel/report_text.h"

namespace ebb::cli {
namespace {

absl::Status Usage(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<int64_t> Whole(absl::string_view flag, absl::string_view text) {
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return Usage(absl::StrCat("--", flag, ": '", Escaped(text), "' is no whole number"));
}

absl::StatusOr<double> Number(absl::string_view flag, absl::string_view text) {
  double number = 0;
  if (absl::SimpleAtod(text, &number)) return number;
  return Usage(absl::StrCat("--", flag, ": '", Escaped(text), "' is no number"));
}

// All parts between commas of all times that the flag is given.
std::vector<std::string> Parts(const Args& args, const std::string& flag) {
  std::vector<std::string> parts;
  for (const std::string& value : args.All(flag)) {
    for (const absl::string_view part : absl::StrSplit(value, ',', absl::SkipEmpty())) {
      parts.emplace_back(part);
    }
  }
  return parts;
}

// A job file, rather than the name of a job.
bool IsFile(const std::string& text) {
  std::error_code error;
  return absl::StrContains(text, '/') || absl::EndsWith(text, ".yaml") ||
         absl::EndsWith(text, ".yml") || absl::EndsWith(text, ".json") ||
         std::filesystem::is_regular_file(text, error);
}

absl::Status SetNumbers(const Args& args, v1::PredictRequest* request) {
  for (const std::string& part : Parts(args, "gpus")) {
    EBB_ASSIGN_OR_RETURN(const int64_t gpus, Whole("gpus", part));
    request->add_gpus(gpus);
  }
  for (const std::string& part : Parts(args, "price")) {
    EBB_ASSIGN_OR_RETURN(const double price, Number("price", part));
    request->add_price_per_gpu_hour(price);
  }
  if (args.Has("batch")) {
    EBB_ASSIGN_OR_RETURN(const int64_t batch, Whole("batch", args.Get("batch")));
    if (batch < 1) return Usage("--batch: it must be at least 1");
    request->set_batch_size(batch);
  }
  if (args.Has("steps")) {
    EBB_ASSIGN_OR_RETURN(const int64_t steps, Whole("steps", args.Get("steps")));
    if (steps < 1) return Usage("--steps: it must be at least 1");
    request->set_steps(steps);
  }
  if (args.Has("launch_us")) {
    EBB_ASSIGN_OR_RETURN(const double micros, Number("launch_us", args.Get("launch_us")));
    request->set_launch_us(micros);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::PredictRequest> RequestOf(const Context& context, client::Uploader* uploader) {
  const Args& args = context.args;
  v1::PredictRequest request;
  EBB_RETURN_IF_ERROR(SetNumbers(args, &request));
  for (std::string& name : Parts(args, "hardware")) request.add_hardware(std::move(name));
  if (request.hardware().empty()) {
    return Usage("--gpus needs --hardware: the kind of GPU, such as a100-80gb");
  }
  for (std::string& name : Parts(args, "strategy")) request.add_strategies(std::move(name));
  for (const std::string& path : args.All("calibration")) {
    EBB_ASSIGN_OR_RETURN(*request.add_calibrations(), client::ReadRegularFile(path));
  }
  for (const std::string& part : Parts(args, "fabric")) {
    EBB_ASSIGN_OR_RETURN(*request.add_fabrics(), FabricOf(part));
  }
  request.set_timelines(args.Has("timeline"));
  const std::string& what = args.positional()[0];
  if (!IsFile(what)) {
    if (args.Has("set")) return Usage("--set changes a job file, not a job");
    request.set_job(what);
    return request;
  }
  EBB_ASSIGN_OR_RETURN(*request.mutable_spec(), client::ReadSpecFile(what, args.All("set")));
  EBB_RETURN_IF_ERROR(
      Annotate(uploader->UploadModel(client::DirectoryOf(what), request.mutable_spec()), what));
  return request;
}

absl::Status WriteTo(const std::string& path, absl::string_view text) {
  EBB_ASSIGN_OR_RETURN(const auto file, client::OutputFile::Create(path));
  EBB_RETURN_IF_ERROR(file->Write(text));
  return file->Commit();
}

// "scaling.svg" of several kinds of hardware: "scaling-a100-80gb.svg".
std::string NameFor(const std::string& path, const std::string& hardware) {
  std::string part = hardware;
  std::replace(part.begin(), part.end(), '/', '_');
  const std::filesystem::path whole(path);
  return (whole.parent_path() /
          absl::StrCat(whole.stem().string(), "-", part, whole.extension().string()))
      .string();
}

absl::Status WriteFiles(const Args& args, const v1::PredictResponse& response) {
  const std::vector<std::string> hardware = HardwareOf(response);
  for (const std::string& name : hardware) {
    if (!args.Has("svg")) break;
    const std::string path =
        hardware.size() == 1 ? args.Get("svg") : NameFor(args.Get("svg"), name);
    const std::string title = absl::StrCat(args.positional()[0], " on ", name);
    EBB_RETURN_IF_ERROR(WriteTo(path, perfmodel::ScalingSvg(BestReports(response, name), title)));
  }
  for (int rank = 0; rank < response.timelines_size(); ++rank) {
    EBB_RETURN_IF_ERROR(WriteTo(absl::StrCat(args.Get("timeline"), ".rank", rank, ".json"),
                                response.timelines(rank)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Flag> PredictTrainingFlags() {
  return {
      {"gpus", "N,...",
       "say how long training would take on so many GPUs; the flags below go with it"},
      {"hardware", "NAME,...", "kinds of GPU: a100-80gb, h100-80gb, ..."},
      {"fabric", "FABRIC,...",
       "what joins them, a known one's name (ebb fabric show) or a file: one for all kinds of "
       "GPU, or one for each"},
      {"strategy", "NAME,...", "dp4, dp2-tp2, ..., or all: compares them (default: data parallel)"},
      {"batch", "N", "rows of a step, of all GPUs together (default: the job's)"},
      {"steps", "N", "to the end (default: the job's stop)"},
      {"price", "X,...", "of a GPU's hour: one for all kinds of GPU, or one for each"},
      {"launch_us", "T", "of the host for each kernel (default 0: it is never late)"},
      {"calibration", "FILE", "measured times of kernels, a saved model; repeatable"},
      {"svg", "FILE", "writes throughput over the number of GPUs"},
      {"timeline", "PREFIX", "writes PREFIX.rankN.json for Perfetto: the best on the most GPUs"}};
}

int PredictTraining(const Context& context) {
  client::Uploader uploader(&context.client);
  const auto request = RequestOf(context, &uploader);
  if (!request.ok()) return Fail(request.status());
  auto response = context.client.Predict(*request);
  if (!response.ok()) {
    return Fail(
        absl::Status(response.status().code(), uploader.WithPaths(response.status().message())));
  }
  const absl::Status written = WriteFiles(context.args, *response);
  if (!written.ok()) return Fail(written);
  response->clear_timelines();  // they are in files
  std::fputs(
      context.json
          ? absl::StrCat(client::ToJson(*response, client::JsonStyle::kIndented), "\n").c_str()
          : PredictText(*response).c_str(),
      stdout);
  const bool somewhere =
      std::any_of(response->comparisons().begin(), response->comparisons().end(),
                  [](const auto& one) { return !one.ranking().empty() && one.ranking(0).fits(); });
  return somewhere ? kOk : kRefused;
}

}  // namespace ebb::cli
