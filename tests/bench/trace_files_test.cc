// Every trace of the published sets is read, and what can be written is read again.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "bench/predict/tar.h"
#include "bench/tables.h"
#include "perfmodel/formats/chakra.h"
#include "perfmodel/formats/execution_trace.h"
#include "perfmodel/formats/kineto.h"
#include "perfmodel/host_timeline.h"

namespace ebb::bench {
namespace {

using namespace perfmodel;  // NOLINT(build/namespaces)

class TraceFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(folder_)) {
      GTEST_SKIP() << folder_ << " is absent: published traces go there";
    }
  }

  // The text of a file, or of the first in an archive whose name ends like that.
  std::string Read(const std::string& name, const std::string& end = "") {
    const auto bytes = ReadTable(folder_ + name);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (!bytes.ok() || end.empty()) return bytes.value_or("");
    const auto files = FilesOfTar(*bytes);
    EXPECT_TRUE(files.ok()) << name << ": " << files.status();
    if (!files.ok()) return "";
    for (const TarFile& file : *files) {
      const absl::string_view of = file.name;
      if (of.size() >= end.size() && of.substr(of.size() - end.size()) == end) {
        return std::string(file.text);
      }
    }
    ADD_FAILURE() << name << " has no file " << end;
    return "";
  }

  static int64_t Collectives(const ExecutionTrace& trace) {
    return std::count_if(trace.nodes.begin(), trace.nodes.end(), [](const ExecutionNode& node) {
      return node.collective.has_value() && !node.collective->name.empty();
    });
  }

  const std::string folder_ = EBB_SOURCE_DIR "/../shared/perfdata/traces/";
};

TEST_F(TraceFiles, KinetoTracesAreReadAndWritten) {
  struct Expected {
    const char* name;
    int64_t ops, kernels, copies;
  };
  for (const Expected& expected : {Expected{"param/linear_kineto.json.gz", 36998, 8716, 0},
                                   Expected{"param/resnet_kineto.json.gz", 39416, 9628, 123}}) {
    const auto trace = ReadKineto(Read(expected.name));
    ASSERT_TRUE(trace.ok()) << expected.name << ": " << trace.status();
    const auto count = [&](KinetoKind kind) {
      return std::count_if(trace->events.begin(), trace->events.end(),
                           [&](const KinetoEvent& event) { return event.kind == kind; });
    };
    EXPECT_EQ(count(KinetoKind::kOp), expected.ops);
    EXPECT_EQ(count(KinetoKind::kKernel), expected.kernels);
    EXPECT_EQ(count(KinetoKind::kMemcpy), expected.copies);
    EXPECT_EQ(trace->device, "NVIDIA GeForce RTX 2080 Ti");
    const auto again = ReadKineto(WriteKineto(*trace));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(again->events.size(), trace->events.size());
    EXPECT_EQ(again->events[500].begin, trace->events[500].begin);
    EXPECT_TRUE(TimelineOf(*trace, nullptr).ok());
  }
}

TEST_F(TraceFiles, ExecutionTracesOfBothGenerationsAreRead) {
  struct Expected {
    const char* name;
    const char* end;
    const char* schema;
    size_t nodes;
    bool communicates;
  };
  for (const Expected& expected :
       {Expected{"param/linear_et.json.gz", "", "1.0.1", 931, false},
        Expected{"param/resnet_1gpu_et.json.gz", "", "1.0.3-chakra.0.0.4", 14391, true},
        Expected{"param/resnet_2gpu_et.json.gz", "", "1.1.0-chakra.0.0.4", 14392, true},
        Expected{"param/resnet_et.json.gz", "", "1.1.0-chakra.0.0.4", 14392, true},
        Expected{"param/hf_GPT2_et.json.tar.gz", ".json", "1.1.0-chakra.0.0.4", 27156, false},
        Expected{"chakra/1.0.2-chakra.0.0.4.tgz", ".json", "1.0.2-chakra.0.0.4", 263, true},
        Expected{"param/dlrm_pytorch_et.tar.gz", "_0.json", "1.0.1", 1675, true}}) {
    const auto trace = ReadExecutionTrace(Read(expected.name, expected.end));
    ASSERT_TRUE(trace.ok()) << expected.name << ": " << trace.status();
    EXPECT_EQ(trace->schema, expected.schema);
    EXPECT_EQ(trace->nodes.size(), expected.nodes) << expected.name;
    EXPECT_EQ(Collectives(*trace) > 0, expected.communicates) << expected.name;
  }
}

TEST_F(TraceFiles, ChakraTracesAreReadAndWritten) {
  const auto trace = ReadChakra(Read("chakra/feeder_tests_trace.tar.gz", ".et"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->nodes.size(), 3664u);
  EXPECT_EQ(std::count_if(trace->nodes.begin(), trace->nodes.end(),
                          [](const ChakraNode& node) { return node.Integer("comm_type") == 0; }),
            5);
  const auto again = ReadChakra(WriteChakra(*trace));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *trace);
  const auto json = ReadChakraJson(Read("chakra/json_trace.tar.gz", "/chakra.0.json"));
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->nodes.size(), 3664u);
}

}  // namespace
}  // namespace ebb::bench
