// SPDX-License-Identifier: Apache-2.0
// Situations: one of each thing that a mount does, each with one main NFS operation, for tests that disturb
// that operation (lost replies, DELAY, damaged replies and so on).
//
// Each uses its own directory on the server, so any number can run one after the other on one mount, whatever
// happened before.
#pragma once

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {

struct Situation {
  const char* name;
  nfs4::nfs_opnum4 op;
  bool changes;  // a second execution would change something
  std::function<void(filer::Server&, const std::string& directory)> prepare;  // absolute path
  std::function<int(TestMount&, const std::string& directory)> act;           // path in the mount; errno
};

const std::vector<Situation>& situations();
std::vector<Situation> changing_situations();

// Creates the directory `name` in /export, with what the situation needs in it.
void prepare(filer::Server& server, const Situation& situation, const std::string& name);

// The content of a directory on the server, one line each: type, links, content.
std::map<std::string, std::string> contents(filer::Server& server, const std::string& directory);

std::ostream& operator<<(std::ostream& out, const Situation& s);

}  // namespace nfsrdma::test
