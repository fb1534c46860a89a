#include "client/submit.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "client/onnx_external.h"
#include "client/yaml.h"

namespace ebb::client {
namespace {

constexpr std::streamsize kMaxSpecBytes = 4 << 20;

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  std::ifstream file(path, std::ios::binary);
  if (!S_ISREG(info.st_mode) || !file) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a readable file"));
  }
  if (info.st_size > kMaxSpecBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is too large to be a job file"));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A path on this machine, no reference with a scheme.
bool IsLocal(absl::string_view reference) {
  return !absl::StartsWith(reference, "sha256:") && !absl::StartsWith(reference, "store:") &&
         !absl::StartsWith(reference, "host:");
}

std::string PathOf(const std::string& directory, const std::string& reference) {
  return absl::StartsWith(reference, "/") ? reference : absl::StrCat(directory, "/", reference);
}

}  // namespace

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

absl::StatusOr<v1::JobSpec> ReadSpecFile(const std::string& path,
                                         const std::vector<std::string>& overrides) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  EBB_ASSIGN_OR_RETURN(v1::JobSpec spec, ParseSpec(text, path));
  for (const std::string& assignment : overrides) {
    EBB_RETURN_IF_ERROR(ApplyOverride(assignment, &spec));
  }
  if (spec.name().empty()) {
    const std::string base = BaseName(path);
    spec.set_name(
        Escaped(base.substr(0, base.rfind('.') == 0 ? std::string::npos : base.rfind('.'))));
  }
  return spec;
}

absl::Status Uploader::UploadOne(const std::string& directory, absl::string_view field,
                                 v1::ObjectKind kind, std::string* reference) {
  if (!IsLocal(*reference)) return absl::OkStatus();
  if (reference->empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is empty"));
  if (reference->find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": '", Escaped(*reference), "' is no path"));
  }
  const std::string path = PathOf(directory, *reference);
  auto [done, is_new] = done_.try_emplace(path);
  if (is_new) {
    const auto outcome = client_->PutFile(path, kind, BaseName(path));
    if (!outcome.ok()) {
      done_.erase(done);
      // A file that the spec names and that is not there is a mistake in the spec.
      const bool missing = outcome.status().code() == absl::StatusCode::kNotFound;
      return Annotate(
          missing ? absl::InvalidArgumentError(outcome.status().message()) : outcome.status(),
          field);
    }
    done->second = outcome->object.handle();
  }
  *reference = done->second;
  return absl::OkStatus();
}

// A folder is not stored: the daemon reads it where it lies.
absl::Status Uploader::UploadImages(const std::string& directory, absl::string_view field,
                                    std::string* reference) {
  const bool absolute = absl::StartsWith(*reference, "/");
  const std::string path = absolute ? *reference : absl::StrCat(directory, "/", *reference);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status) ||
      (absolute && !std::filesystem::exists(status))) {  // it may be of another machine
    *reference = absl::StrCat("host:", std::filesystem::absolute(path, error).string());
    return absl::OkStatus();
  }
  return UploadOne(directory, absl::StrCat(field, ".images"), v1::OBJECT_KIND_DATA, reference);
}

absl::Status Uploader::UploadOnnx(const std::string& directory, v1::Model* model) {
  const std::string path = IsLocal(model->onnx()) ? PathOf(directory, model->onnx()) : "";
  EBB_RETURN_IF_ERROR(
      UploadOne(directory, "model.onnx", v1::OBJECT_KIND_ONNX, model->mutable_onnx()));
  for (auto& [location, reference] : *model->mutable_external_data()) {
    EBB_RETURN_IF_ERROR(UploadOne(directory,
                                  absl::StrCat("model.external_data.", Escaped(location)),
                                  v1::OBJECT_KIND_ONNX, &reference));
  }
  if (path.empty()) return absl::OkStatus();
  auto locations = ExternalLocations(path);
  if (!locations.ok()) return Annotate(locations.status(), "model.onnx");
  for (const std::string& location : *locations) {
    if (model->external_data().contains(location)) continue;
    std::string reference = absl::StrCat(DirectoryOf(path), "/", location);
    EBB_RETURN_IF_ERROR(UploadOne(".",
                                  absl::StrCat("model.onnx keeps weights in ", Escaped(location)),
                                  v1::OBJECT_KIND_ONNX, &reference));
    (*model->mutable_external_data())[location] = reference;
  }
  return absl::OkStatus();
}

absl::Status Uploader::UploadModel(const std::string& directory, v1::JobSpec* spec) {
  v1::Model* model = spec->mutable_model();
  if (model->has_onnx()) {
    EBB_RETURN_IF_ERROR(UploadOnnx(directory, model));
  }
  if (model->has_graph()) {
    EBB_RETURN_IF_ERROR(
        UploadOne(directory, "model.graph", v1::OBJECT_KIND_GRAPH, model->mutable_graph()));
  }
  return absl::OkStatus();
}

absl::Status Uploader::Upload(const std::string& directory, v1::JobSpec* spec) {
  EBB_RETURN_IF_ERROR(UploadModel(directory, spec));
  v1::Model* model = spec->mutable_model();
  if (!model->weights().empty()) {
    EBB_RETURN_IF_ERROR(
        UploadOne(directory, "model.weights", v1::OBJECT_KIND_WEIGHTS, model->mutable_weights()));
  }
  const auto upload_source = [&](const std::string& field, v1::DataSource* source) -> absl::Status {
    if (source->has_file()) {
      EBB_RETURN_IF_ERROR(UploadOne(directory, absl::StrCat(field, ".file"), v1::OBJECT_KIND_DATA,
                                    source->mutable_file()));
    }
    if (source->has_images()) {
      EBB_RETURN_IF_ERROR(UploadImages(directory, field, source->mutable_images()));
    }
    if (source->has_tokens()) {
      EBB_RETURN_IF_ERROR(UploadOne(directory, absl::StrCat(field, ".tokens"), v1::OBJECT_KIND_DATA,
                                    source->mutable_tokens()));
    }
    if (!source->index().empty()) {
      EBB_RETURN_IF_ERROR(UploadOne(directory, absl::StrCat(field, ".index"), v1::OBJECT_KIND_INDEX,
                                    source->mutable_index()));
    }
    return absl::OkStatus();
  };
  if (spec->predict().has_data()) {
    EBB_RETURN_IF_ERROR(upload_source("predict.data", spec->mutable_predict()->mutable_data()));
  }
  if (spec->data().has_train()) {
    EBB_RETURN_IF_ERROR(upload_source("data.train", spec->mutable_data()->mutable_train()));
  }
  if (spec->data().has_val()) {
    EBB_RETURN_IF_ERROR(upload_source("data.val", spec->mutable_data()->mutable_val()));
  }
  return absl::OkStatus();
}

std::string Uploader::WithPaths(absl::string_view message) const {
  std::string text(message);
  for (const auto& [path, reference] : done_) {
    absl::StrReplaceAll({{reference, path}}, &text);
  }
  return text;
}

absl::StatusOr<v1::Job> SubmitFile(Client* client, const std::string& path,
                                   const std::vector<std::string>& overrides,
                                   const std::string& idempotency_key) {
  EBB_ASSIGN_OR_RETURN(v1::JobSpec spec, ReadSpecFile(path, overrides));
  Uploader uploader(client);
  EBB_RETURN_IF_ERROR(uploader.Upload(DirectoryOf(path), &spec));
  auto job = client->Submit(spec, idempotency_key);
  if (job.ok()) return job;
  return absl::Status(job.status().code(), uploader.WithPaths(job.status().message()));
}

}  // namespace ebb::client
