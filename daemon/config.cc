#include "daemon/config.h"

#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/yaml.h"
#include "daemon/files.h"
#include "proto/address.h"
#include "proto/names.h"

namespace ebb::daemon {
namespace {

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

struct Option {
  const char* name;
  const char* value;  // how the value is called in the help; "" = a switch
  const char* help;
  std::function<absl::Status(Config&, const std::string&)> set;
};

std::function<absl::Status(Config&, const std::string&)> SetString(std::string Config::*field) {
  return [field](Config& config, const std::string& value) {
    config.*field = value;
    return absl::OkStatus();
  };
}

std::function<absl::Status(Config&, const std::string&)> SetBytes(Bytes Config::*field,
                                                                  Bytes least) {
  return [field, least](Config& config, const std::string& value) -> absl::Status {
    const std::optional<Bytes> bytes = ParseBytes(value);
    if (!bytes) return Invalid(absl::StrCat("'", value, "' is no size such as 4GiB or 512MiB"));
    if (*bytes < least) return Invalid(absl::StrCat("it must be at least ", FormatBytes(least)));
    config.*field = *bytes;
    return absl::OkStatus();
  };
}

std::function<absl::Status(Config&, const std::string&)> SetInt(int Config::*field, int low,
                                                                int high) {
  return [field, low, high](Config& config, const std::string& value) -> absl::Status {
    int number = 0;
    if (!absl::SimpleAtoi(value, &number) || number < low || number > high) {
      return Invalid(absl::StrCat("'", value, "' is no number from ", low, " to ", high));
    }
    config.*field = number;
    return absl::OkStatus();
  };
}

absl::Status SetPolicy(Config& config, const std::string& value) {
  const auto policy = scheduler::PolicyFromName(value);
  if (!policy) {
    return Invalid(
        absl::StrCat("'", value, "' is not one of fair, fifo, priority, shortest, even"));
  }
  config.policy = *policy;
  return absl::OkStatus();
}

absl::Status SetCoRun(Config& config, const std::string& value) {
  using runtime::CoRunMode;
  for (const CoRunMode mode : {CoRunMode::kAuto, CoRunMode::kAlways, CoRunMode::kNever}) {
    if (value == runtime::Name(mode)) {
      config.co_run = mode;
      return absl::OkStatus();
    }
  }
  return Invalid(absl::StrCat("'", value, "' is not one of auto, always, never"));
}

absl::Status SetLevel(Config& config, const std::string& value) {
  for (const auto& [name, level] : {std::pair<const char*, LogLevel>{"debug", LogLevel::kDebug},
                                    {"info", LogLevel::kInfo},
                                    {"warning", LogLevel::kWarning},
                                    {"error", LogLevel::kError}}) {
    if (value == name) {
      config.log_level = level;
      return absl::OkStatus();
    }
  }
  return Invalid(absl::StrCat("'", value, "' is not one of debug, info, warning, error"));
}

absl::Status SetAnyAddress(Config& config, const std::string& value) {
  if (value != "true" && value != "false") return Invalid("it is true or false");
  config.insecure_any_address = value == "true";
  return absl::OkStatus();
}

absl::Status AddDataRoot(Config& config, const std::string& value) {
  char* resolved = realpath(value.c_str(), nullptr);
  if (resolved == nullptr) return Invalid(absl::StrCat("'", value, "' does not exist"));
  struct stat info;
  if (stat(resolved, &info) != 0 || !S_ISDIR(info.st_mode)) {
    free(resolved);
    return Invalid(absl::StrCat("'", value, "' is not a directory"));
  }
  config.data_roots.emplace_back(resolved);
  free(resolved);
  return absl::OkStatus();
}

const std::vector<Option>& Options() {
  static const auto* const options = new std::vector<Option>{
      {"socket", "PATH",
       "unix socket (default $XDG_RUNTIME_DIR/ebb/ebbd.sock or /tmp/ebb-UID/ebbd.sock)",
       SetString(&Config::socket)},
      {"listen", "HOST:PORT", "also listen on TCP: a loopback address; there is no authentication",
       SetString(&Config::listen)},
      {"insecure_any_address", "", "let --listen be any address: whoever reaches it can run jobs",
       SetAnyAddress},
      {"memory", "SIZE", "device memory to take (default 4GiB; on sim all of it)",
       SetBytes(&Config::memory, MiB(1))},
      {"device", "NAME", "cpu, ref, cuda, cuda:1, sim:PROFILE, sim:PROFILE+vector (default cpu)",
       SetString(&Config::device)},
      {"data_root", "DIR", "jobs may read files under DIR; repeatable (default: none)",
       AddDataRoot},
      {"state_dir", "DIR",
       "where stored files lie (default $XDG_STATE_HOME/ebb or ~/.local/state/ebb)",
       SetString(&Config::state_dir)},
      {"threads_per_stream", "N", "threads that one sub-model uses (default 0: the device's)",
       SetInt(&Config::threads_per_stream, 0, 1024)},
      {"max_lanes", "N", "lanes of the pool, each for two steps at once (default 0: by the device)",
       SetInt(&Config::max_lanes, 0, 64)},
      {"policy", "NAME", "fair, fifo, priority, shortest or even (default fair)", SetPolicy},
      {"co_run", "WHEN", "jobs run together: auto (where it pays), always or never (default auto)",
       SetCoRun},
      {"quantum", "SIZE", "memory that a sub-model aims at (default 0: by the pool)",
       SetBytes(&Config::quantum, Bytes(0))},
      {"max_in_flight", "N", "launched, unfinished sub-models a job (default 2)",
       SetInt(&Config::max_in_flight, 1, 64)},
      {"upload_limit", "SIZE", "largest file that can be stored (default 16GiB)",
       SetBytes(&Config::upload_limit, Bytes(1))},
      {"store_limit", "SIZE", "all stored files together (default 256GiB)",
       SetBytes(&Config::store_limit, Bytes(1))},
      {"host_memory", "SIZE",
       "host memory for what jobs read, stage and leave (default 0: half of what --memory leaves)",
       SetBytes(&Config::host_memory, Bytes(0))},
      {"log_level", "LEVEL", "debug, info, warning or error (default info)", SetLevel},
  };
  return *options;
}

const Option* FindOption(absl::string_view name) {
  for (const Option& option : Options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

// `names`: what is known beside the options.
std::string Unknown(absl::string_view name, std::vector<std::string> names) {
  for (const Option& option : Options()) names.push_back(option.name);
  const std::string nearest = proto::Nearest(name, names);
  return nearest.empty() ? "unknown option"
                         : absl::StrCat("unknown option; did you mean ", nearest, "?");
}

std::string Help() {
  std::string text =
      "ebbd: trains many neural networks at once on one device.\n\nUsage: ebbd [--FLAG "
      "VALUE]...\n\n"
      "  --config FILE            YAML with these flags as keys; the command line wins\n";
  for (const Option& option : Options()) {
    std::string flag = absl::StrCat("  --", option.name, " ", option.value);
    flag.resize(std::max<size_t>(flag.size() + 1, 27), ' ');
    absl::StrAppend(&text, flag, option.help, "\n");
  }
  absl::StrAppend(&text,
                  "  --version\n\nExit codes: 0 stopped by a signal, 1 failed, 2 bad flags or "
                  "configuration, 3 another ebbd has the socket or the state.\n\n"
                  "Example: ebbd --memory 8GiB --data_root /data\n");
  return text;
}

absl::Status ReadConfigFile(const std::string& path, Config* config) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, MiB(1)));
  try {
    const YamlText yaml = LoadYaml(text);
    if (yaml.has_more) {
      return Invalid(absl::StrCat(path, ": it holds more than one document (---)"));
    }
    const YAML::Node& root = yaml.document;
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) return Invalid(absl::StrCat(path, ": it must be a map of flags"));
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string name = entry.first.as<std::string>();
      const std::string where = absl::StrCat(path, ":", entry.first.Mark().line + 1, ": ", name);
      const Option* option = FindOption(name);
      if (option == nullptr) return Invalid(absl::StrCat(where, ": ", Unknown(name, {})));
      if (!seen.insert(name).second) return Invalid(absl::StrCat(where, ": it is given twice"));
      std::vector<std::string> values;
      if (entry.second.IsSequence()) {
        if (name != "data_root") return Invalid(absl::StrCat(where, ": it takes one value"));
        for (const auto& item : entry.second) values.push_back(item.as<std::string>());
      } else if (entry.second.IsScalar()) {
        values.push_back(entry.second.as<std::string>());
      } else {
        return Invalid(absl::StrCat(where, ": it needs a value"));
      }
      for (const std::string& value : values) {
        EBB_RETURN_IF_ERROR(Annotate(option->set(*config, value), where));
      }
    }
  } catch (const YAML::Exception& error) {
    return Invalid(absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
  return absl::OkStatus();
}

void SetDefaultPaths(Config* config) {
  config->socket = proto::DefaultSocketPath();
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && state[0] == '/') {
    config->state_dir = absl::StrCat(state, "/ebb");
  } else if (home != nullptr && home[0] == '/') {
    config->state_dir = absl::StrCat(home, "/.local/state/ebb");
  } else {
    config->state_dir = absl::StrCat("/tmp/ebb-", getuid(), "/state");
  }
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  CommandLine result;
  std::string config_file;
  std::vector<std::pair<std::string, std::string>> flags;
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (arg == "--help" || arg == "-h") {
      result.print = Help();
      return result;
    }
    if (arg == "--version") {
      result.print = absl::StrCat("ebbd ", EBB_VERSION, "\n");
      return result;
    }
    if (!absl::ConsumePrefix(&arg, "--")) {
      return Invalid(absl::StrCat("'", args[i], "' is not a flag; ebbd --help lists them"));
    }
    const std::vector<std::string> parts = absl::StrSplit(arg, absl::MaxSplits('=', 1));
    const Option* option = FindOption(parts[0]);
    if (option == nullptr && parts[0] != "config") {
      return Invalid(
          absl::StrCat("--", parts[0], ": ", Unknown(parts[0], {"config", "help", "version"})));
    }
    std::string value;
    if (parts.size() == 2) {
      value = parts[1];
    } else if (option != nullptr && option->value[0] == '\0') {
      value = "true";
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return Invalid(absl::StrCat("--", parts[0], " needs a value"));
    }
    if (parts[0] == "config") {
      config_file = value;
    } else {
      flags.emplace_back(parts[0], value);
    }
  }
  SetDefaultPaths(&result.config);
  if (!config_file.empty()) {
    EBB_RETURN_IF_ERROR(Annotate(ReadConfigFile(config_file, &result.config), "--config"));
  }
  for (const auto& [name, value] : flags) {
    EBB_RETURN_IF_ERROR(
        Annotate(FindOption(name)->set(result.config, value), absl::StrCat("--", name)));
  }
  const Config& config = result.config;
  if (config.socket.empty() && config.listen.empty())
    return Invalid("neither --socket nor --listen");
  if (config.state_dir.empty()) return Invalid("--state_dir: it is empty");
  if (!config.listen.empty()) {
    EBB_RETURN_IF_ERROR(
        Annotate(CheckListenAddress(config.listen, config.insecure_any_address), "--listen"));
  }
  return result;
}

Bytes PoolSize(const Config& config, const DeviceSpec& device) {
  if (config.memory > Bytes(0)) return config.memory;
  return device.host_memory && device.computes ? GiB(4) : device.memory;
}

absl::StatusOr<std::string> CheckHostMemory(const Config& config, const DeviceSpec& device,
                                            Bytes machine) {
  const std::string has =
      absl::StrCat(" more than the ", FormatBytes(machine), " that the machine has");
  if (config.host_memory > machine) {
    const std::string more =
        absl::StrCat("--host_memory: ", FormatBytes(config.host_memory), " is", has);
    if (device.computes) return Invalid(more);
    return absl::StrCat(more, "; the device is simulated, but not what jobs read");
  }
  const Bytes pool = device.host_memory && device.computes ? PoolSize(config, device) : Bytes(0);
  if (config.host_memory + pool <= machine) return "";
  return absl::StrCat("--host_memory: ", FormatBytes(config.host_memory), " and the pool of ",
                      FormatBytes(pool), " are together", has);
}

absl::Status CheckListenAddress(const std::string& address, bool any_address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return Invalid(absl::StrCat("'", address, "' is not of the form HOST:PORT"));
  }
  if (any_address) return absl::OkStatus();
  const std::string host = address.substr(0, colon);
  const std::vector<std::string> parts = absl::StrSplit(host, '.');
  bool loopback = host == "localhost" || host == "[::1]";
  if (parts.size() == 4 && parts[0] == "127") {
    loopback = true;
    for (const std::string& part : parts) {
      int number = -1;
      if (!absl::SimpleAtoi(part, &number) || number < 0 || number > 255) loopback = false;
    }
  }
  if (loopback) return absl::OkStatus();
  return Invalid(absl::StrCat("'", host,
                              "' is not a loopback address, and whoever reaches the port can run "
                              "jobs; give --insecure_any_address if that is meant"));
}

}  // namespace ebb::daemon
