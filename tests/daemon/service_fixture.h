// The service over an in-process channel, with an engine that does what the test says.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "client/client.h"
#include "client/submit.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "tests/daemon/fake_engine.h"
#include "tests/daemon/temp_dir.h"

namespace ebb::daemon {

inline constexpr char kSpec[] = R"(
name: trial
model: {onnx: m.onnx}
data: {train: {file: d.csv}}
batch_size: 2
loss: cross_entropy
optimizer: {sgd: {lr: 0.1}}
stop: {steps: 10}
)";

class ServiceTest : public testing::Test {
 protected:
  ServiceTest()
      : store_(*Store::Open(state_.path(), {MiB(16), MiB(32)})),
        resolver_(store_.get(), {}, MiB(16)),
        service_(&engine_, store_.get(), &resolver_) {
    SetLogLevel(LogLevel::kError);
    server_ = *Server::Start(&service_, {});
    channel_ = server_->InProcessChannel();
    client_ = std::make_unique<client::Client>(channel_, "in-process");
    files_.Write("m.onnx", "model");
    files_.Write("d.csv", "1,0\n2,1\n3,0\n");
    spec_path_ = files_.Write("job.yaml", kSpec);
  }
  ~ServiceTest() override { server_->Shutdown(absl::ZeroDuration()); }

  v1::Job Submit(const std::vector<std::string>& overrides = {}, const std::string& key = "") {
    const auto job = client::SubmitFile(client_.get(), spec_path_, overrides, key);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : v1::Job();
  }
  // Waits until a condition of the server's holds; the test's time limit is the limit.
  template <class F>
  static void Await(F condition) {
    while (!condition()) std::this_thread::yield();
  }
  size_t PartialUploads() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(state_.path() + "/incoming")) {
      (void)entry;
      ++count;
    }
    return count;
  }

  TempDir state_, files_;
  FakeEngine engine_;
  std::unique_ptr<Store> store_;
  Resolver resolver_;
  Service service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<client::Client> client_;
  std::string spec_path_;
};

}  // namespace ebb::daemon
