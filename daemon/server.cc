#include "daemon/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/address.h"

namespace ebb::daemon {

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Service* service,
                                                      const ServerAddresses& addresses) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<Server> server(new Server);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(proto::kMaxMessageBytes);
  // Else a second daemon would share the port instead of being told that it is taken.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int socket_ok = 0;
  if (!addresses.socket.empty()) {
    builder.AddListeningPort(absl::StrCat("unix:", addresses.socket),
                             grpc::InsecureServerCredentials(), &socket_ok);
  }
  if (!addresses.listen.empty()) {
    builder.AddListeningPort(addresses.listen, grpc::InsecureServerCredentials(), &server->port_);
  }
  builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || (!addresses.listen.empty() && server->port_ == 0)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", addresses.socket,
                     addresses.socket.empty() || addresses.listen.empty() ? "" : " and ",
                     addresses.listen, ": is the address in use?"));
  }
  server->server_->GetHealthCheckService()->SetServingStatus(v1::Ebb::service_full_name(), true);
  return server;
}

void Server::Shutdown(absl::Duration grace) {
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
}

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(proto::kMaxMessageBytes);
  return server_->InProcessChannel(arguments);
}

}  // namespace ebb::daemon
