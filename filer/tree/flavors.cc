// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/flavors.h"

namespace nfsrdma::filer::tree {

namespace {

constexpr std::array kFlavors{Flavor::kSys, Flavor::kKrb5, Flavor::kKrb5i, Flavor::kKrb5p};

std::optional<Flavor> flavor_named(std::string_view word) {
  for (const Flavor flavor : kFlavors) {
    if (to_string(flavor) == word) return flavor;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Flavor flavor) {
  switch (flavor) {
    case Flavor::kSys: return "sys";
    case Flavor::kKrb5: return "krb5";
    case Flavor::kKrb5i: return "krb5i";
    case Flavor::kKrb5p: return "krb5p";
  }
  return "?";
}

std::optional<Flavors> Flavors::parse(std::string_view list) {
  Flavors flavors;
  for (;;) {
    const size_t colon = list.find(':');
    const auto flavor = flavor_named(list.substr(0, colon));
    if (!flavor || flavors.accepts(*flavor)) return std::nullopt;
    flavors.add(*flavor);
    if (colon == list.npos) return flavors;
    list.remove_prefix(colon + 1);
  }
}

}  // namespace nfsrdma::filer::tree
