// Folders of images: which files are rows, and which paths lead out of what may be read.
#include "daemon/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/daemon/temp_dir.h"

namespace ebb::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ImageFolderTest : public testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const data::ImageSet>> Open(const std::string& folder) const {
    return OpenImageFolder(HostRoots({root_.path()}), folder,
                           [](Bytes) { return absl::OkStatus(); });
  }
  std::string Error(const std::string& folder) const {
    const auto set = Open(folder);
    return set.ok() ? "accepted" : set.status().ToString();
  }
  void Link(const std::string& to, const std::string& at) const {
    std::filesystem::create_symlink(to, root_.path() + "/" + at);
  }

  TempDir root_, outside_;
  const std::string png_ = TempDir::Read(EBB_SOURCE_DIR "/tests/data/fixtures/images/rgb.png");
};

TEST_F(ImageFolderTest, ListsClassesAndWhatIsBelowThem) {
  root_.Write("set/b/2.png", png_);
  root_.Write("set/a/deep/1.png", png_);
  root_.Write("set/a/notes.txt", "x");
  root_.Write("set/.cache/c/3.png", png_);
  root_.Write("elsewhere/4.png", png_);
  Link(root_.path() + "/elsewhere", "set/c");
  const auto set = Open(root_.path() + "/set");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT((*set)->list().paths, ElementsAre("a/deep/1.png", "b/2.png", "c/4.png"));
  EXPECT_THAT((*set)->list().labels, ElementsAre(0, 1, 2));
  EXPECT_TRUE((*set)->Decode(2).ok());
}

TEST_F(ImageFolderTest, NothingOutsideOfTheRootsIsRead) {
  root_.Write("set/a/1.png", png_);
  const std::string secret = outside_.Write("a/2.png", png_);
  EXPECT_THAT(Error(outside_.path()), HasSubstr("PERMISSION_DENIED"));
  Link(secret, "set/a/2.png");
  EXPECT_THAT(Error(root_.path() + "/set"),
              testing::AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("a/2.png")));
  std::filesystem::remove(root_.path() + "/set/a/2.png");
  Link(outside_.path() + "/a", "set/b");
  EXPECT_THAT(Error(root_.path() + "/set"), HasSubstr("PERMISSION_DENIED"));
  std::filesystem::remove(root_.path() + "/set/b");
  // Swapped for a link after the job was submitted.
  const auto set = Open(root_.path() + "/set");
  ASSERT_TRUE(set.ok()) << set.status();
  std::filesystem::remove(root_.path() + "/set/a/1.png");
  Link(secret, "set/a/1.png");
  EXPECT_EQ((*set)->Decode(0).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ImageFolderTest, AFileThatHasBeenReplacedIsAnErrorThatNamesIt) {
  const std::string first = root_.Write("set/a/1.png", png_);
  root_.Write("set/a/2.png", png_);
  const auto set = Open(root_.path() + "/set");
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_TRUE((*set)->Decode(0).ok());
  // By one of the same size.
  const auto before = std::filesystem::last_write_time(first);
  std::filesystem::last_write_time(first, before + std::chrono::nanoseconds(1));
  const absl::Status status = (*set)->Decode(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("a/1.png"), HasSubstr("changed since")));
  EXPECT_TRUE((*set)->Decode(1).ok());
  const auto again = Open(root_.path() + "/set");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)->Decode(0).ok()) << "a job that is submitted now reads what is there now";
}

TEST_F(ImageFolderTest, FoldersThatAreNoDataSetAreRefusedInWords) {
  root_.Write("set/a/1.png", png_);
  std::filesystem::create_directories(root_.path() + "/set/b");
  EXPECT_THAT(Error(root_.path() + "/set"), HasSubstr("\"b\" is a class without an image"));
  Link("..", "set/b/up");
  EXPECT_THAT(Error(root_.path() + "/set"), HasSubstr("one directory too many; the limits are 16"));
  std::filesystem::create_directories(root_.path() + "/none");
  EXPECT_THAT(Error(root_.path() + "/none"), HasSubstr("there is no .png, .jpg or .jpeg in it"));
  std::filesystem::create_directories(root_.path() + "/odd/a/x.png");
  EXPECT_THAT(Error(root_.path() + "/odd"), HasSubstr("there is no .png, .jpg or .jpeg in it"));
}

TEST_F(ImageFolderTest, TheListIsAskedForBeforeItIsTaken) {
  root_.Write("set/a/1.png", png_);
  const auto refused = OpenImageFolder(HostRoots({root_.path()}), root_.path() + "/set", [](Bytes) {
    return absl::ResourceExhaustedError("no more");
  });
  EXPECT_THAT(refused.status().message(), HasSubstr("no more"));
}

}  // namespace
}  // namespace ebb::daemon
