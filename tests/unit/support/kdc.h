// SPDX-License-Identifier: Apache-2.0
// Kdc: a realm of MIT Kerberos for one test program: database, KDC on a free port of loopback, keytabs,
// tickets.
//
// Everything is in a temporary directory, which ends with the object, as the KDC does. While it exists,
// KRB5_CONFIG and the defaults for caches and keytabs of this process point into that directory: nothing of
// the host's own Kerberos is seen. So start it before other threads read the environment, and one at a time.
// Needs no root. A step that fails is a test failure (ADD_FAILURE) that quotes the program's output.
//
//     if (const std::string missing = test::Kdc::missing(); !missing.empty()) GTEST_SKIP() << missing;
//     test::Kdc kdc;
//     kdc.add("alice");
//     const std::string keytab = kdc.keytab({"nfs/localhost"});
//     const std::string ccache = kdc.kinit("alice");
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/support/claimed_port.h"

namespace nfsrdma::test {

class Kdc {
 public:
  static constexpr const char* kRealm = "NFSRDMA.TEST";

  // Empty: a Kdc can start. Else which programs and packages are missing.
  static std::string missing();

  Kdc();
  ~Kdc();
  Kdc(const Kdc&) = delete;
  Kdc& operator=(const Kdc&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

  // Creates a principal with a random key and puts the key into the keytab that kinit() uses. `options`:
  // kadmin's of addprinc, such as "-e aes256-sha2:normal".
  void add(const std::string& principal, const std::string& options = {});
  void remove(const std::string& principal);
  // Gives a principal a new key, with the next version number; keytabs keep the old one.
  void change_key(const std::string& principal);

  // A new keytab with the present keys of these principals; creates those that do not exist. Returns its
  // name, "FILE:...".
  std::string keytab(const std::vector<std::string>& principals);

  struct Tickets {
    std::string lifetime = "10h";
    std::string starts_in{};  // "1h": a postdated ticket, which is not valid yet
  };
  // Gets a user's ticket-granting ticket into a new credential cache. Returns its name, "FILE:...".
  std::string kinit(const std::string& principal) { return kinit(principal, Tickets()); }
  std::string kinit(const std::string& principal, const Tickets& tickets);

  // Makes the host of a credential cache's user believe that its clock differs from the KDC's: whoever uses
  // the cache adds `offset` to the time.
  static void shift_clock(const std::string& ccache, std::chrono::seconds offset);
  // How much clocks may differ, [libdefaults] clockskew; 300 s at first.
  void set_clock_skew(std::chrono::seconds skew);
  // Another line of krb5.conf's section of the realm, for example an auth_to_local rule.
  void set_realm_lines(const std::string& lines);

  // The KDC takes connections and datagrams and answers none.
  void fall_silent();
  void speak_again();
  // No KDC: connections are refused.
  void stop();
  // On the port of before, or another one if somebody has that by now.
  void start();
  uint16_t port() const { return port_.number(); }

 private:
  void write_configuration() const;
  // Starts the program once. False: it has ended, because the port is taken or for a reason in kdc.log.
  bool start_once();
  std::string new_file(const std::string& kind);
  // kadmin.local with one command a line.
  void kadmin(const std::string& commands);

  std::filesystem::path directory_;
  ClaimedPort port_;
  pid_t process_ = -1;
  unsigned files_ = 0;
  std::chrono::seconds clock_skew_{300};
  std::string realm_lines_;
  std::vector<std::string> principals_;
};

}  // namespace nfsrdma::test
