// SPDX-License-Identifier: Apache-2.0
// Procedures: NFSv3's procedures as coroutines, on the connection of the calling loop.
//
// A reply with an NFS error is not an error of the Result: `status` has it, and the reply's attributes are
// valid. The Result is an error only if there is no reply (RpcClient). After NFS3ERR_JUKEBOX ("later", RFC
// 1813 section 2.6) the call is repeated until another status arrives. Each method counts its calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/core/operation_counters.h"
#include "client/nfs3/rpc_client.h"
#include "client/nfs3/wire.h"

namespace nfsrdma::client::nfs3 {

class Procedures {
 public:
  using Credential = rpc::CredentialPtr;
  // The caller of a change of names or attributes. If nobody waits for the change any more, it is not sent,
  // or not sent again (EINTR), because it could undo what the caller does next. The flag outlives the call;
  // null: never cancelled.
  struct Caller {
    // NOLINTNEXTLINE(google-explicit-constructor): a credential alone is a caller that always waits
    Caller(Credential who, const std::atomic<bool>* gone = nullptr)
        : credential(std::move(who)), abandoned(gone) {}
    Credential credential;
    const std::atomic<bool>* abandoned;
  };

  explicit Procedures(std::vector<std::unique_ptr<RpcClient>>& clients) : clients_(clients) {}

  Task<Result<>> null(Credential credential);
  Task<Result<AttributesAnswer>> getattr(Credential credential, std::string handle);
  Task<Result<ChangeAnswer>> setattr(Caller caller, std::string handle, client::SetAttributes set);
  Task<Result<ObjectAnswer>> lookup(Credential credential, std::string directory, std::string name);
  Task<Result<AccessAnswer>> access(Credential credential, std::string handle, uint32_t wanted);
  Task<Result<ReadlinkAnswer>> readlink(Credential credential, std::string handle);
  // Copies at most destination.size() bytes there.
  Task<Result<ReadAnswer>> read(Credential credential, std::string handle, uint64_t offset,
                                Slice destination);
  Task<Result<WriteAnswer>> write(Credential credential, std::string handle, uint64_t offset, Slice data,
                                  uint32_t stable);
  // With `exclusive`: EXCLUSIVE, which carries only the verifier. Else GUARDED with `mode`.
  Task<Result<ObjectAnswer>> create(Caller caller, std::string directory, std::string name,
                                    std::optional<uint64_t> exclusive, uint32_t mode);
  Task<Result<ObjectAnswer>> mkdir(Caller caller, std::string directory, std::string name, uint32_t mode);
  Task<Result<ObjectAnswer>> symlink(Caller caller, std::string directory, std::string name,
                                     std::string target);
  // `mode` includes the file type.
  Task<Result<ObjectAnswer>> mknod(Caller caller, std::string directory, std::string name, uint32_t mode,
                                   uint32_t major, uint32_t minor);
  Task<Result<ChangeAnswer>> remove(Caller caller, std::string directory, std::string name,
                                    bool is_directory);
  Task<Result<RenameAnswer>> rename(Caller caller, std::string from_directory, std::string from,
                                    std::string to_directory, std::string to);
  Task<Result<LinkAnswer>> link(Caller caller, std::string handle, std::string directory, std::string name);
  Task<Result<ReaddirAnswer>> readdir(Credential credential, std::string directory, uint64_t cookie,
                                      nfs4::verifier4 verifier, uint32_t bytes, bool plus);
  Task<Result<FsstatAnswer>> fsstat(Credential credential, std::string handle);
  Task<Result<FsinfoAnswer>> fsinfo(Credential credential, std::string handle);
  Task<Result<PathconfAnswer>> pathconf(Credential credential, std::string handle);
  Task<Result<WriteAnswer>> commit(Credential credential, std::string handle, uint64_t offset,
                                   uint32_t count);

  std::vector<client::OperationStatistics> counters() const { return counters_.snapshot(); }

 private:
  // Repeats the call while the status is JUKEBOX and somebody waits for it.
  Task<Result<>> run(Procedure procedure, RawCall call, Answer* answer, size_t sent, size_t received);

  std::vector<std::unique_ptr<RpcClient>>& clients_;
  client::OperationCounters counters_{procedure_name};
};

}  // namespace nfsrdma::client::nfs3
