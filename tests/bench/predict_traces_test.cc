#include <gtest/gtest.h>

#include <filesystem>

#include "bench/predict/groups.h"
#include "bench/predict/tar.h"

namespace ebb::bench {
namespace {

TEST(PredictTraces, TheDlrmStepReplaysAndIsPredictedBetterThanByCopyingARank) {
  const std::string data = EBB_SOURCE_DIR "/../shared/perfdata";
  if (!std::filesystem::is_directory(data)) {
    GTEST_SKIP() << data << " is absent: measured figures go there";
  }
  const auto rows = TraceRows(data);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_GE(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].n, 8);
  EXPECT_LE((*rows)[0].value, 1) << "replay, launches given";
  EXPECT_TRUE((*rows)[1].passed());
  EXPECT_TRUE((*rows)[1].improves());
}

TEST(PredictTraces, MissingTracesAreNamed) {
  const absl::Status status = TraceRows("/nowhere").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("dlrm_kineto.tar.gz"), absl::string_view::npos) << status;
}

std::string Entry(const std::string& name, char type, const std::string& text) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  char size[13];
  std::snprintf(size, sizeof(size), "%011zo", text.size());
  block.replace(124, 11, size);
  block[156] = type;
  std::string padded = text;
  padded.resize((text.size() + 511) / 512 * 512, '\0');
  return block + padded;
}

TEST(Tar, PlainFilesComeByNameWithoutFoldersAndForks) {
  const std::string archive = Entry("d/", '5', "") + Entry("d/b", '0', std::string(600, 'x')) +
                              Entry("d/._b", '0', "fork") + Entry("h", 'x', "20 path=long\n") +
                              Entry("d/a", '\0', "text") + std::string(1024, '\0');
  const auto files = FilesOfTar(archive);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].name, "d/a");
  EXPECT_EQ((*files)[0].text, "text");
  EXPECT_EQ((*files)[1].text.size(), 600u);
  EXPECT_FALSE(FilesOfTar(absl::string_view(archive).substr(0, 1100)).ok());
  EXPECT_FALSE(FilesOfTar("").ok());
}

}  // namespace
}  // namespace ebb::bench
