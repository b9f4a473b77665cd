// SPDX-License-Identifier: Apache-2.0
// Templates for the rows of the option table: setters and printers for members of MountOptions.
//
// Private to cli/options/option_*.cc. A row names a member and gets its setter and its printer from here.
// Rows with rules of their own (versions, transports, security flavors) have functions in option_rules.cc.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};
template <auto Member>
using MemberType = std::remove_reference_t<decltype(std::declval<MountOptions&>().*Member)>;

// For bool and optional<bool>.
template <auto Member>
Outcome<> set_switch(MountOptions& o, const OptionValue& v) {
  o.*Member = v.on;
  return {};
}
// Sets one value of an enumeration; `Off` is the value for the opposite switch.
template <auto Member, auto On, auto Off = On>
Outcome<> set_choice(MountOptions& o, const OptionValue& v) {
  o.*Member = v.on ? On : Off;
  return {};
}
// For integers, and std::chrono durations counted in `Unit`; both also inside an optional.
template <auto Member, class Unit = void>
Outcome<> set_number(MountOptions& o, const OptionValue& v) {
  using Value = typename Unwrapped<MemberType<Member>>::type;
  if constexpr (std::is_void_v<Unit>) {
    o.*Member = static_cast<Value>(v.number);
  } else {
    o.*Member = Value(Unit(static_cast<typename Unit::rep>(v.number)));
  }
  return {};
}
template <auto Member>
Outcome<> set_text(MountOptions& o, const OptionValue& v) {
  o.*Member = std::string(v.text);
  return {};
}

struct Name {
  char text[24] = {};
  template <size_t N>
  constexpr Name(const char (&literal)[N]) {  // NOLINT: implicit, it is a template argument
    static_assert(N <= sizeof(text));
    for (size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
};

// Returns `On` if the switch is on, else `Off` (which may be ""); empty for an empty optional.
template <auto Member, Name On, Name Off>
std::string show_switch(const MountOptions& o) {
  if constexpr (std::is_same_v<std::remove_cv_t<MemberType<Member>>, std::optional<bool>>) {
    if (!(o.*Member)) return {};
    return *(o.*Member) ? On.text : Off.text;
  } else {
    return o.*Member ? On.text : Off.text;
  }
}
template <auto Member, auto Value, Name Text>
std::string show_choice(const MountOptions& o) {
  return o.*Member == Value ? Text.text : "";
}
template <auto Member, Name Text, class Unit = void>
std::string show_number(const MountOptions& o) {
  using Type = std::remove_cv_t<MemberType<Member>>;
  using Value = typename Unwrapped<Type>::type;
  Value value{};
  if constexpr (std::is_same_v<Type, Value>) {
    value = o.*Member;
  } else {
    if (!(o.*Member)) return {};
    value = *(o.*Member);
  }
  if constexpr (std::is_void_v<Unit>) {
    return fmt::format("{}={}", Text.text, value);
  } else {
    return fmt::format("{}={}", Text.text, std::chrono::duration_cast<Unit>(value).count());
  }
}

// Empty for an empty text.
template <auto Member, Name Text>
std::string show_text(const MountOptions& o) {
  return (o.*Member).empty() ? std::string() : fmt::format("{}={}", Text.text, o.*Member);
}

// Rows with rules of their own (option_rules.cc).
Outcome<> set_version(MountOptions& o, const OptionValue& v);
Outcome<> set_minor_version(MountOptions& o, const OptionValue& v);
std::string show_version(const MountOptions& o);
Outcome<> set_no_lock(MountOptions& o, const OptionValue& v);
Outcome<> set_nothing(MountOptions& o, const OptionValue& v);
std::string show_mount_port(const MountOptions& o);
std::string show_mount_host(const MountOptions& o);
Outcome<> set_protocol(MountOptions& o, const OptionValue& v);
std::string show_protocol(const MountOptions& o);
Outcome<> set_rdma_version(MountOptions& o, const OptionValue& v);
std::string show_rdma_version(const MountOptions& o);
Outcome<> set_inline(MountOptions& o, const OptionValue& v);
Outcome<> set_rdma_device(MountOptions& o, const OptionValue& v);
std::string show_rdma_device(const MountOptions& o);
std::string show_poll(const MountOptions& o);
Outcome<> set_security(MountOptions& o, const OptionValue& v);
std::string show_security(const MountOptions& o);
Outcome<> set_rsize(MountOptions& o, const OptionValue& v);
Outcome<> set_wsize(MountOptions& o, const OptionValue& v);
Outcome<> set_timeo(MountOptions& o, const OptionValue& v);
Outcome<> set_actimeo(MountOptions& o, const OptionValue& v);
Outcome<> set_lookup_cache(MountOptions& o, const OptionValue& v);
std::string show_lookup_cache(const MountOptions& o);
Outcome<> set_local_lock(MountOptions& o, const OptionValue& v);
std::string show_local_lock(const MountOptions& o);
Outcome<> set_server_acls(MountOptions& o, const OptionValue& v);
std::string show_server_acls(const MountOptions& o);
Outcome<> set_retry(MountOptions& o, const OptionValue& v);
Outcome<> set_idmap(MountOptions& o, const OptionValue& v);
std::string show_idmap(const MountOptions& o);
Outcome<> set_log(MountOptions& o, const OptionValue& v);
std::string show_log(const MountOptions& o);
Outcome<> set_log_level(MountOptions& o, const OptionValue& v);
std::string show_log_level(const MountOptions& o);
Outcome<> set_log_format(MountOptions& o, const OptionValue& v);
std::string show_log_format(const MountOptions& o);
Outcome<> set_notify(MountOptions& o, const OptionValue& v);
std::string show_notify(const MountOptions& o);
Outcome<> set_metrics(MountOptions& o, const OptionValue& v);
std::string show_metrics(const MountOptions& o);
Outcome<> set_xprtsec(MountOptions& o, const OptionValue& v);
std::string show_xprtsec(const MountOptions& o);
std::string show_config_file(const MountOptions& o);

}  // namespace nfsrdma::cli
