// SPDX-License-Identifier: Apache-2.0
#include "cli/filer/filer_command.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "cli/mount/reporter.h"
#include "cli/options/log_setup.h"
#include "cli/support/version.h"
#include "filer/server.h"
#include "filer/tree/caller_thread.h"
#include "transport/runtime/log.h"

namespace nfsrdma::cli {
namespace {

std::string endpoint(const std::string& address, uint16_t port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

std::string ready_line(const filer::nfs::Options& options, const filer::Server& server) {
  std::string line = "listening tcp " + endpoint(options.address, server.port());
  if (options.rdma.listen) line += " rdma " + endpoint(options.rdma.address, server.rdma_port());
  return line + "\n";
}

// Clients take two servers with the same server owner for one server with two addresses (RFC 8881 section
// 2.10.5). So each server has its own owner, which stays the same after a restart on the same port.
void set_identity(filer::nfs::Options& options) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  const std::string where =
      options.port != 0 ? endpoint(options.address, options.port) : std::to_string(getpid());
  options.identity.owner_major = options.identity.scope = fmt::format("nfsrdma-filer {} {}", host, where);
  options.identity.implementation.nii_name = fmt::format("nfsrdma-filer {}", kVersion);
}

// Advice for a failed start; begins with "; ", or is empty.
std::string start_advice(const Error& error) {
  const std::string_view op = error.op;
  if (op == "TLS") return "; see --tls-cert, --tls-key and --tls-ca";
  if (error.layer == Layer::kSecurity)
    return "; give a keytab with a key of nfs/HOST, HOST being this server's name for its clients, with "
           "--keytab FILE";
  if (op == "state directory") return "; give another with --state-dir DIR";
  if (op != "listen") return {};
  switch (error.errnum) {
    case EADDRINUSE: return "; another program listens there: give another port with --listen or --rdma";
    case EACCES: return "; ports below 1024 are root's: give another with --listen or --rdma";
    case EADDRNOTAVAIL: return "; this machine has no such address: 'ip address' lists those that it has";
    default: return {};
  }
}

// Whose AUTH_SYS credentials the server believes. Root in a user namespace that cannot impersonate its
// callers counts as an ordinary user.
filer::links::Believed believed(bool insecure) {
  if (insecure) return filer::links::Believed::kEverybody;
  return filer::tree::CallerThread().can_impersonate() ? filer::links::Believed::kReservedPorts
                                                       : filer::links::Believed::kOwnUser;
}

// The default size of a tmpfs.
uint64_t half_of_ram() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

void prepare(filer::Server& server, const FilerCommand& command) {
  server.configure([&](filer::nfs::Switches& switches) { switches = command.switches; });
  for (const std::string& path : command.options.exports) {
    const auto size = command.memory_bytes.find(path);
    server.set_space(path, size != command.memory_bytes.end() ? size->second : half_of_ram());
    if (command.read_only) server.set_read_only(path, true);
  }
  for (const filer::FaultRule& rule : command.faults) server.faults().add(rule.trigger, rule.action);
}

}  // namespace

int run_filer(const std::string& program, FilerCommand command) {
  ProcessLog log;
  LogSettings settings;
  settings.target = LogTarget::kStderr;
  settings.level = command.log_level;
  if (auto applied = log.apply(settings); !applied) return report(program, applied.error());
  umask(0);  // clients choose the modes
  signal(SIGPIPE, SIG_IGN);
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);  // the server's thread inherits the mask

  set_identity(command.options);
  command.options.believed = believed(command.insecure);
  command.options.journal = false;  // for tests only: it remembers every object that ever existed
  auto server = filer::Server::start(command.options);
  if (!server)
    return report(program,
                  Failure(ToolExit::kFailed, describe(server.error()) + start_advice(server.error())));
  prepare(**server, command);
  std::fputs(ready_line(command.options, **server).c_str(), stdout);
  std::fflush(stdout);
  notify_service_manager("READY=1");
  int signal_number = 0;
  sigwait(&ending, &signal_number);
  notify_service_manager("STOPPING=1");
  log::info("filer: ended by signal {}", signal_number);
  return 0;
}

}  // namespace nfsrdma::cli
