#include "client/local_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/daemon/temp_dir.h"

namespace ebb::client {
namespace {

size_t FilesIn(const TempDir& dir) {
  const std::filesystem::directory_iterator files(dir.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(OpenRegularFile, RefusesWhatIsNoFileAndDoesNotBlock) {
  TempDir dir;
  ASSERT_EQ(mkfifo((dir.path() + "/fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", dir.path() + "/loop");
  for (const char* name : {"/fifo", "/loop", "/."}) {
    EXPECT_EQ(OpenRegularFile(dir.path() + name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(OpenRegularFile(dir.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  const auto fd = OpenRegularFile(dir.Write("file", "x"));
  ASSERT_TRUE(fd.ok()) << fd.status();
  close(*fd);
}

TEST(OutputFile, AppearsWhenItIsWhole) {
  TempDir dir;
  const std::string path = dir.Write("out", "old");
  {
    auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Write("half").ok());
    EXPECT_EQ(TempDir::Read(path), "old");
  }
  EXPECT_EQ(TempDir::Read(path), "old");
  EXPECT_EQ(FilesIn(dir), 1u) << "what was not committed is gone";
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Write("whole").ok());
  EXPECT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(TempDir::Read(path), "whole");
  EXPECT_EQ(FilesIn(dir), 1u);
}

TEST(OutputFile, ALinkKeepsItsPlace) {
  TempDir dir;
  const std::string target = dir.Write("target", "old");
  std::filesystem::create_symlink(target, dir.path() + "/link");
  auto file = OutputFile::Create(dir.path() + "/link");
  ASSERT_TRUE(file.ok() && (*file)->Write("new").ok() && (*file)->Commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() + "/link"));
  EXPECT_EQ(TempDir::Read(target), "new");
}

// A device is to a path as a pipe is; replacing one of those harms nobody.
TEST(OutputFile, APipeIsWrittenToAndNotReplaced) {
  TempDir dir;
  const std::string path = dir.path() + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  {
    auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Write("through").ok());
    EXPECT_TRUE((*file)->Commit().ok());
  }
  char bytes[16];
  EXPECT_EQ(read(reader, bytes, sizeof(bytes)), 7);
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_EQ(FilesIn(dir), 1u);
}

TEST(OutputFile, SaysWhatIsWrongWithAPath) {
  TempDir dir;
  EXPECT_EQ(OutputFile::Create("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OutputFile::Create(dir.path()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OutputFile::Create(dir.path() + "/none/x").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ebb::client
