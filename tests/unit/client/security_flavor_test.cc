// SPDX-License-Identifier: Apache-2.0
// Which flavor a mount uses, from what the user wants and what the server offers.
#include "client/api/security_flavor.h"

#include <gtest/gtest.h>

namespace nfsrdma::client {
namespace {

using enum SecurityFlavor;

std::vector<SecurityFlavor> flavors(std::string_view list) {
  std::vector<SecurityFlavor> all;
  while (!list.empty()) {
    const size_t colon = std::min(list.find(':'), list.size());
    all.push_back(security_flavor(list.substr(0, colon)).value());
    list.remove_prefix(std::min(colon + 1, list.size()));
  }
  return all;
}

TEST(SecurityFlavor, Names_AreThoseOfNfs5) {
  for (const SecurityFlavor flavor : {kSys, kKrb5, kKrb5i, kKrb5p})
    EXPECT_EQ(security_flavor(to_string(flavor)), flavor);
  EXPECT_EQ(joined(flavors("krb5p:krb5:sys")), "krb5p:krb5:sys");
  for (const char* wrong : {"", "none", "KRB5", "krb5 ", "spkm"})
    EXPECT_FALSE(security_flavor(wrong)) << wrong;
}

// RFC 8881 section 18.29.3, of SECINFO's result: "with an order corresponding to the server's preferences".
TEST(SecurityFlavor, Choice_FollowsTheServersPreference) {
  struct Row {
    const char* wanted;
    const char* offered;
    const char* chosen;  // "": none
  };
  constexpr Row kRows[] = {
      {"", "sys", "sys"},
      {"", "krb5p:krb5i:krb5:sys", "krb5p"},
      {"", "sys:krb5", "sys"},
      {"", "", ""},
      {"krb5", "krb5p:krb5i:krb5:sys", "krb5"},
      {"krb5:krb5p", "krb5p:krb5", "krb5p"},
      {"krb5p:krb5", "krb5:krb5p", "krb5"},
      {"sys:krb5", "krb5:sys", "krb5"},
      {"sys", "krb5p:krb5i:krb5", ""},
      {"krb5p", "sys:krb5:krb5i", ""},
      {"krb5i", "", ""},
  };
  for (const Row& row : kRows) {
    const auto chosen = choose_flavor(flavors(row.wanted), flavors(row.offered));
    EXPECT_EQ(chosen ? to_string(*chosen) : "", row.chosen) << row.wanted << " of " << row.offered;
  }
}

}  // namespace
}  // namespace nfsrdma::client
