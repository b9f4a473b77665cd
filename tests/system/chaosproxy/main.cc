// SPDX-License-Identifier: Apache-2.0
// usage: chaosproxy --listen PORT --target [ADDRESS:]PORT --control SOCKET [--raw 1]
//
// Passes NFS connections from 127.0.0.1:PORT (0: any; the port is printed) to the target (IPv4; 127.0.0.1 if
// no address is given), and injects faults on command. --raw: passes on any bytes (software RDMA); then there
// are no rules for records, and only connections and cuts are counted. Commands on the control socket, one
// per line, each answered with "ok ..." or "error ...":
//   on call|reply OPERATION N|1/K ACTION [PARAMETER]
//                          applies ACTION to the N-th such record (once), or to each with chance 1/K;
//                          OPERATION is an NFSv4 operation's name or `any`; for ACTION see faults.h
//   cut                    resets every connection now
//   cut-every MIN MAX [SEED]
//                          resets every connection after MIN..MAX ms, repeatedly; 0 0 ends it
//   stall [MS], unstall    passes nothing on; connections stay open, and only the kernel accepts new ones
//   refuse [MS], accept    closes the port and all connections
//   delay MS               passes replies on MS later
//   fragment MAX           sends replies in fragments of 1..MAX bytes; 0 ends it
//   seed N, reset          reset: ends all faults
//   stats, zero            counts as JSON; zero resets them
//   quit

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "proxy.h"

int main(int argc, char** argv) {
  std::string control;
  unsigned long listen_port = 0;
  std::string target = "127.0.0.1";
  unsigned long target_port = 0;
  bool raw = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--listen") == 0) {
      listen_port = std::strtoul(argv[i + 1], nullptr, 10);
    } else if (std::strcmp(argv[i], "--target") == 0) {
      const char* colon = std::strrchr(argv[i + 1], ':');
      if (colon != nullptr) target.assign(argv[i + 1], static_cast<size_t>(colon - argv[i + 1]));
      target_port = std::strtoul(colon != nullptr ? colon + 1 : argv[i + 1], nullptr, 10);
    } else if (std::strcmp(argv[i], "--control") == 0) {
      control = argv[i + 1];
    } else if (std::strcmp(argv[i], "--raw") == 0) {
      raw = std::strcmp(argv[i + 1], "0") != 0;
    }
  }
  if (control.empty() || target_port == 0 || target_port > 65535 || listen_port > 65535) {
    std::fprintf(stderr,
                 "usage: chaosproxy --listen PORT --target [ADDRESS:]PORT --control SOCKET [--raw 1]\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  try {
    chaos::Proxy proxy(static_cast<uint16_t>(listen_port),
                       chaos::address_of(target, static_cast<uint16_t>(target_port)), control, raw);
    std::printf("%u\n", proxy.port());
    std::fflush(stdout);
    proxy.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaosproxy: %s\n", error.what());
    return 1;
  }
  return 0;
}
