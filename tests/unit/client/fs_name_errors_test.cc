// SPDX-License-Identifier: Apache-2.0
// The error that an application gets when the server rejects a name (RFC 8881 sections 14.4 and 15.1.7).
#include <fcntl.h>

#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Answer;
namespace on = filer::on;

// Section 14.4: "NFS4ERR_INVAL" for a name that is not UTF-8. Servers also return BADCHAR and BADNAME, which
// section 15.1.7 defines for other names, too. Linux' own file systems return EILSEQ for such a name.
TEST(NameErrors, NameThatTheServerRefuses_IsEilseqWhereItIsNotUtf8) {
  const std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount(*server);
  ASSERT_EQ(mount.write_file("from", ""), 0);
  const auto create = [&](const std::string& name) {
    return errno_of(mount.run(mount.fs().create(mount.user(), mount.root(), name, 0644, O_RDWR | O_CREAT)));
  };
  using Try = std::function<int(const std::string&)>;
  const std::vector<std::pair<nfs_opnum4, Try>> tries = {
      {OP_LOOKUP, [&](const std::string& name) { return errno_of(mount.lookup(name)); }},
      {OP_OPEN, create},
      {OP_CREATE, [&](const std::string& name) { return mount.mkdir(name); }},
      {OP_CREATE, [&](const std::string& text) { return mount.symlink(text, "link"); }},
      {OP_LINK, [&](const std::string& name) { return mount.link("from", name); }},
      {OP_RENAME, [&](const std::string& name) { return mount.rename("from", name); }},
      {OP_REMOVE, [&](const std::string& name) { return mount.rmdir(name); }},
  };
  for (const auto& [op, attempt] : tries) {
    for (const nfsstat4 status : {NFS4ERR_INVAL, NFS4ERR_BADCHAR, NFS4ERR_BADNAME}) {
      const auto rule = server->faults().add(on::request_with(op).always(), Answer{op, status});
      EXPECT_EQ(attempt("caf\xe9"), EILSEQ) << op << ' ' << name_of(status);
      EXPECT_EQ(attempt("caf\xc3\xa9"), EINVAL) << op << ' ' << name_of(status);
      server->faults().remove(rule);
    }
    const auto rule = server->faults().add(on::request_with(op).always(), Answer{op, NFS4ERR_ACCESS});
    EXPECT_EQ(attempt("caf\xe9"), EACCES) << "of another reason: " << op;
    server->faults().remove(rule);
  }
}

}  // namespace
}  // namespace nfsrdma::test
