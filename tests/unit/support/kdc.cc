// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/kdc.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/unit/support/run_program.h"
#include "tests/unit/transport/support/eventually.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::test {

namespace {

constexpr const char* kEnvironment[] = {"KRB5_CONFIG", "KRB5_KDC_PROFILE",   "KRB5CCNAME",
                                        "KRB5_KTNAME", "KRB5_CLIENT_KTNAME", "KRB5RCACHENAME"};

void run(std::vector<std::string> argv, std::string_view input = {}) {
  const std::string program = argv[0];
  const Finished finished = run_program(std::move(argv), input);
  if (finished.status != 0)
    ADD_FAILURE() << program << " ended with " << finished.status << ": " << finished.output;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string without_type(const std::string& name) {
  return name.substr(name.find(':') + 1);
}

}  // namespace

std::string Kdc::missing() {
  struct Needed {
    const char* program;
    const char* package;
  };
  std::string missing;
  for (const auto& [program, package] :
       {Needed{"krb5kdc", "krb5-kdc"}, Needed{"kdb5_util", "krb5-kdc"},
        Needed{"kadmin.local", "krb5-admin-server"}, Needed{"kinit", "krb5-user"}}) {
    if (!find_program(program).empty()) continue;
    missing += (missing.empty() ? "" : ", ") + std::string(program) + " (package " + package + ")";
  }
  return missing.empty() ? missing : "missing: " + missing + "; scripts/setup installs them";
}

Kdc::Kdc() {
  std::string name = (std::filesystem::temp_directory_path() / "nfsrdma-kdc-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    ADD_FAILURE() << "no temporary directory";
    return;
  }
  directory_ = name;
  write_configuration();
  const std::string values[] = {name + "/krb5.conf",           name + "/kdc.conf",
                                "FILE:" + name + "/no-ccache", "FILE:" + name + "/no-keytab",
                                "FILE:" + name + "/no-client", "file2:" + name + "/replays"};
  for (size_t i = 0; i < std::size(kEnvironment); ++i) ::setenv(kEnvironment[i], values[i].c_str(), 1);
  run({"kdb5_util", "create", "-s", "-r", kRealm, "-P", "master"});
  start();
}

Kdc::~Kdc() {
  stop();
  for (const char* name : kEnvironment) ::unsetenv(name);
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

void Kdc::write_configuration() const {
  const std::string where = directory_.string();
  const std::string port = std::to_string(port_.number());
  const std::string realm = kRealm;
  // TCP first: where nobody listens it fails at once.
  std::ofstream(where + "/krb5.conf")
      << "[libdefaults]\n default_realm = " << realm
      << "\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
      << " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n clockskew = "
      << clock_skew_.count() << "\n[realms]\n " << realm << " = {\n  kdc = 127.0.0.1:" << port << "\n"
      << realm_lines_ << " }\n";
  std::ofstream(where + "/kdc.conf")
      << "[realms]\n " << realm << " = {\n  database_name = " << where
      << "/principal\n  key_stash_file = " << where << "/stash\n  acl_file = " << where
      << "/acl\n  kdc_listen = 127.0.0.1:" << port << "\n  kdc_tcp_listen = 127.0.0.1:" << port
      << "\n  max_life = 24h\n"
      << "  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n[logging]\n kdc = FILE:" << where
      << "/kdc.log\n admin_server = FILE:" << where << "/kdc.log\n default = FILE:" << where << "/kdc.log\n";
}

std::string Kdc::new_file(const std::string& kind) {
  return (directory_ / (kind + std::to_string(++files_))).string();
}

// kadmin.local ends with 0 although commands failed, so its output is read.
void Kdc::kadmin(const std::string& commands) {
  const Finished finished = run_program({"kadmin.local", "-r", kRealm}, commands);
  for (const char* error : {"while ", "Usage", "usage", "No entry", "unknown"}) {
    if (finished.output.find(error) == std::string::npos) continue;
    ADD_FAILURE() << "kadmin.local: " << commands << finished.output;
    return;
  }
  if (finished.status != 0) ADD_FAILURE() << "kadmin.local ended with " << finished.status << finished.output;
}

void Kdc::add(const std::string& principal, const std::string& options) {
  const std::string keytab = (directory_ / "users.keytab").string();
  kadmin("addprinc -randkey +allow_postdated " + options + " " + principal + "\nktadd -norandkey -k " +
         keytab + " " + principal + "\n");
  principals_.push_back(principal);
}

void Kdc::remove(const std::string& principal) {
  kadmin("delprinc -force " + principal + "\n");
  std::erase(principals_, principal);
}

void Kdc::change_key(const std::string& principal) {
  kadmin("cpw -randkey " + principal + "\n");
}

std::string Kdc::keytab(const std::vector<std::string>& principals) {
  const std::string file = new_file("keytab");
  std::string commands;
  for (const std::string& principal : principals) {
    if (std::find(principals_.begin(), principals_.end(), principal) == principals_.end()) {
      commands += "addprinc -randkey +allow_postdated " + principal + "\n";
      principals_.push_back(principal);
    }
    commands += "ktadd -norandkey -k " + file + " " + principal + "\n";
  }
  kadmin(commands);
  return "FILE:" + file;
}

std::string Kdc::kinit(const std::string& principal, const Tickets& tickets) {
  const std::string ccache = "FILE:" + new_file("ccache");
  std::vector<std::string> argv = {
      "kinit", "-k", "-t", (directory_ / "users.keytab").string(), "-l", tickets.lifetime, "-c", ccache};
  if (!tickets.starts_in.empty()) argv.insert(argv.end(), {"-s", tickets.starts_in});
  argv.push_back(principal);
  run(std::move(argv));
  return ccache;
}

// MIT's format of credential caches, version 4: 05 04, length of the header, then tagged fields. Tag 1 is the
// difference to the KDC's clock: length 8, seconds, microseconds.
void Kdc::shift_clock(const std::string& ccache, std::chrono::seconds offset) {
  const std::string path = without_type(ccache);
  const std::string old = content_of(path);
  ASSERT_GE(old.size(), 4u) << path;
  ASSERT_EQ(old.substr(0, 2), "\x05\x04") << path;
  const size_t header = static_cast<uint8_t>(old[2]) * 256u + static_cast<uint8_t>(old[3]);
  ASSERT_GE(old.size(), 4 + header) << path;
  char fields[] = "\x05\x04\x00\x0c\x00\x01\x00\x08ssss\0\0\0";
  store_be32(reinterpret_cast<std::byte*>(fields + 8), static_cast<uint32_t>(offset.count()));
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      << std::string(fields, sizeof(fields)) << old.substr(4 + header);
}

void Kdc::set_clock_skew(std::chrono::seconds skew) {
  clock_skew_ = skew;
  write_configuration();
}

void Kdc::set_realm_lines(const std::string& lines) {
  realm_lines_ = lines;
  write_configuration();
}

void Kdc::fall_silent() {
  ASSERT_EQ(::kill(process_, SIGSTOP), 0);
}

void Kdc::speak_again() {
  ASSERT_EQ(::kill(process_, SIGCONT), 0);
}

void Kdc::stop() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
}

void Kdc::start() {
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (start_once()) return;
    port_ = ClaimedPort();
    write_configuration();
  }
  ADD_FAILURE() << "krb5kdc does not start: " << content_of(directory_ / "kdc.out")
                << content_of(directory_ / "kdc.log");
}

bool Kdc::start_once() {
  const std::string program = find_program("krb5kdc");
  const std::string output = (directory_ / "kdc.out").string();
  const std::filesystem::path log = directory_ / "kdc.log";
  const size_t had = content_of(log).size();
  process_ = ::fork();
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execl(program.c_str(), program.c_str(), "-n", "-r", kRealm, nullptr);
    ::_exit(127);
  }
  // Its own word that it listens: a connection might be taken by somebody else.
  bool ended = false;
  const bool known = eventually([&] {
    ended = ::waitpid(process_, nullptr, WNOHANG) == process_;
    return ended || content_of(log).find("commencing operation", had) != std::string::npos;
  });
  if (ended) process_ = -1;
  if (!known) ADD_FAILURE() << "krb5kdc does not listen: " << content_of(output) << content_of(log);
  return !ended;
}

}  // namespace nfsrdma::test
