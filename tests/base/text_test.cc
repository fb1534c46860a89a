#include "base/text.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(Text, PrintableTextIsUnchanged) {
  for (const char* text : {"", "plain", "é ü 漢字", "😀 👩‍🔬", "a\\b 'c' \"d\""}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
    EXPECT_TRUE(IsPrintable(text)) << text;
    EXPECT_EQ(Escaped(text), text);
  }
}

TEST(Text, WhatATerminalActsOnOrHidesIsEscaped) {
  EXPECT_EQ(Escaped("\x1b[31mred\n\t\x7f"), "\\x1b[31mred\\n\\t\\x7f");
  EXPECT_EQ(Escaped(absl::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Escaped("\xc2\x9b"
                    "31m"),
            "\\u009b31m");  // a C1 control: CSI
  EXPECT_EQ(Escaped("a\xe2\x80\xae"
                    "fdp"),
            "a\\u202efdp");  // right to left from here on
  EXPECT_EQ(Escaped("\xe2\x81\xa6\xe2\x80\xa8\xef\xbb\xbf"), "\\u2066\\u2028\\ufeff");
  EXPECT_EQ(EscapedLines("a\nb\x1b"), "a\nb\\x1b");
  for (const char* text : {"a\nb", "\x1b", "\xc2\x85", "\xe2\x80\xae"}) {
    EXPECT_TRUE(IsUtf8(text)) << Escaped(text);
    EXPECT_FALSE(IsPrintable(text)) << Escaped(text);
  }
}

TEST(Text, WhatIsNotUtf8IsEscapedByteByByte) {
  EXPECT_EQ(Escaped("bad \xff name"), "bad \\xff name");
  EXPECT_EQ(Escaped("cut \xe2\x80"), "cut \\xe2\\x80");
  EXPECT_EQ(Escaped("\xc3\xa9\xa9"), "é\\xa9");
  for (const char* text : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",  // overlong
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3("}) {
    EXPECT_FALSE(IsUtf8(text)) << Escaped(text);
    EXPECT_FALSE(IsPrintable(text));
    EXPECT_TRUE(IsPrintable(Escaped(text)));
  }
}

}  // namespace
}  // namespace ebb
