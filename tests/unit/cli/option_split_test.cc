// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_split.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace nfsrdma::cli {
namespace {

using Items = std::vector<RawOption>;

Items split(std::string_view list) {
  auto items = split_options(list);
  EXPECT_TRUE(items) << list;
  return items ? *items : Items{};
}

TEST(OptionSplit, NamesAndValues_AreTakenApart) {
  EXPECT_EQ(split("ro,rsize=65536,log="), (Items{{"ro", {}}, {"rsize", "65536"}, {"log", ""}}));
}

TEST(OptionSplit, EmptyItems_AreSkipped) {
  EXPECT_EQ(split(""), Items{});
  EXPECT_EQ(split(",,ro,,rw,"), (Items{{"ro", {}}, {"rw", {}}}));
}

TEST(OptionSplit, EscapedComma_BelongsToTheValue) {
  EXPECT_EQ(split("conf=/a\\,b,ro"), (Items{{"conf", "/a,b"}, {"ro", {}}}));
  EXPECT_EQ(split("conf=/a\\\\,ro"), (Items{{"conf", "/a\\"}, {"ro", {}}}));
}

TEST(OptionSplit, QuotedValue_MayHoldCommas) {
  EXPECT_EQ(split("x-a=\"1,2=3\",ro"), (Items{{"x-a", "1,2=3"}, {"ro", {}}}));
}

TEST(OptionSplit, SecondEqualsSign_BelongsToTheValue) {
  EXPECT_EQ(split("comment=a=b"), (Items{{"comment", "a=b"}}));
}

TEST(OptionSplit, LoneBackslashAtTheEnd_IsKept) {
  EXPECT_EQ(split("conf=/a\\"), (Items{{"conf", "/a\\"}}));
}

TEST(OptionSplit, OpenQuote_IsRefused) {
  const auto items = split_options("conf=\"/a,ro");
  ASSERT_FALSE(items);
  EXPECT_EQ(items.error().exit_code, 1);
  EXPECT_NE(items.error().text.find("conf"), std::string::npos);
}

TEST(OptionSplit, ValueWithoutName_IsRefused) {
  EXPECT_FALSE(split_options("ro,=5"));
}

TEST(OptionSplit, EscapedText_ComesBackWhole) {
  EXPECT_TRUE(rc::check("any value survives escape and split", [](const std::vector<std::string>& values) {
    std::string list;
    Items expected;
    for (const std::string& value : values) {
      list += (list.empty() ? "" : ",") + std::string("conf=") + escape_option(value);
      expected.push_back({"conf", value});
    }
    RC_ASSERT(*split_options(list) == expected);
  }));
}

TEST(OptionSplit, AnyBytes_NeitherCrashNorInventItems) {
  EXPECT_TRUE(rc::check("items never hold more bytes than the input", [](const std::string& list) {
    const auto items = split_options(list);
    if (!items) return;
    size_t bytes = 0;
    for (const RawOption& item : *items) {
      RC_ASSERT(!item.name.empty());
      bytes += item.name.size() + (item.value ? item.value->size() : 0);
    }
    RC_ASSERT(bytes <= list.size());
  }));
}

}  // namespace
}  // namespace nfsrdma::cli
