// The gRPC server around the service: addresses, message limits, health and reflection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/service.h"

namespace ebb::daemon {

struct ServerAddresses {
  std::string socket;  // path of a unix socket; "" = none
  std::string listen;  // host:port; "" = none. Port 0 takes a free one
};

class Server {
 public:
  // `service` must outlive the server. Unavailable when an address cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Service* service,
                                                       const ServerAddresses& addresses);
  // Takes no new calls, cancels those that have not ended after `grace`, and waits for them.
  void Shutdown(absl::Duration grace);
  int port() const { return port_; }  // of `listen`; 0 = none
  std::shared_ptr<grpc::Channel> InProcessChannel();

 private:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace ebb::daemon
