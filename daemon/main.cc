// ebbd: builds store, device, engine and server, waits for a signal, and takes them down again.
#include <google/protobuf/stubs/logging.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "daemon/config.h"
#include "daemon/files.h"
#include "daemon/openmp.h"
#include "daemon/resolve.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "daemon/socket.h"
#include "daemon/stop_guard.h"
#include "daemon/store.h"
#include "device/device.h"
#include "runtime/engine.h"
#include "runtime/host_budget.h"

namespace ebb::daemon {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitTaken = 3;
constexpr int kExitDeviceLost = 4;  // only a new process can use the device
constexpr absl::Duration kLongestStop = absl::Seconds(10);

// Signals that end the daemon are taken by one thread only, the main one.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// The pool of a device on the host is taken from the same memory.
Bytes HostShare(const Config& config, const DeviceSpec& device) {
  if (config.host_memory > Bytes(0)) return config.host_memory;
  const Bytes pool = device.host_memory ? PoolSize(config, device) : Bytes(0);
  return std::max((runtime::HostMemory() - pool) / 2, MiB(256));
}

absl::StatusOr<std::unique_ptr<device::Device>> OpenDevice(const Config& config) {
  device::DeviceOptions options;
  options.threads_per_stream = config.threads_per_stream;
  auto device = device::OpenDevice(config.device, options);
  if (device.status().code() == absl::StatusCode::kNotFound) {
    return absl::InvalidArgumentError(absl::StrCat("--device: ", device.status().message()));
  }
  if (!device.ok()) return device;
  const Bytes memory = (*device)->spec().memory;
  if (memory > Bytes(0) && config.memory > memory) {
    return absl::InvalidArgumentError(absl::StrCat("--memory: ", FormatBytes(config.memory),
                                                   " is more than the ", FormatBytes(memory),
                                                   " that the device has"));
  }
  return device;
}

absl::Status Run(const Config& config, const sigset_t& signals) {
  std::unique_ptr<SocketPath> socket;
  if (!config.socket.empty()) {
    EBB_ASSIGN_OR_RETURN(socket, SocketPath::Claim(config.socket));
  }
  EBB_RETURN_IF_ERROR(MakeDirectories(config.state_dir));
  EBB_ASSIGN_OR_RETURN(const auto state_lock,
                       FileLock::Acquire(absl::StrCat(config.state_dir, "/lock")));
  EBB_ASSIGN_OR_RETURN(const auto store,
                       Store::Open(config.state_dir, {config.upload_limit, config.store_limit}));
  EBB_ASSIGN_OR_RETURN(auto device, OpenDevice(config));
  EBB_ASSIGN_OR_RETURN(const std::string warning,
                       CheckHostMemory(config, device->spec(), runtime::HostMemory()));
  if (!warning.empty()) Log(LogLevel::kWarning, "ebbd: %s", warning);
  Resolver resolver(store.get(), config.data_roots, config.upload_limit,
                    HostShare(config, device->spec()));
  runtime::EngineOptions options;
  options.memory = PoolSize(config, device->spec());
  options.quantum = config.quantum;
  options.max_lanes = config.max_lanes;
  options.policy = config.policy;
  options.co_run = config.co_run;
  options.max_in_flight = config.max_in_flight;
  // Nothing is written any more: what device memory held is lost, and jobs begin again from what
  // was complete before.
  options.on_device_lost = [](const absl::Status& why) {
    Log(LogLevel::kError, "ebbd: the device is lost to this process: %s; start it again",
        why.message());
    std::_Exit(kExitDeviceLost);
  };
  // What a simulated device stages takes nothing of this host, unless its size is being tried.
  if (device->spec().computes || config.host_memory > Bytes(0)) {
    options.host_budget = resolver.budget();
  }
  if (const DeviceSpec& spec = device->spec(); !spec.profile.empty()) {
    Log(LogLevel::kInfo, "ebbd: simulated %s, overlap model %s, constants sha256:%s", spec.name,
        spec.overlap_model, spec.constants_sha256);
  }
  EBB_ASSIGN_OR_RETURN(auto engine, runtime::Engine::Create(std::move(device), options));

  Service service(engine.get(), store.get(), &resolver);
  EBB_ASSIGN_OR_RETURN(const auto server, Server::Start(&service, {config.socket, config.listen}));
  std::string where = config.socket.empty() ? "" : absl::StrCat("unix:", config.socket);
  if (server->port() != 0) {
    absl::StrAppend(&where, where.empty() ? "" : " and ",
                    config.listen.substr(0, config.listen.rfind(':')), ":", server->port());
  }
  Log(LogLevel::kInfo, "ebbd %s: %s, pool %s, ready on %s", EBB_VERSION, config.device,
      FormatBytes(engine->Describe().pool), where);

  int signal = 0;
  sigwait(&signals, &signal);
  Log(LogLevel::kInfo, "ebbd: %s, stopping", strsignal(signal));
  const StopGuard guard(kLongestStop, [&config] {
    Log(LogLevel::kWarning, "ebbd: a request is still at work; stopped without its end");
    if (!config.socket.empty()) unlink(config.socket.c_str());
    std::_Exit(0);
  });
  server->Shutdown(absl::Seconds(1));
  engine.reset();
  Log(LogLevel::kInfo, "ebbd: stopped");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const auto parsed = ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
  if (!parsed.ok()) {
    std::fprintf(stderr, "ebbd: %s\n", Escaped(parsed.status().message()).c_str());
    return kExitUsage;
  }
  if (parsed->print) {
    std::fputs(parsed->print->c_str(), stdout);
    return 0;
  }
  SetLogLevel(parsed->config.log_level);
  google::protobuf::SetLogHandler(
      nullptr);  // it would report every name in a request that is not UTF-8
  umask(0077);
  const sigset_t signals = BlockSignals();
  const absl::Status status = Run(parsed->config, signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "ebbd: %s\n", Escaped(status.message()).c_str());
  if (status.code() == absl::StatusCode::kAlreadyExists) return kExitTaken;
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace ebb::daemon

int main(int argc, char** argv) {
  try {
    ebb::OpenStandardStreams();
    ebb::daemon::LimitOpenMpSpinning(argv);
    return ebb::daemon::Main(argc, argv);
  } catch (const std::exception& error) {  // out of memory at start
    std::fprintf(stderr, "ebbd: %s\n", error.what());
    return 1;
  }
}
