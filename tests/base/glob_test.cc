#include "base/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace ebb {
namespace {

TEST(Glob, AStarIsAnyRunAndAQuestionMarkAnyCharacter) {
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("layer?.*.weight", "layer1.0.conv.weight"));
  EXPECT_TRUE(GlobMatch("*bias", "fc.bias"));
  EXPECT_TRUE(GlobMatch("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(GlobMatch("layer?.*", "layer.x"));
  EXPECT_FALSE(GlobMatch("?", ""));
  EXPECT_FALSE(GlobMatch("a*b", "abc"));
}

TEST(Glob, EverythingElseStandsForItself) {
  EXPECT_TRUE(GlobMatch("[a].w+", "[a].w+"));
  EXPECT_FALSE(GlobMatch("[a]", "a"));
  EXPECT_FALSE(GlobMatch("fc", "fc.bias"));
  EXPECT_FALSE(GlobMatch("", "x"));
}

TEST(Glob, ManyStarsDoNotExplode) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(GlobMatch(pattern + "b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace ebb
