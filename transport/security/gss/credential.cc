// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss/credential.h"

#include <array>
#include <span>

#include "transport/security/gss/failure.h"
#include "transport/security/gss/library.h"

namespace nfsrdma::gss {

namespace {

Result<gss_cred_id_t> acquire(gss_name_t name, gss_cred_usage_t usage,
                              std::span<gss_key_value_element_desc> store, std::string_view source) {
  gss_key_value_set_desc elements{static_cast<OM_uint32>(store.size()), store.data()};
  gss_OID_set_desc mechanisms = only_krb5();
  OM_uint32 minor = 0;
  gss_cred_id_t credential = GSS_C_NO_CREDENTIAL;
  const OM_uint32 major =
      gss_acquire_cred_from(&minor, name, GSS_C_INDEFINITE, &mechanisms, usage,
                            store.empty() ? nullptr : &elements, &credential, nullptr, nullptr);
  if (failed(major)) return fail(error_of(major, minor, "gss_acquire_cred", source));
  return credential;
}

// The library takes an empty name in a store for a file without a name, not for the default.
std::string default_keytab() {
  std::array<char, 1024> name{};
  krb5_context library = nullptr;
  if (krb5_init_context(&library) != 0) return {};
  const bool known = krb5_kt_default_name(library, name.data(), static_cast<int>(name.size())) == 0;
  krb5_free_context(library);
  return known ? name.data() : "";
}

}  // namespace

void Credential::Release::operator()(gss_cred_id_struct* credential) const {
  OM_uint32 minor = 0;
  gss_release_cred(&minor, &credential);
}

Result<Credential> Credential::from_ccache(const std::string& ccache) {
  std::array<gss_key_value_element_desc, 1> store{{{"ccache", ccache.c_str()}}};
  const std::string source = ccache.empty() ? "the default credential cache" : ccache;
  const auto acquired =
      acquire(GSS_C_NO_NAME, GSS_C_INITIATE, std::span(store).first(ccache.empty() ? 0 : 1), source);
  if (!acquired) return fail(acquired.error());
  Credential credential(Handle(*acquired), Use::kInitiate, source);
  // Without a name the library has not looked into the cache yet. This makes it look.
  const auto left = credential.lifetime();
  if (!left) return fail(left.error());
  if (*left == std::chrono::seconds(0))
    return fail(make_error(Failure::kTicketExpired, "gss_inquire_cred", source));
  return credential;
}

Result<Credential> Credential::from_keytab(const std::string& keytab, const Name& principal,
                                           const std::string& ccache) {
  if (keytab.empty()) {
    const std::string usual = default_keytab();
    if (usual.empty()) return fail(make_error(Failure::kNoKeytab, "gss_acquire_cred", "the default keytab"));
    return from_keytab(usual, principal, ccache);
  }
  std::array<gss_key_value_element_desc, 2> store{
      {{"client_keytab", keytab.c_str()}, {"ccache", ccache.c_str()}}};
  const auto acquired = acquire(principal.get(), GSS_C_INITIATE, store, principal.text() + " in " + keytab);
  if (!acquired && failure_of(acquired.error()) == Failure::kNoTicket) {
    // The library found no key, and says that it found no ticket. As an acceptor it says what the keytab
    // lacks.
    std::array<gss_key_value_element_desc, 2> keys{{{"keytab", keytab.c_str()}, {"rcache", "none:"}}};
    const auto key = acquire(principal.get(), GSS_C_ACCEPT, keys, keytab);
    if (!key) return fail(key.error());
    const Handle found(*key);
  }
  if (!acquired) return fail(acquired.error());
  return Credential(Handle(*acquired), Use::kInitiate, keytab);
}

Result<Credential> Credential::accepting(const Accepting& options) {
  std::array<gss_key_value_element_desc, 2> store{};
  size_t used = 0;
  if (!options.keytab.empty()) store[used++] = {"keytab", options.keytab.c_str()};
  if (!options.replay_cache) store[used++] = {"rcache", "none:"};
  std::optional<Name> name;
  if (!options.service.empty()) {
    auto service = Name::service(options.service);
    if (!service) return fail(service.error());
    name = *std::move(service);
  }
  const std::string source = options.keytab.empty() ? "the default keytab" : options.keytab;
  const auto acquired =
      acquire(name ? name->get() : GSS_C_NO_NAME, GSS_C_ACCEPT, std::span(store).first(used), source);
  if (!acquired) return fail(acquired.error());
  return Credential(Handle(*acquired), Use::kAccept, source);
}

Result<Name> Credential::name() const {
  OM_uint32 minor = 0;
  gss_name_t name = GSS_C_NO_NAME;
  const OM_uint32 major = gss_inquire_cred(&minor, credential_.get(), &name, nullptr, nullptr, nullptr);
  if (failed(major)) return fail(error_of(major, minor, "gss_inquire_cred", source_));
  if (name == GSS_C_NO_NAME) return fail(make_error(Failure::kOther, "gss_inquire_cred", source_, "no name"));
  return Name::adopt(name);
}

Result<std::optional<std::chrono::seconds>> Credential::lifetime() const {
  OM_uint32 minor = 0;
  OM_uint32 seconds = 0;
  const OM_uint32 major = gss_inquire_cred(&minor, credential_.get(), nullptr, &seconds, nullptr, nullptr);
  if (GSS_ROUTINE_ERROR(major) == GSS_S_CREDENTIALS_EXPIRED) return std::chrono::seconds(0);
  if (failed(major)) return fail(error_of(major, minor, "gss_inquire_cred", source_));
  if (seconds == GSS_C_INDEFINITE) return std::nullopt;
  return std::chrono::seconds(seconds);
}

}  // namespace nfsrdma::gss
