// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/procedures.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "client/nfs3/convert.h"
#include "transport/runtime/trace.h"

namespace nfsrdma::client::nfs3 {
namespace {

using namespace std::chrono_literals;

// The pause after NFS3ERR_JUKEBOX, as in the kernel's client, and how often it checks for cancellation.
constexpr Duration kJukeboxPause = 5s, kLookAround = 100ms;
// Approximate sizes of the RPC and NFS headers with a file handle, for statistics.
constexpr size_t kCallBytes = 160, kReplyBytes = 180;

// `Function`: the library's rpc_nfs3_..._async. `args` and `answer` are in the caller's frame.
template <auto Function, class Args, class Res, class Out>
RawCall raw_call(Procedures::Caller caller, Args& args, Out& answer) {
  RawCall call;
  call.issue = [](rpc_context* rpc, RawCallback callback, void* a, void* tag) {
    return Function(rpc, callback, static_cast<Args*>(a), tag);
  };
  call.args = &args;
  call.take = [](const void* result, void* into) -> Result<> {
    if (result == nullptr) return fail(system_error(EIO, "", "an empty answer"));
    return take(*static_cast<const Res*>(result), *static_cast<Out*>(into));
  };
  call.into = &answer;
  call.credential = std::move(caller.credential);
  call.abandoned = caller.abandoned;
  return call;
}

diropargs3 place(const std::string& directory, std::string& name) {
  return {to_wire(directory), name.data()};
}

client::SetAttributes mode_only(uint32_t mode) {
  client::SetAttributes set;
  set.mode = mode & 07777;
  return set;
}

void put_verifier(char (&to)[8], const nfs4::verifier4& from) {
  std::memcpy(to, from.data.data(), sizeof to);
}

int issue_null(rpc_context* rpc, RawCallback callback, void*, void* tag) {
  return rpc_nfs3_null_async(rpc, callback, tag);
}

}  // namespace

Task<Result<>> Procedures::run(Procedure procedure, RawCall call, Answer* answer, size_t sent,
                               size_t received) {
  RpcClient& client = *clients_[Loop::current()->index()];
  const char* op = "";
  static const auto names = [] {
    std::vector<std::string> all;
    for (uint32_t p = 0; p <= static_cast<uint32_t>(Procedure::kCommit); ++p)
      all.push_back(procedure_name(p));
    return all;
  }();
  op = names[static_cast<size_t>(procedure)].c_str();
  bool repeated = false;
  for (;;) {
    RpcClient::Outcome outcome = co_await client.call(op, call);
    repeated = repeated || outcome.transmissions > 1;
    client::OperationCounters::Sample sample;
    sample.error = !outcome.result || (answer != nullptr && answer->status != 0);
    sample.transmissions = outcome.transmissions;
    sample.sent = kCallBytes + sent;
    sample.received = kReplyBytes + received;
    sample.response = outcome.response;
    counters_.add(static_cast<uint32_t>(procedure), sample);
    if (log::tracing()) {
      const std::chrono::duration<double, std::milli> took = outcome.response;
      const std::string status = !outcome.result       ? describe(outcome.result.error())
                                 : answer == nullptr   ? "answered"
                                 : answer->status == 0 ? "NFS3_OK"
                                                       : describe(nfs3_error(answer->status, ""));
      log::trace(fmt::format("{}: {}, {:.3f} ms", op, status, took.count()));
    }
    if (!outcome.result) {
      outcome.result.error().op = op;
      co_return std::move(outcome.result);
    }
    if (answer == nullptr || answer->status != NFS3ERR_JUKEBOX_) break;
    const TimePoint end = Clock::now() + kJukeboxPause;
    while (Clock::now() < end && !client.closing() && !call.is_abandoned())
      co_await client.loop().sleep(kLookAround);
  }
  if (answer != nullptr) answer->repeated = repeated;
  co_return Result<>{};
}

Task<Result<>> Procedures::null(Credential credential) {
  RawCall call;
  call.issue = issue_null;
  call.credential = std::move(credential);
  co_return co_await run(Procedure::kNull, std::move(call), nullptr, 0, 0);
}

// The other procedures are alike: they fill the library's structure, run the call and return the answer.
#define NFSRDMA_NFS3_RUN(who, proc, function, NAME, sent, received)                         \
  RawCall call = raw_call<function, NAME##3args, NAME##3res>(std::move(who), args, answer); \
  NFSRDMA_CO_TRY(co_await run(Procedure::proc, std::move(call), &answer, sent, received));  \
  co_return std::move(answer)

Task<Result<AttributesAnswer>> Procedures::getattr(Credential credential, std::string handle) {
  AttributesAnswer answer;
  GETATTR3args args{to_wire(handle)};
  NFSRDMA_NFS3_RUN(credential, kGetattr, rpc_nfs3_getattr_async, GETATTR, 0, 0);
}

Task<Result<ChangeAnswer>> Procedures::setattr(Caller caller, std::string handle, client::SetAttributes set) {
  ChangeAnswer answer;
  SETATTR3args args{};
  args.object = to_wire(handle);
  args.new_attributes = to_wire(set);
  NFSRDMA_NFS3_RUN(caller, kSetattr, rpc_nfs3_setattr_async, SETATTR, 0, 0);
}

Task<Result<ObjectAnswer>> Procedures::lookup(Credential credential, std::string directory,
                                              std::string name) {
  ObjectAnswer answer;
  LOOKUP3args args{place(directory, name)};
  NFSRDMA_NFS3_RUN(credential, kLookup, rpc_nfs3_lookup_async, LOOKUP, name.size(), 0);
}

Task<Result<AccessAnswer>> Procedures::access(Credential credential, std::string handle, uint32_t wanted) {
  AccessAnswer answer;
  ACCESS3args args{to_wire(handle), wanted};
  NFSRDMA_NFS3_RUN(credential, kAccess, rpc_nfs3_access_async, ACCESS, 0, 0);
}

Task<Result<ReadlinkAnswer>> Procedures::readlink(Credential credential, std::string handle) {
  ReadlinkAnswer answer;
  READLINK3args args{to_wire(handle)};
  NFSRDMA_NFS3_RUN(credential, kReadlink, rpc_nfs3_readlink_async, READLINK, 0, 0);
}

Task<Result<ReadAnswer>> Procedures::read(Credential credential, std::string handle, uint64_t offset,
                                          Slice destination) {
  ReadAnswer answer;
  answer.destination = destination.bytes;
  READ3args args{to_wire(handle), offset, static_cast<count3>(destination.size())};
  NFSRDMA_NFS3_RUN(credential, kRead, rpc_nfs3_read_async, READ, 0, destination.size());
}

Task<Result<WriteAnswer>> Procedures::write(Credential credential, std::string handle, uint64_t offset,
                                            Slice data, uint32_t stable) {
  WriteAnswer answer;
  WRITE3args args{};
  args.file = to_wire(handle);
  args.offset = offset;
  args.count = static_cast<count3>(data.size());
  args.stable = static_cast<stable_how>(stable);
  args.data.data_len = args.count;
  args.data.data_val = reinterpret_cast<char*>(data.bytes.data());
  NFSRDMA_NFS3_RUN(credential, kWrite, rpc_nfs3_write_async, WRITE, data.size(), 0);
}

Task<Result<ObjectAnswer>> Procedures::create(Caller caller, std::string directory, std::string name,
                                              std::optional<uint64_t> exclusive, uint32_t mode) {
  ObjectAnswer answer;
  CREATE3args args{};
  args.where = place(directory, name);
  args.how.mode = exclusive ? EXCLUSIVE : GUARDED;
  if (exclusive) {
    put_verifier(args.how.createhow3_u.verf, nfs4::verifier4::of(*exclusive));
  } else {
    args.how.createhow3_u.g_obj_attributes = to_wire(mode_only(mode));
  }
  NFSRDMA_NFS3_RUN(caller, kCreate, rpc_nfs3_create_async, CREATE, name.size(), 0);
}

Task<Result<ObjectAnswer>> Procedures::mkdir(Caller caller, std::string directory, std::string name,
                                             uint32_t mode) {
  ObjectAnswer answer;
  MKDIR3args args{place(directory, name), to_wire(mode_only(mode))};
  NFSRDMA_NFS3_RUN(caller, kMkdir, rpc_nfs3_mkdir_async, MKDIR, name.size(), 0);
}

Task<Result<ObjectAnswer>> Procedures::symlink(Caller caller, std::string directory, std::string name,
                                               std::string target) {
  ObjectAnswer answer;
  SYMLINK3args args{};
  args.where = place(directory, name);
  args.symlink.symlink_attributes = to_wire(mode_only(0777));
  args.symlink.symlink_data = target.data();
  NFSRDMA_NFS3_RUN(caller, kSymlink, rpc_nfs3_symlink_async, SYMLINK, name.size() + target.size(), 0);
}

Task<Result<ObjectAnswer>> Procedures::mknod(Caller caller, std::string directory, std::string name,
                                             uint32_t mode, uint32_t major, uint32_t minor) {
  ObjectAnswer answer;
  MKNOD3args args{};
  args.where = place(directory, name);
  auto& what = args.what.mknoddata3_u;
  const sattr3 attributes = to_wire(mode_only(mode));
  switch (mode & S_IFMT) {
    case S_IFCHR:
    case S_IFBLK:
      args.what.type = S_ISCHR(mode) ? NF3CHR : NF3BLK;
      what.chr_device = {attributes, {major, minor}};  // same place as blk_device
      break;
    case S_IFSOCK:
      args.what.type = NF3SOCK;
      what.sock_attributes = attributes;
      break;
    case S_IFIFO:
      args.what.type = NF3FIFO;
      what.pipe_attributes = attributes;
      break;
    default: co_return fail(system_error(EINVAL, "MKNOD", "a file type that does not exist"));
  }
  NFSRDMA_NFS3_RUN(caller, kMknod, rpc_nfs3_mknod_async, MKNOD, name.size(), 0);
}

Task<Result<ChangeAnswer>> Procedures::remove(Caller caller, std::string directory, std::string name,
                                              bool is_directory) {
  ChangeAnswer answer;
  if (is_directory) {
    RMDIR3args args{place(directory, name)};
    NFSRDMA_NFS3_RUN(caller, kRmdir, rpc_nfs3_rmdir_async, RMDIR, name.size(), 0);
  }
  REMOVE3args args{place(directory, name)};
  NFSRDMA_NFS3_RUN(caller, kRemove, rpc_nfs3_remove_async, REMOVE, name.size(), 0);
}

Task<Result<RenameAnswer>> Procedures::rename(Caller caller, std::string from_directory, std::string from,
                                              std::string to_directory, std::string to) {
  RenameAnswer answer;
  RENAME3args args{place(from_directory, from), place(to_directory, to)};
  NFSRDMA_NFS3_RUN(caller, kRename, rpc_nfs3_rename_async, RENAME, from.size() + to.size(), 0);
}

Task<Result<LinkAnswer>> Procedures::link(Caller caller, std::string handle, std::string directory,
                                          std::string name) {
  LinkAnswer answer;
  LINK3args args{to_wire(handle), place(directory, name)};
  NFSRDMA_NFS3_RUN(caller, kLink, rpc_nfs3_link_async, LINK, name.size(), 0);
}

Task<Result<ReaddirAnswer>> Procedures::readdir(Credential credential, std::string directory, uint64_t cookie,
                                                nfs4::verifier4 verifier, uint32_t bytes, bool plus) {
  ReaddirAnswer answer;
  if (plus) {
    READDIRPLUS3args args{};
    args.dir = to_wire(directory);
    args.cookie = cookie;
    put_verifier(args.cookieverf, verifier);
    args.dircount = args.maxcount = bytes;
    NFSRDMA_NFS3_RUN(credential, kReaddirplus, rpc_nfs3_readdirplus_async, READDIRPLUS, 0, bytes);
  }
  READDIR3args args{};
  args.dir = to_wire(directory);
  args.cookie = cookie;
  put_verifier(args.cookieverf, verifier);
  args.count = bytes;
  NFSRDMA_NFS3_RUN(credential, kReaddir, rpc_nfs3_readdir_async, READDIR, 0, bytes);
}

Task<Result<FsstatAnswer>> Procedures::fsstat(Credential credential, std::string handle) {
  FsstatAnswer answer;
  FSSTAT3args args{to_wire(handle)};
  NFSRDMA_NFS3_RUN(credential, kFsstat, rpc_nfs3_fsstat_async, FSSTAT, 0, 0);
}

Task<Result<FsinfoAnswer>> Procedures::fsinfo(Credential credential, std::string handle) {
  FsinfoAnswer answer;
  FSINFO3args args{to_wire(handle)};
  NFSRDMA_NFS3_RUN(credential, kFsinfo, rpc_nfs3_fsinfo_async, FSINFO, 0, 0);
}

Task<Result<PathconfAnswer>> Procedures::pathconf(Credential credential, std::string handle) {
  PathconfAnswer answer;
  PATHCONF3args args{to_wire(handle)};
  NFSRDMA_NFS3_RUN(credential, kPathconf, rpc_nfs3_pathconf_async, PATHCONF, 0, 0);
}

Task<Result<WriteAnswer>> Procedures::commit(Credential credential, std::string handle, uint64_t offset,
                                             uint32_t count) {
  WriteAnswer answer;
  COMMIT3args args{to_wire(handle), offset, count};
  NFSRDMA_NFS3_RUN(credential, kCommit, rpc_nfs3_commit_async, COMMIT, 0, 0);
}

#undef NFSRDMA_NFS3_RUN

}  // namespace nfsrdma::client::nfs3
