// SPDX-License-Identifier: Apache-2.0
// Name: a principal as GSS knows it (RFC 2743 section 4, RFC 4121). Owns the library's object; move-only.
//
// Any thread, one at a time. Errors: Layer::kSecurity. Looking up a host's name in DNS may block: where
// krb5.conf lets the library canonicalize names (dns_canonicalize_hostname), service() may wait for DNS.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "xdr/support/result.h"

// MIT Kerberos' opaque types. Only the .cc files of this folder include its headers.
struct gss_name_struct;

namespace nfsrdma::gss {

class Name {
 public:
  // The service of a host: ("nfs", "filer.example.org") is the principal nfs/filer.example.org of the host's
  // realm. Without a host: this service of any host, for an acceptor.
  static Result<Name> service(std::string_view service, std::string_view host = {});
  // "alice", "alice@EXAMPLE.ORG", "nfs/filer.example.org@EXAMPLE.ORG". Without a realm: the default realm.
  static Result<Name> principal(std::string_view text);

  // As people read it: "alice@EXAMPLE.ORG". Made once.
  const std::string& text() const { return text_; }
  // The local user by krb5.conf's auth_to_local rules (by default: the name without the default realm).
  // Failure::kNoLocalUser: none. The account need not exist.
  Result<std::string> local_user() const;

  gss_name_struct* get() const { return name_.get(); }
  // Takes over an object of the library's.
  static Result<Name> adopt(gss_name_struct* name);

 private:
  struct Release {
    void operator()(gss_name_struct* name) const;
  };
  using Handle = std::unique_ptr<gss_name_struct, Release>;
  Name(Handle name, std::string text) : name_(std::move(name)), text_(std::move(text)) {}

  Handle name_;
  std::string text_;
};

}  // namespace nfsrdma::gss
