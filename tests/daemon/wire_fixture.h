// A resolver over stored files, and job files on their way to the engine's spec.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "client/yaml.h"
#include "daemon/wire.h"
#include "proto/status.h"
#include "tests/daemon/temp_dir.h"

namespace ebb::daemon {

class WireTest : public testing::Test {
 protected:
  WireTest() : store_(*Store::Open(state_.path(), {MiB(1), MiB(1)})) {
    root_.Write("model.onnx", "the bytes of a model");
    root_.Write("train.csv", "0.5,1,0\n0.25,2,1\n1,3,1\n0,4,0\n");
    root_.Write("val.csv", "0,0.5,1\n1,0.25,2\n");
    root_.Write("rows.txt", "3\n0\n1\n");
    root_.Write("far.txt", "3\n4\n");
    resolver_ =
        std::make_unique<Resolver>(store_.get(), std::vector<std::string>{root_.path()}, MiB(1));
  }

  // A spec with all that is needed and nothing else.
  v1::JobSpec Base() const {
    const auto spec = client::ParseSpec(absl::StrCat(R"(
name: base
model: {onnx: ")",
                                                     root_.path(), R"(/model.onnx"}
data: {train: {file: ")",
                                                     root_.path(), R"(/train.csv"}}
batch_size: 2
loss: cross_entropy
optimizer: {sgd: {lr: 0.1}}
stop: {steps: 10}
)"),
                                        "base.yaml");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *spec;
  }
  v1::JobSpec With(std::vector<std::string> assignments) const {
    v1::JobSpec spec = Base();
    for (const std::string& assignment : assignments) {
      const absl::Status status = client::ApplyOverride(assignment, &spec);
      EXPECT_TRUE(status.ok()) << status;
    }
    return spec;
  }
  absl::StatusOr<runtime::JobSpec> Convert(const v1::JobSpec& spec) const {
    return JobSpecFromWire(spec, resolver_.get());
  }
  runtime::JobSpec Native(std::vector<std::string> assignments) const {
    auto job = Convert(With(std::move(assignments)));
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : runtime::JobSpec();
  }
  std::string ErrorOf(absl::StatusCode code, std::vector<std::string> assignments) const {
    const auto job = Convert(With(assignments));
    EXPECT_EQ(job.status().code(), code) << assignments[0] << ": " << job.status();
    return std::string(job.status().message());
  }

  TempDir state_, root_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Resolver> resolver_;
};

}  // namespace ebb::daemon
