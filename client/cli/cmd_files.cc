// data and get: files in and out.

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "client/cli/commands.h"
#include "client/cli/render.h"
#include "client/json.h"
#include "client/local_file.h"
#include "proto/names.h"

namespace ebb::cli {
namespace {

constexpr size_t kMany = std::numeric_limits<size_t>::max();

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
}

absl::StatusOr<v1::ObjectKind> KindOf(const Args& args, v1::ObjectKind fallback) {
  if (!args.Has("kind")) return fallback;
  const auto* value = proto::FindShortName(*v1::ObjectKind_descriptor(), args.Get("kind"));
  if (value == nullptr || value->number() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--kind ", args.Get("kind"), " is not one of graph, weights, data, onnx, index"));
  }
  return static_cast<v1::ObjectKind>(value->number());
}

int Put(const Context& context, const std::vector<std::string>& paths) {
  const auto kind = KindOf(context.args, v1::OBJECT_KIND_DATA);
  if (!kind.ok()) return Fail(kind.status());
  if (context.args.Has("name") && paths.size() > 1) {
    return Fail(absl::InvalidArgumentError("--name goes with one file"));
  }
  if (context.args.Has("name") &&
      (context.args.Get("name").empty() ||
       client::ObjectName(context.args.Get("name")) != context.args.Get("name"))) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--name ", context.args.Get("name"),
                     ": a name has 1 to 128 letters, digits, '.', '_' and '-'")));
  }
  for (const std::string& path : paths) {
    const auto outcome =
        context.client.PutFile(path, *kind, context.args.Get("name", BaseName(path)));
    if (!outcome.ok()) return Fail(outcome.status());
    const v1::StoredObject& object = outcome->object;
    if (context.json) {
      std::printf("%s\n", client::ToJson(object, client::JsonStyle::kOneLine).c_str());
    } else {
      std::printf("%s  %s  %s%s\n", object.handle().c_str(), object.name().c_str(),
                  FormatBytes(Bytes(object.bytes())).c_str(),
                  outcome->sent ? "" : "  (was stored)");
    }
  }
  return kOk;
}

int List(const Context& context) {
  const auto kind = KindOf(context.args, v1::OBJECT_KIND_UNSPECIFIED);
  if (!kind.ok()) return Fail(kind.status());
  const auto stored = context.client.ListStored(*kind);
  if (!stored.ok()) return Fail(stored.status());
  if (context.json) {
    std::printf("%s\n", client::ToJson(*stored, client::JsonStyle::kIndented).c_str());
  } else {
    std::fputs(StoredTable(*stored).c_str(), stdout);
  }
  return kOk;
}

int Remove(const Context& context, const std::vector<std::string>& references) {
  int code = kOk;
  for (const std::string& reference : references) {
    const bool has_scheme = reference.find(':') != std::string::npos;
    const auto removed =
        context.client.RemoveStored(has_scheme ? reference : absl::StrCat("store:", reference));
    if (!removed.ok()) {
      code = Fail(removed.status());
    } else if (context.json) {
      std::printf("%s\n", client::ToJson(*removed, client::JsonStyle::kOneLine).c_str());
    } else {
      std::printf("%s removed\n", removed->handle().c_str());
    }
  }
  return code;
}

int Data(const Context& context) {
  std::vector<std::string> rest = context.args.positional();
  const std::string action = rest[0];
  rest.erase(rest.begin());
  if (action == "ls" && rest.empty()) return List(context);
  if (action == "put" && !rest.empty()) return Put(context, rest);
  if (action == "rm" && !rest.empty()) return Remove(context, rest);
  return Fail(absl::InvalidArgumentError("usage: ebb data put FILE... | ls | rm HANDLE..."));
}

int Get(const Context& context) {
  const std::string format_name = context.args.Get("format", "safetensors");
  const auto* format = proto::FindShortName(*v1::FetchRequest::Format_descriptor(), format_name);
  if (format == nullptr || format->number() == 0) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--format ", format_name, " is not one of safetensors, onnx")));
  }
  v1::FetchRequest what;
  what.set_format(static_cast<v1::FetchRequest::Format>(format->number()));
  if (context.args.Has("state")) {
    const std::string name = context.args.Get("state");
    const auto* state = proto::FindShortName(*v1::FetchRequest::State_descriptor(), name);
    if (state == nullptr || state->number() == 0) {
      return Fail(
          absl::InvalidArgumentError(absl::StrCat("--state ", name, " is not one of best, last")));
    }
    what.set_state(static_cast<v1::FetchRequest::State>(state->number()));
  }
  const auto job = context.client.Get(context.args.positional()[0]);
  if (!job.ok()) return Fail(job.status());
  what.set_job(job->id());
  const bool hash_only = context.args.Has("sha256") && !context.args.Has("o");
  const std::string path = context.args.Get("o", absl::StrCat(job->id(), ".", format_name));
  const auto fetch = [&]() -> absl::StatusOr<v1::FetchResponse::Header> {
    if (hash_only) {
      return context.client.Fetch(what.job(), what.format(), what.state(),
                                  [](absl::string_view) { return absl::OkStatus(); });
    }
    EBB_ASSIGN_OR_RETURN(const auto file, client::OutputFile::Create(path));
    return FetchTo(file.get(), what, &context.client);
  };
  const auto header = fetch();
  if (!header.ok()) return Fail(header.status());
  if (context.json) {
    nlohmann::ordered_json json;
    json["job"] = job->id();
    json["format"] = format_name;
    json["file"] = hash_only ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(path);
    json["bytes"] = header->bytes();
    json["sha256"] = header->sha256();
    std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else if (context.args.Has("sha256")) {
    std::printf("%s\n", header->sha256().c_str());
  } else {
    std::printf("%s  %s\n", path.c_str(), FormatBytes(Bytes(header->bytes())).c_str());
  }
  return kOk;
}

}  // namespace

absl::StatusOr<v1::FetchResponse::Header> FetchTo(client::OutputFile* file,
                                                  const v1::FetchRequest& what,
                                                  client::Client* client) {
  EBB_ASSIGN_OR_RETURN(v1::FetchResponse::Header header,
                       client->Fetch(what.job(), what.format(), what.state(),
                                     [&](absl::string_view chunk) { return file->Write(chunk); }));
  EBB_RETURN_IF_ERROR(file->Commit());
  return header;
}

std::vector<Command> FileCommands() {
  return {
      {"data",
       "data put FILE... | data ls | data rm HANDLE...",
       "Store files with the daemon, list and remove them.",
       "  ebb data put digits.npz                # then in a job file:  file: store:digits.npz\n"
       "  ebb data put model.onnx --kind onnx --name r18\n"
       "  ebb data ls --kind data\n  ebb data rm sha256:9f1c03 digits.npz\n",
       1,
       kMany,
       {{"kind", "KIND", "graph, weights, data, onnx or index (put: default data; ls: all)"},
        {"name", "NAME", "name to store it under (default: the file's)"}},
       Data},
      {"get",
       "get JOB [--format FORMAT] [--state STATE] [-o FILE] [--sha256]",
       "Fetch the trained weights of a job that has ended.",
       "  ebb get j-17 -o r18.safetensors\n  ebb get j-17 --format onnx\n  ebb get j-17 --sha256\n",
       1,
       1,
       {{"format", "FORMAT",
         "safetensors (default) or onnx: the submitted file with the new weights"},
        {"state", "STATE", "best or last, of a job that keeps both (default: its result)"},
        {"o", "FILE", "where to write (default JOB.FORMAT)"},
        {"sha256", "", "print the hash of the file; without -o nothing is written"}},
       Get},
  };
}

}  // namespace ebb::cli
