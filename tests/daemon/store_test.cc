#include "daemon/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sha256.h"
#include "daemon/resolve.h"
#include "tests/daemon/bound_socket.h"
#include "tests/daemon/temp_dir.h"

namespace ebb::daemon {
namespace {

using testing::HasSubstr;

constexpr StoreLimits kLimits = {Bytes(1000), Bytes(2000)};

ObjectInfo Announce(const std::string& bytes, const std::string& name = "") {
  ObjectInfo info;
  info.sha256 = Sha256Hex(bytes);
  info.kind = "data";
  info.name = name;
  info.bytes = Bytes(static_cast<int64_t>(bytes.size()));
  return info;
}

absl::StatusOr<ObjectInfo> Put(Store* store, const std::string& bytes,
                               const std::string& name = "") {
  auto upload = store->Begin(Announce(bytes, name));
  if (!upload.ok()) return upload.status();
  const absl::Status written = (*upload)->Write(bytes);
  if (!written.ok()) return written;
  return (*upload)->Commit();
}

size_t FilesBelow(const std::string& path) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    count += entry.is_regular_file() ? 1 : 0;
  }
  return count;
}

class StoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> Open() {
    auto store = Store::Open(dir_.path(), kLimits);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  TempDir dir_;
};

TEST_F(StoreTest, WhatIsPutIsFoundAlsoAfterARestart) {
  auto store = Open();
  const auto info = Put(store.get(), "hello", "greeting");
  ASSERT_TRUE(info.ok()) << info.status();
  store = Open();
  for (const std::string& reference :
       {"sha256:" + Sha256Hex("hello"), "sha256:" + Sha256Hex("hello").substr(0, 6),
        std::string("store:greeting"),
        "store:greeting@sha256:" + Sha256Hex("hello").substr(0, 4)}) {
    const auto found = store->Find(reference);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->name, "greeting");
    EXPECT_EQ(found->kind, "data");
    EXPECT_EQ(TempDir::Read(store->PathOf(*found)), "hello");
  }
  EXPECT_EQ(store->used(), Bytes(5));
}

TEST_F(StoreTest, TheNewestOfANameIsMeant) {
  auto store = Open();
  ASSERT_TRUE(Put(store.get(), "old", "model").ok());
  ASSERT_TRUE(Put(store.get(), "new", "model").ok());
  EXPECT_EQ(store->Find("store:model")->sha256, Sha256Hex("new"));
  EXPECT_EQ(store->Find("store:model@sha256:" + Sha256Hex("old"))->sha256, Sha256Hex("old"));
}

TEST_F(StoreTest, ATruncatedUploadLeavesNothing) {
  auto store = Open();
  {
    auto upload = store->Begin(Announce("hello"));
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Write("hel").ok());
    EXPECT_EQ(store->used(), Bytes(5)) << "announced bytes are reserved";
    EXPECT_EQ((*upload)->Commit().status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(FilesBelow(dir_.path()), 0u);
  EXPECT_EQ(store->used(), Bytes(0));
  EXPECT_TRUE(store->List().empty());
}

TEST_F(StoreTest, OtherBytesThanAnnouncedAreRefused) {
  auto store = Open();
  auto upload = store->Begin(Announce("hello"));
  ASSERT_TRUE((*upload)->Write("HELLO").ok());
  EXPECT_THAT(std::string((*upload)->Commit().status().message()), HasSubstr("not the announced"));
  auto longer = store->Begin(Announce("hello"));
  EXPECT_EQ((*longer)->Write("hello!").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StoreTest, ACrashInMidUploadIsCleanedUp) {
  dir_.Write("incoming/123-0", "half");
  dir_.Write("objects/" + Sha256Hex("gone") + ".meta", "data\n\n1\n");
  dir_.Write("objects/" + Sha256Hex("x") + ".meta.new", "data\n\n1\n");
  dir_.Write("objects/" + Sha256Hex("alone"), "alone");  // renamed, its meta lost
  dir_.Write("objects/" + Sha256Hex("torn"), "torn");
  dir_.Write("objects/" + Sha256Hex("torn") + ".meta", "da");
  auto store = Open();
  EXPECT_EQ(store->List().size(), 2u);
  EXPECT_TRUE(store->Find("sha256:" + Sha256Hex("alone")).ok());
  EXPECT_TRUE(store->Find("sha256:" + Sha256Hex("torn")).ok());
  EXPECT_EQ(FilesBelow(dir_.path()), 3u);
}

TEST_F(StoreTest, TheLimitsHold) {
  auto store = Open();
  EXPECT_EQ(Put(store.get(), std::string(1001, 'a')).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(Put(store.get(), std::string(1000, 'a')).ok());
  auto pending = store->Begin(Announce(std::string(900, 'b')));
  ASSERT_TRUE(pending.ok());
  EXPECT_EQ(Put(store.get(), std::string(101, 'c')).status().code(),
            absl::StatusCode::kResourceExhausted);
  pending->reset();
  EXPECT_TRUE(Put(store.get(), std::string(101, 'c')).ok());
  EXPECT_EQ(store->used(), Bytes(1101));
}

TEST_F(StoreTest, TheSameContentIsStoredOnce) {
  auto store = Open();
  ASSERT_TRUE(Put(store.get(), "same", "a").ok());
  ASSERT_TRUE(Put(store.get(), "same", "b").ok());
  EXPECT_EQ(store->used(), Bytes(4));
  EXPECT_EQ(store->List().size(), 1u);
  EXPECT_EQ(Open()->used(), Bytes(4));
}

TEST_F(StoreTest, RemovingGivesTheBytesBack) {
  auto store = Open();
  ASSERT_TRUE(Put(store.get(), "hello", "x").ok());
  ASSERT_TRUE(store->Remove("store:x").ok());
  EXPECT_EQ(store->used(), Bytes(0));
  EXPECT_EQ(store->Remove("store:x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FilesBelow(dir_.path()), 0u);
}

TEST_F(StoreTest, MalformedReferencesAreRefused) {
  auto store = Open();
  for (const char* bad :
       {"", "x", "sha256:", "sha256:12345", "sha256:zzzzzz", "sha256:../../x",
        "store:", "store:../x", "store:a@b", "store:a/b", "store:@sha256:123456"}) {
    EXPECT_EQ(store->Find(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  ObjectInfo bad = Announce("x");
  bad.sha256[0] = 'G';
  EXPECT_EQ(store->Begin(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Begin(Announce("x", "../x")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

class ResolverTest : public StoreTest {};

TEST_F(ResolverTest, HostFilesMustBeInsideARootAfterLinks) {
  auto store = Open();
  TempDir root, outside;
  const std::string inside = root.Write("sub/a.csv", "1,0\n2,1\n");
  const std::string secret = outside.Write("secret.csv", "1,0\n");
  std::filesystem::create_symlink(secret, root.path() + "/link.csv");
  std::filesystem::create_symlink(outside.path(), root.path() + "/dir");
  std::filesystem::create_symlink(inside, outside.path() + "/back.csv");
  Resolver resolver(store.get(), {root.path()}, KiB(1));
  EXPECT_TRUE(resolver.Read(inside).ok());
  EXPECT_TRUE(resolver.Read("host:" + inside).ok());
  EXPECT_TRUE(resolver.Read(outside.path() + "/back.csv").ok()) << "it leads to a file inside";
  for (const std::string& bad :
       {secret, root.path() + "/link.csv", root.path() + "/dir/secret.csv",
        root.path() + "/../" + outside.path().substr(outside.path().rfind('/') + 1) + "/secret.csv",
        root.path() + "x/a", std::string("/etc/passwd"), std::string("/nonexistent"),
        root.path()}) {
    EXPECT_EQ(resolver.Read(bad).status().code(), absl::StatusCode::kPermissionDenied) << bad;
  }
  EXPECT_EQ(resolver.Read(root.path() + "/sub").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(resolver.Read("sub/a.csv").status().code(), absl::StatusCode::kInvalidArgument);
  root.Write("big", std::string(1025, 'x'));
  EXPECT_EQ(resolver.Read(root.path() + "/big").status().code(),
            absl::StatusCode::kResourceExhausted);
  Resolver no_roots(store.get(), {}, KiB(1));
  EXPECT_THAT(std::string(no_roots.Read(inside).status().message()), HasSubstr("--data_root"));
}

TEST_F(ResolverTest, ASocketInARootIsNoFile) {
  auto store = Open();
  TempDir root;
  const std::string path = root.path() + "/socket";
  const int fd = BoundSocket(path);
  close(fd);
  Resolver resolver(store.get(), {root.path()}, KiB(1));
  EXPECT_EQ(resolver.Read(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ResolverTest, WhatIsReadAndHeldCountsAgainstTheHostsMemory) {
  auto store = Open();
  TempDir root;
  std::string text = "1,0\n";
  while (text.size() < KiB(64).count()) text += text;
  const std::string csv = root.Write("a.csv", text);
  const std::string rows = root.Write("rows.txt", "0\n1\n");
  Resolver resolver(store.get(), {root.path()}, MiB(1), MiB(2));
  {
    const auto data = resolver.Load(csv, {});
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(resolver.budget().taken(), (*data)->bytes()) << "the text has been let go";
    const auto again = resolver.Load(csv, {});
    EXPECT_EQ(resolver.budget().taken(), (*data)->bytes()) << "it is held once";
    const auto index = resolver.Index(rows);
    EXPECT_EQ(resolver.budget().taken(), (*data)->bytes() + Bytes(2 * 4 * 8));
    const auto bytes = resolver.Read(rows);
    EXPECT_EQ(resolver.budget().taken(), (*data)->bytes() + Bytes(2 * 4 * 8 + 4));
  }
  EXPECT_EQ(resolver.budget().taken(), Bytes(0));
  // The file itself fits, what it becomes does not; then nothing stays taken.
  Resolver small(store.get(), {root.path()}, MiB(1), KiB(256));
  const auto refused = small.Load(csv, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--host_memory"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("a.csv"));
  EXPECT_EQ(small.budget().taken(), Bytes(0));
}

TEST_F(ResolverTest, TokensCountWithTheirRangeAlone) {
  auto store = Open();
  TempDir root;
  const std::string path = root.Write("t.bin", std::string("\1\0\2\0\3\0\4\0", 8));
  Resolver resolver(store.get(), {root.path()}, KiB(1), KiB(1));
  const data::TokenOptions half{.window = 1, .from = 0, .to = 0.5};
  auto tokens = resolver.LoadTokens(path, half);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(resolver.budget().taken(), Bytes(8)) << "two of four tokens, as i32";
  EXPECT_EQ(*resolver.LoadTokens(path, half), *tokens);
  EXPECT_NE(*resolver.LoadTokens(path, {.window = 1}), *tokens);
  tokens = absl::CancelledError();
  EXPECT_EQ(resolver.budget().taken(), Bytes(0));
  Resolver small(store.get(), {root.path()}, KiB(1), Bytes(20));
  EXPECT_EQ(small.LoadTokens(path, {.window = 1}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ResolverTest, SharesOutliveTheResolver) {
  auto store = Open();
  TempDir root;
  const std::string path = root.Write("a", "abc");
  auto resolver = std::make_unique<Resolver>(store.get(), std::vector{root.path()}, KiB(1), KiB(1));
  const auto bytes = resolver->Read(path);
  resolver.reset();
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(**bytes, "abc");
}

TEST_F(ResolverTest, TheSameContentIsLoadedOnce) {
  auto store = Open();
  TempDir root;
  const std::string text = "1,0\n2,1\n3,0\n";
  const std::string a = root.Write("a.csv", text);
  const std::string b = root.Write("b.csv", text);
  ASSERT_TRUE(Put(store.get(), text, "c.csv").ok());
  Resolver resolver(store.get(), {root.path()}, KiB(1));
  const auto first = resolver.Load(a, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, *resolver.Load(b, {}));
  EXPECT_EQ(*first, *resolver.Load("store:c.csv", {}));
  EXPECT_NE(*first, *resolver.Load(a, {.csv = {.label_column = 0}}));
  EXPECT_EQ((*first)->rows(), 3);
}

}  // namespace
}  // namespace ebb::daemon
