// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/one_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>

#include "client/nfs3/libnfs.h"

namespace nfsrdma::client::nfs3 {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnswerLimit = 30s;
constexpr uint32_t kAuthNone = 0, kAuthSys = 1;  // RFC 5531 section 8.2
constexpr int kTcp = 6;                          // IPPROTO_TCP, in the portmapper's numbering

rpc::CredentialPtr nobody() {
  return std::make_shared<rpc::Credential>("", 0, 0, std::vector<uint32_t>{});
}

Task<Result<>> one_call(Loop& loop, net::Endpoint server, const char* op, RawCall call) {
  struct State {
    Completion<Result<>> done;
    bool ended = false;
  } state;
  const auto end = [&state, op](Recovery recovery, int errnum, std::string text) {
    if (std::exchange(state.ended, true)) return;
    Error error = system_error(errnum, op, std::move(text));
    error.layer = Layer::kTransport;
    error.recovery = recovery;
    state.done.set(fail(std::move(error)));
  };
  RawConnection::Hooks hooks;
  hooks.on_lost = [](const std::string&) {};
  hooks.on_end = [&state, &end](RawCall&, RawEnd how, std::string text) {
    if (how == RawEnd::kLost) return end(Recovery::kReconnect, ECONNRESET, std::move(text));
    if (how == RawEnd::kRefused) return end(Recovery::kPermanent, EPROTONOSUPPORT, std::move(text));
    if (!std::exchange(state.ended, true)) state.done.set({});
  };
  const auto connection = std::make_shared<RawConnection>(loop, std::move(hooks));
  Result<> connected = co_await connection->connect(server, kConnectLimit);
  if (!connected) {
    connected.error().op = op;
    if (connected.error().cause.empty()) connected.error().cause = net::to_string(server);
    co_return connected;
  }
  connection->send(call);
  asio::steady_timer timer(loop.context(), kAnswerLimit);
  timer.async_wait([weak = std::weak_ptr(connection)](const asio::error_code& cancelled) {
    if (const auto there = weak.lock(); !cancelled && there) there->close("no answer in time");
  });
  Result<> done = co_await state.done.wait();
  timer.cancel();
  connection->close("done");
  co_return done;
}

Error refusal(const char* op, int errnum, std::string text) {
  Error error = system_error(errnum, op, std::move(text));
  error.layer = Layer::kNfs;
  return error;
}

struct PortQuestion {
  uint32_t program, version;
  pmap3_mapping mapping{};
};

// A universal address ends in the port's two bytes (RFC 5665 section 5.2.3).
uint16_t port_of(std::string_view universal) {
  unsigned bytes[2] = {0, 0};
  for (int i = 1; i >= 0; --i) {
    const size_t dot = universal.rfind('.');
    if (dot == std::string_view::npos) return 0;
    const std::string_view digits = universal.substr(dot + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), bytes[i]);
    universal = universal.substr(0, dot);
  }
  return bytes[0] > 255 || bytes[1] > 255 ? uint16_t{0} : static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}

int issue_getport(rpc_context* rpc, RawCallback cb, void* args, void* tag) {
  const auto& q = *static_cast<PortQuestion*>(args);
  return rpc_pmap2_getport_async(rpc, static_cast<int>(q.program), static_cast<int>(q.version), kTcp, cb,
                                 tag);
}
Result<> take_port(const void* result, void* into) {
  const uint32_t port = *static_cast<const uint32_t*>(result);
  *static_cast<uint16_t*>(into) = port <= 65535 ? static_cast<uint16_t>(port) : uint16_t{0};
  return {};
}

int issue_getaddr(rpc_context* rpc, RawCallback cb, void* args, void* tag) {
  return rpc_pmap3_getaddr_async(rpc, &static_cast<PortQuestion*>(args)->mapping, cb, tag);
}
Result<> take_address(const void* result, void* into) {
  const char* universal = static_cast<const pmap3_string_result*>(result)->addr;
  *static_cast<uint16_t*>(into) = universal != nullptr ? port_of(universal) : uint16_t{0};
  return {};
}

struct MountAnswer {
  int status = 0;
  bool sys = false;
  std::string handle;
};

int issue_mnt(rpc_context* rpc, RawCallback cb, void* args, void* tag) {
  return rpc_mount3_mnt_async(rpc, cb, static_cast<std::string*>(args)->data(), tag);
}
Result<> take_mount(const void* result, void* into) {
  const auto& res = *static_cast<const mountres3*>(result);
  auto& answer = *static_cast<MountAnswer*>(into);
  answer.status = res.fhs_status;
  if (res.fhs_status != MNT3_OK) return {};
  const mountres3_ok& ok = res.mountres3_u.mountinfo;
  if (ok.fhandle.fhandle3_len == 0 || ok.fhandle.fhandle3_len > FHSIZE3)
    return fail(system_error(EIO, "MNT", "a file handle of an impossible size"));
  answer.handle.assign(ok.fhandle.fhandle3_val, ok.fhandle.fhandle3_len);
  const auto& flavors = ok.auth_flavors;
  answer.sys = flavors.auth_flavors_len == 0;
  // A server that lists AUTH_NONE ignores credentials, so AUTH_SYS works, as for Linux' client.
  for (u_int i = 0; i < flavors.auth_flavors_len; ++i) {
    const auto flavor = static_cast<uint32_t>(flavors.auth_flavors_val[i]);
    answer.sys = answer.sys || flavor == kAuthSys || flavor == kAuthNone;
  }
  return {};
}

int issue_export(rpc_context* rpc, RawCallback cb, void*, void* tag) {
  return rpc_mount3_export_async(rpc, cb, tag);
}
Result<> take_exports(const void* result, void* into) {
  auto& paths = *static_cast<std::vector<std::string>*>(into);
  for (exports e = *static_cast<const exports*>(result); e != nullptr; e = e->ex_next)
    if (e->ex_dir != nullptr) paths.emplace_back(e->ex_dir);
  return {};
}

int issue_umnt(rpc_context* rpc, RawCallback cb, void* args, void* tag) {
  return rpc_mount3_umnt_async(rpc, cb, static_cast<std::string*>(args)->data(), tag);
}

// RFC 1813 appendix I, section 5.1.5: the numbers are those of NFSv3. All but three are also errno values.
int mount_errno(int status) {
  switch (status) {
    case MNT3ERR_NAMETOOLONG: return ENAMETOOLONG;
    case MNT3ERR_NOTSUPP: return EOPNOTSUPP;
    case MNT3ERR_SERVERFAULT: return EIO;
    default: return status < 133 ? status : EIO;
  }
}

}  // namespace

Task<Result<uint16_t>> ask_port(Loop& loop, net::Endpoint server, uint32_t program, uint32_t version) {
  server.set_port(kPortmapperPort);
  PortQuestion question{program, version};
  // Version 2 supports only IPv4; GETADDR is of version 3.
  char netid[] = "tcp6", empty[] = "";
  question.mapping = {program, version, netid, empty, empty};
  uint16_t port = 0;
  RawCall call;
  const bool v6 = server.family() == AF_INET6;
  call.issue = v6 ? issue_getaddr : issue_getport;
  call.take = v6 ? take_address : take_port;
  call.args = &question;
  call.into = &port;
  call.credential = nobody();
  Result<> done = co_await one_call(loop, server, "portmap", std::move(call));
  if (!done) co_return fail(std::move(done.error()));
  if (port == 0)
    co_return fail(refusal("portmap", EPROTONOSUPPORT,
                           fmt::format("the server has no {} version {} on TCP",
                                       program == kMountProgram ? "MOUNT" : "NFS", version)));
  co_return port;
}

Task<Result<std::string>> mount_export(Loop& loop, net::Endpoint mountd, std::string path,
                                       rpc::CredentialPtr credential) {
  MountAnswer answer;
  RawCall call;
  call.issue = issue_mnt;
  call.take = take_mount;
  call.args = &path;
  call.into = &answer;
  call.credential = std::move(credential);
  Result<> done = co_await one_call(loop, mountd, "MNT", std::move(call));
  if (!done) co_return fail(std::move(done.error()));
  if (answer.status != MNT3_OK) co_return fail(refusal("MNT", mount_errno(answer.status), path));
  if (!answer.sys) co_return fail(refusal("MNT", EACCES, "the export does not allow sec=sys"));
  co_return std::move(answer.handle);
}

Task<Result<std::vector<std::string>>> list_exports(Loop& loop, net::Endpoint mountd) {
  std::vector<std::string> paths;
  RawCall call;
  call.issue = issue_export;
  call.take = take_exports;
  call.args = &paths;
  call.into = &paths;
  call.credential = nobody();
  Result<> done = co_await one_call(loop, mountd, "EXPORT", std::move(call));
  if (!done) co_return fail(std::move(done.error()));
  co_return std::move(paths);
}

Task<> unmount_export(Loop& loop, net::Endpoint mountd, std::string path, rpc::CredentialPtr credential) {
  RawCall call;
  call.issue = issue_umnt;
  call.args = &path;
  call.credential = std::move(credential);
  (void)co_await one_call(loop, mountd, "UMNT", std::move(call));
}

}  // namespace nfsrdma::client::nfs3
