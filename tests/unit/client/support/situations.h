// SPDX-License-Identifier: Apache-2.0
// Situations: one of everything a mount does, each centred on one NFS operation, for tests that disturb that
// operation in turn (lost replies, DELAY, damaged replies...).
//
// Each works in a directory of its own on the server, so that any number can follow each other on one mount
// whatever became of those before.
#pragma once

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {

struct Situation {
  const char* name;
  nfs4::nfs_opnum4 op;
  bool changes;  // something that a second execution would see
  std::function<void(filer::Server&, const std::string& directory)> prepare;  // absolute path
  std::function<int(TestMount&, const std::string& directory)> act;           // path in the mount; errno
};

const std::vector<Situation>& situations();
std::vector<Situation> changing_situations();

// Makes the directory `name` in /export and what the situation needs in it.
void prepare(filer::Server& server, const Situation& situation, const std::string& name);

// What is in a directory of the server, one line each: type, links, content.
std::map<std::string, std::string> contents(filer::Server& server, const std::string& directory);

std::ostream& operator<<(std::ostream& out, const Situation& s);

}  // namespace nfsrdma::test
