// SPDX-License-Identifier: Apache-2.0
#include "client/api/security_flavor.h"

#include <algorithm>

namespace nfsrdma::client {
namespace {

struct NamedFlavor {
  SecurityFlavor flavor;
  std::string_view name;
};
constexpr NamedFlavor kFlavors[] = {{SecurityFlavor::kSys, "sys"},
                                    {SecurityFlavor::kKrb5, "krb5"},
                                    {SecurityFlavor::kKrb5i, "krb5i"},
                                    {SecurityFlavor::kKrb5p, "krb5p"}};

}  // namespace

std::string_view to_string(SecurityFlavor flavor) {
  return std::ranges::find(kFlavors, flavor, &NamedFlavor::flavor)->name;
}

std::optional<SecurityFlavor> security_flavor(std::string_view name) {
  const auto* const found = std::ranges::find(kFlavors, name, &NamedFlavor::name);
  if (found == std::end(kFlavors)) return std::nullopt;
  return found->flavor;
}

std::string joined(std::span<const SecurityFlavor> flavors) {
  std::string list;
  for (const SecurityFlavor flavor : flavors) {
    if (!list.empty()) list += ':';
    list += to_string(flavor);
  }
  return list;
}

std::optional<SecurityFlavor> choose_flavor(std::span<const SecurityFlavor> wanted,
                                            std::span<const SecurityFlavor> offered) {
  for (const SecurityFlavor flavor : offered) {
    if (wanted.empty() || std::ranges::find(wanted, flavor) != wanted.end()) return flavor;
  }
  return std::nullopt;
}

}  // namespace nfsrdma::client
