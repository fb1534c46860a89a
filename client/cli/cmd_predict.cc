// predict: the outputs of a model over a data set.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/units.h"
#include "client/cli/cancel_on_signal.h"
#include "client/cli/commands.h"
#include "client/cli/predict_training.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "client/local_file.h"
#include "client/predict.h"
#include "client/submit.h"

namespace ebb::cli {
namespace {

// Stores a file of the command line, whose path is relative to where the command runs. Messages
// call it `name`.
absl::StatusOr<std::string> Store(const Context& context, const std::string& path,
                                  v1::ObjectKind kind, client::Uploader* uploader,
                                  const std::string& name) {
  EBB_ASSIGN_OR_RETURN(const auto outcome,
                       context.client.PutFile(path, kind, path.substr(path.rfind('/') + 1)));
  uploader->Call(outcome.object.handle(), name);
  return outcome.object.handle();
}

// The trained weights of a job, stored.
absl::StatusOr<std::string> WeightsOf(const Context& context, const std::string& name,
                                      client::Uploader* uploader) {
  EBB_ASSIGN_OR_RETURN(const v1::Job job, context.client.Get(name));
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error) return client::LocalFileError(error.value(), "cannot find", "the temporary directory");
  std::string directory = (base / "ebb-predict-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) {
    return client::LocalFileError(errno, "cannot make a directory", directory);
  }
  const std::string path = absl::StrCat(directory, "/", job.id(), ".safetensors");
  const absl::Cleanup remove = [&] {
    unlink(path.c_str());
    rmdir(directory.c_str());
  };
  EBB_ASSIGN_OR_RETURN(const auto file, client::OutputFile::Create(path));
  v1::FetchRequest what;
  what.set_job(job.id());
  EBB_RETURN_IF_ERROR(FetchTo(file.get(), what, &context.client).status());
  return Store(context, path, v1::OBJECT_KIND_WEIGHTS, uploader,
               absl::StrCat("the weights of ", job.id()));
}

absl::StatusOr<v1::JobSpec> SpecOf(const Context& context, const std::string& path,
                                   client::Uploader* uploader) {
  const Args& args = context.args;
  if (args.Has("job") && args.Has("weights")) {
    return absl::InvalidArgumentError("give --job or --weights, not both");
  }
  EBB_ASSIGN_OR_RETURN(const v1::JobSpec read, client::ReadSpecFile(path, args.All("set")));
  v1::JobSpec spec = client::PredictionOf(read);
  v1::DataSource* data = spec.mutable_predict()->mutable_data();
  const auto store = [&](const char* flag, v1::ObjectKind kind) {
    return Store(context, args.Get(flag), kind, uploader, args.Get(flag));
  };
  if (args.Has("data")) {
    data->clear_index();
    EBB_ASSIGN_OR_RETURN(const std::string handle, store("data", v1::OBJECT_KIND_DATA));
    if (data->has_tokens()) {
      data->set_tokens(handle);
    } else {
      data->set_file(handle);
    }
  }
  if (args.Has("index")) {
    EBB_ASSIGN_OR_RETURN(*data->mutable_index(), store("index", v1::OBJECT_KIND_INDEX));
  }
  if (args.Has("outputs")) {
    spec.mutable_predict()->clear_outputs();
    for (absl::string_view output : absl::StrSplit(args.Get("outputs"), ',')) {
      spec.mutable_predict()->add_outputs(std::string(output));
    }
  }
  if (args.Has("job") || args.Has("weights")) {
    v1::Model* model = spec.mutable_model();
    model->clear_reinit();
    EBB_ASSIGN_OR_RETURN(*model->mutable_weights(),
                         args.Has("job") ? WeightsOf(context, args.Get("job"), uploader)
                                         : store("weights", v1::OBJECT_KIND_WEIGHTS));
  }
  EBB_RETURN_IF_ERROR(Annotate(uploader->Upload(client::DirectoryOf(path), &spec), path));
  return spec;
}

absl::Status AwaitEnd(const Context& context, v1::Job* job) {
  const std::string id = job->id();
  const absl::Status watched = context.client.Watch(id, 0, [&](const v1::WatchResponse& update) {
    if (update.has_job()) *job = update.job();
    return true;
  });
  if (watched.ok()) return watched;
  return absl::Status(watched.code(),
                      absl::StrCat(watched.message(), "; ", id, " may go on: `ebb get ", id,
                                   "` fetches its outputs, `ebb cancel ", id, "` ends it"));
}

// Of the two commands of this name, which the flags tell: 0, or the mixed-up one's exit code.
int CheckMixture(const Args& args) {
  const bool training = args.Has("gpus");
  if (!training) {
    for (const Flag& flag : PredictTrainingFlags()) {
      if (!args.Has(flag.name)) continue;
      return Fail(absl::InvalidArgumentError(
          absl::StrCat("--", flag.name,
                       " goes with --gpus, which predicts how long training would take; without it "
                       "predict runs a model over data")));
    }
    return kOk;
  }
  for (const char* flag : {"job", "weights", "data", "index", "outputs", "o"}) {
    if (!args.Has(flag)) continue;
    return Fail(absl::InvalidArgumentError(
        absl::StrCat(std::string(flag) == "o" ? "-" : "--", flag,
                     " runs a model over data, --gpus predicts how long training would take; give "
                     "one of them")));
  }
  return kOk;
}

int Predict(const Context& context) {
  if (const int code = CheckMixture(context.args); code != kOk) return code;
  if (context.args.Has("gpus")) return PredictTraining(context);
  const std::string& path = context.args.positional()[0];
  client::Uploader uploader(&context.client);
  const auto spec = SpecOf(context, path, &uploader);
  if (!spec.ok()) return Fail(spec.status());
  // What cannot be written is known before anything runs.
  const std::string given = context.args.Get("o");
  auto file = given.empty() ? absl::StatusOr<std::unique_ptr<client::OutputFile>>(nullptr)
                            : client::OutputFile::Create(given);
  if (!file.ok()) return Fail(file.status());
  CancelOnSignal cancel(&context.client);
  const auto job = context.client.Submit(*spec);
  if (!job.ok()) {
    return Fail(Annotate(
        absl::Status(job.status().code(), uploader.WithPaths(job.status().message())), path));
  }
  cancel.Of(job->id());
  for (const std::string& warning : job->warnings()) {
    std::fprintf(stderr, "ebb: %s: warning: %s\n", job->id().c_str(),
                 uploader.WithPaths(warning).c_str());
  }
  if (!context.json) {
    std::fprintf(stderr, "ebb: %s %s\n", job->id().c_str(), job->name().c_str());
  }
  v1::Job last = *job;
  if (const absl::Status ended = AwaitEnd(context, &last); !ended.ok()) return Fail(ended);
  if (cancel.Stop()) return kJobFailed;
  if (last.state() != v1::Job::STATE_SUCCEEDED) {
    std::fprintf(stderr, "ebb: %s %s: %s\n", last.id().c_str(), StateName(last).c_str(),
                 uploader.WithPaths(last.message()).c_str());
    return kJobFailed;
  }
  const std::string out = given.empty() ? absl::StrCat(job->id(), ".safetensors") : given;
  if (given.empty()) file = client::OutputFile::Create(out);
  if (!file.ok()) return Fail(file.status());
  v1::FetchRequest what;
  what.set_job(job->id());
  const auto header = FetchTo(file->get(), what, &context.client);
  if (!header.ok()) return Fail(header.status());
  if (context.json) {
    const nlohmann::ordered_json json = {{"job", job->id()},
                                         {"file", out},
                                         {"bytes", header->bytes()},
                                         {"sha256", header->sha256()}};
    std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s  %s\n", out.c_str(), FormatBytes(Bytes(header->bytes())).c_str());
  }
  return kOk;
}

}  // namespace

std::vector<Command> PredictCommands() {
  std::vector<Flag> flags = {{"job", "JOB", "a job that has succeeded, for its trained weights"},
                             {"weights", "FILE", "weights (default: the job file's)"},
                             {"data", "FILE",
                              "what to read, as the job file reads its validation or training data "
                              "(default: those)"},
                             {"index", "FILE", "the rows that count (default with --data: all)"},
                             {"outputs", "NAME,...", "outputs of the model (default: all)"},
                             {"o", "FILE", "where to write (default: JOB.safetensors)"},
                             {"set", "KEY.PATH=VALUE", "change a field of the file; repeatable"}};
  const std::vector<Flag> training = PredictTrainingFlags();
  flags.insert(flags.end(), training.begin(), training.end());
  return {
      {"predict",
       "predict SPEC [--job JOB | --weights FILE] [--data FILE] [--outputs NAME,...] [-o FILE]\n"
       "       ebb predict JOB|SPEC --gpus N,... --hardware NAME,... [--fabric FABRIC] "
       "[--strategy NAME,...]",
       "Run a job file's model over a data set, without dropout and by its running statistics, and "
       "write its outputs as safetensors: a row for each of the data's, in their order. With "
       "--gpus: "
       "run nothing, but say how long training would take on GPUs that are not here, where its "
       "time "
       "would go, and what it would cost.",
       "  ebb predict digits.yaml --job j-17 --data test.npz -o logits.safetensors\n"
       "  ebb predict digits.yaml --weights cnn.safetensors --outputs logits\n"
       "  ebb predict bert.yaml --gpus 1,2,4,8 --hardware a100-80gb,h100-80gb --fabric "
       "a100-nvswitch,h100-nvswitch --price 1.5,2.9\n"
       "  ebb predict j-17 --gpus 8 --hardware h100-80gb --fabric h100-nvswitch --strategy all\n",
       1, 1, flags, Predict},
  };
}

}  // namespace ebb::cli
