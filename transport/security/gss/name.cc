// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss/name.h"

#include "transport/security/gss/failure.h"
#include "transport/security/gss/library.h"

namespace nfsrdma::gss {

namespace {

Result<gss_name_t> import_name(std::string_view text, gss_OID type) {
  gss_buffer_desc buffer = readable(as_const_bytes(text));
  OM_uint32 minor = 0;
  gss_name_t name = GSS_C_NO_NAME;
  const OM_uint32 major = gss_import_name(&minor, &buffer, type, &name);
  if (failed(major)) return fail(error_of(major, minor, "gss_import_name", text));
  return name;
}

}  // namespace

void Name::Release::operator()(gss_name_struct* name) const {
  OM_uint32 minor = 0;
  gss_release_name(&minor, &name);
}

Result<Name> Name::adopt(gss_name_struct* name) {
  Handle handle(name);
  Buffer text;
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_display_name(&minor, name, text.out(), nullptr);
  if (failed(major)) return fail(error_of(major, minor, "gss_display_name"));
  return Name(std::move(handle), std::string(text.text()));
}

Result<Name> Name::service(std::string_view service, std::string_view host) {
  std::string text(service);
  if (!host.empty()) text.append("@").append(host);
  const auto name = import_name(text, GSS_C_NT_HOSTBASED_SERVICE);
  if (!name) return fail(name.error());
  return adopt(*name);
}

Result<Name> Name::principal(std::string_view text) {
  const auto name = import_name(text, const_cast<gss_OID>(GSS_KRB5_NT_PRINCIPAL_NAME));
  if (!name) return fail(name.error());
  const Handle handle(*name);
  // Import alone does not look at the text; this parses it and adds the realm.
  OM_uint32 minor = 0;
  gss_name_t canonical = GSS_C_NO_NAME;
  const OM_uint32 major = gss_canonicalize_name(&minor, *name, krb5_mechanism(), &canonical);
  if (failed(major)) return fail(error_of(major, minor, "gss_canonicalize_name", text));
  return adopt(canonical);
}

Result<std::string> Name::local_user() const {
  Buffer user;
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_localname(&minor, name_.get(), krb5_mechanism(), user.out());
  if (!failed(major)) return std::string(user.text());
  return fail(make_error(Failure::kNoLocalUser, "gss_localname", text_));
}

}  // namespace nfsrdma::gss
