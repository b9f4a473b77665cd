// SPDX-License-Identifier: Apache-2.0
// Flavors: the security that an export accepts, in the server's order of preference (RFC 8881 section 2.6.3).
//
// A Flavor names a security triple as exports(5) and nfs(5) do: krb5, krb5i and krb5p are RPCSEC_GSS with
// mechanism krb5, QOP 0 and the service none, integrity and privacy. `sys` includes AUTH_NONE, whose caller
// is nobody. Values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace nfsrdma::filer::tree {

enum class Flavor : uint8_t { kSys, kKrb5, kKrb5i, kKrb5p };

std::string_view to_string(Flavor flavor);
constexpr bool is_kerberos(Flavor flavor) {
  return flavor != Flavor::kSys;
}

class Flavors {
 public:
  constexpr Flavors() = default;  // accepts nothing
  constexpr Flavors(std::initializer_list<Flavor> list) {
    for (const Flavor flavor : list) add(flavor);
  }
  // Parses "krb5p:krb5i:krb5:sys". nullopt: a word is unknown or stands twice, or there is none.
  static std::optional<Flavors> parse(std::string_view list);

  // Does nothing if the flavor is there already.
  constexpr void add(Flavor flavor) {
    if (!accepts(flavor)) list_[size_++] = flavor;
  }
  constexpr void add(const Flavors& more) {
    for (const Flavor flavor : more) add(flavor);
  }
  constexpr bool accepts(Flavor flavor) const {
    for (const Flavor one : *this) {
      if (one == flavor) return true;
    }
    return false;
  }
  constexpr bool has_kerberos() const {
    for (const Flavor one : *this) {
      if (is_kerberos(one)) return true;
    }
    return false;
  }
  constexpr bool empty() const { return size_ == 0; }
  constexpr size_t size() const { return size_; }
  constexpr const Flavor* begin() const { return list_.data(); }
  constexpr const Flavor* end() const { return list_.data() + size_; }

  friend constexpr bool operator==(const Flavors&, const Flavors&) = default;

 private:
  std::array<Flavor, 4> list_{};  // one place for each Flavor
  uint8_t size_ = 0;
};

}  // namespace nfsrdma::filer::tree
