// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/filer/raw_client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/unit/filer/valid_statuses.h"
#include "xdr/record_mark.h"

namespace nfsrdma::filer::test {

RawConnection::RawConnection(uint16_t port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) close();
}

RawConnection::~RawConnection() {
  close();
}

void RawConnection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool RawConnection::send_raw(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool RawConnection::send(ConstBytes message, size_t fragment_bytes) {
  if (fragment_bytes == 0) fragment_bytes = message.size();
  ByteVector out;
  size_t at = 0;
  do {
    const size_t n = std::min(fragment_bytes, message.size() - at);
    const auto mark = rpc::encode_record_mark({at + n == message.size(), static_cast<uint32_t>(n)});
    out.insert(out.end(), mark.begin(), mark.end());
    const ConstBytes part = message.subspan(at, n);
    out.insert(out.end(), part.begin(), part.end());
    at += n;
  } while (at < message.size());
  return send_raw(out);
}

bool RawConnection::receive_exactly(MutableBytes to, int timeout_ms) {
  while (!to.empty()) {
    pollfd p{fd_, POLLIN, 0};
    if (fd_ < 0 || ::poll(&p, 1, timeout_ms) <= 0) return false;
    const ssize_t n = ::recv(fd_, to.data(), to.size(), 0);
    if (n <= 0) return false;
    to = to.subspan(static_cast<size_t>(n));
  }
  return true;
}

std::optional<ByteVector> RawConnection::receive(int timeout_ms) {
  ByteVector message;
  for (;;) {
    std::array<std::byte, rpc::kRecordMarkBytes> bytes{};
    if (!receive_exactly(bytes, timeout_ms)) return std::nullopt;
    const rpc::RecordMark mark = rpc::decode_record_mark(bytes);
    if (mark.length > (64u << 20)) return std::nullopt;
    const size_t at = message.size();
    message.resize(at + mark.length);
    if (!receive_exactly(MutableBytes(message).subspan(at), timeout_ms)) return std::nullopt;
    if (mark.last) return message;
  }
}

bool RawConnection::ended(int timeout_ms) {
  std::byte b{};
  pollfd p{fd_, POLLIN, 0};
  if (::poll(&p, 1, timeout_ms) <= 0) return false;
  return ::recv(fd_, &b, 1, 0) <= 0;
}

// -------------------------------------------------------------------------------------------------------------------

Ops operator+(Ops a, const Ops& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

LOCK4args first_lock(stateid4 open, nfs_lock_type4 type, uint64_t offset, uint64_t length,
                     const std::string& owner) {
  LOCK4args args;
  args.locktype = type;
  args.offset = offset;
  args.length = length;
  args.locker.new_lock_owner = true;
  args.locker.stateid = open;
  args.locker.lock_owner.owner = owner;
  return args;
}

Ops path_ops(const std::string& path) {
  Ops list = ops(PUTROOTFH4args{});
  size_t at = 0;
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) list.push_back({LOOKUP4args{path.substr(at, end - at)}});
    at = end + 1;
  }
  return list;
}

std::unique_ptr<Server> start_server(nfs::Options options) {
  auto server = Server::start(std::move(options));
  if (!server) {
    ADD_FAILURE() << describe(server.error());
    return nullptr;
  }
  return std::move(*server);
}

TempDirectory::TempDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "filer.XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp: " << std::strerror(errno);
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string name_of(const ::testing::TestParamInfo<Kept>& info) {
  return info.param == Kept::kInMemory ? "InMemory" : "ByHost";
}

nfs::Options kept(Kept where, const TempDirectory& directory, nfs::Options options) {
  if (where == Kept::kInMemory) return options;
  unsigned number = 0;
  for (const std::string& path : std::exchange(options.exports, {})) {
    const std::string below = directory.path() + "/" + std::to_string(number++);
    std::filesystem::create_directory(below);
    std::filesystem::permissions(below, std::filesystem::perms(0777));
    options.directories.push_back(
        {.path = path, .directory = below, .squash = tree::Squash::kNone, .sync = false});
  }
  return options;
}

bool may_act_as_callers() {
  return geteuid() == 0;
}

RawClient::RawClient(Server& server, std::string owner_name, User who)
    : connection(std::make_unique<RawConnection>(server.port())),
      owner(std::move(owner_name)),
      user(std::move(who)),
      port_(server.port()) {
  channel_attrs4& fore = session_request.csa_fore_chan_attrs;
  fore.ca_maxrequestsize = fore.ca_maxresponsesize = 1u << 20;
  fore.ca_maxresponsesize_cached = 64u << 10;
  fore.ca_maxoperations = 32;
  fore.ca_maxrequests = 8;
  channel_attrs4& back = session_request.csa_back_chan_attrs;
  back.ca_maxrequestsize = back.ca_maxresponsesize = back.ca_maxresponsesize_cached = 4096;
  back.ca_maxoperations = 8;
  back.ca_maxrequests = 2;
  session_request.csa_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  session_request.csa_cb_program = 0x40000001;
  session_request.csa_sec_parms.push_back({});
}

void RawClient::reconnect() {
  connection = std::make_unique<RawConnection>(port_);
}

void RawClient::reconnect(Server& server) {
  port_ = server.port();
  reconnect();
}

ByteVector RawClient::encode_call(uint32_t xid, const COMPOUND4args& args) const {
  if (protection != nullptr) {
    ByteVector arguments;
    xdr::Encoder x(arguments);
    EXPECT_TRUE(x(args)) << x.failure();
    return protection->seal(xid, std::move(arguments));
  }
  const ByteVector credential = rpc::encode_authsys(
      {.stamp = 0, .machinename = "test", .uid = user.uid, .gid = user.gid, .gids = user.groups});
  rpc::call_header header;
  header.xid = rpc::Xid{xid};
  header.prog = NFS4_PROGRAM;
  header.vers = NFS_V4;
  header.proc = NFSPROC4_COMPOUND;
  header.cred = {rpc::AUTH_SYS, credential};
  ByteVector message;
  xdr::Encoder x(message);
  EXPECT_TRUE(x(header) && x(args)) << x.failure();
  return message;
}

uint32_t RawClient::send(const COMPOUND4args& args) {
  const uint32_t xid = next_xid_++;
  connection->send(encode_call(xid, args));
  return xid;
}

uint32_t RawClient::send(const Ops& list) {
  COMPOUND4args args;
  args.tag = "test";
  args.argarray = list;
  return send(args);
}

std::optional<ByteVector> RawClient::receive_message(uint32_t xid) {
  for (;;) {
    auto message = connection->receive();
    if (!message) return std::nullopt;
    const auto prefix = rpc::peek(*message);
    if (prefix && prefix->type == rpc::CALL) {
      callbacks_.push_back(std::move(*message));
    } else if (prefix && prefix->xid == rpc::Xid{xid}) {
      return message;
    } else {
      ADD_FAILURE() << "a reply to nothing";
    }
  }
}

std::optional<COMPOUND4res> RawClient::receive(uint32_t xid) {
  auto message = receive_message(xid);
  if (!message) return std::nullopt;
  if (protection != nullptr) {
    message = protection->open(xid, *std::move(message));
    EXPECT_TRUE(message) << "the reply does not verify";
    if (!message) return std::nullopt;
  }
  kept_.push_back(std::move(*message));
  xdr::Decoder x(kept_.back());
  rpc::reply_header header;
  COMPOUND4res reply;
  EXPECT_TRUE(x(header)) << x.failure();
  EXPECT_TRUE(header.success()) << rpc::name_of(rpc::status_of(header));
  if (!header.success()) return std::nullopt;
  EXPECT_TRUE(x(reply)) << x.failure();
  EXPECT_EQ(x.left(), 0u);
  if (check_statuses) {
    for (const nfs_resop4& result : reply.resarray) {
      EXPECT_TRUE(may_answer(result.opnum(), result.status()))
          << op_name(result.opnum()) << " must not answer " << nfs4::name_of(result.status())
          << " (RFC 8881 section 15.2)";
    }
  }
  return reply;
}

COMPOUND4res RawClient::call(const Ops& list) {
  const auto reply = receive(send(list));
  if (!reply) {
    ADD_FAILURE() << "no reply";
    return {NFS4ERR_SERVERFAULT, {}, {}};
  }
  return *reply;
}

SEQUENCE4args RawClient::next_sequence(uint32_t slot, bool cache) {
  SEQUENCE4args s;
  s.sa_sessionid = session;
  s.sa_sequenceid = ++sequences[slot];
  s.sa_slotid = s.sa_highest_slotid = slot;
  s.sa_cachethis = cache;
  return s;
}

COMPOUND4res RawClient::run(const Ops& list, uint32_t slot, bool cache) {
  COMPOUND4res reply = call(ops(next_sequence(slot, cache)) + list);
  if (reply.resarray.empty()) return reply;
  const auto* sequence = std::get_if<SEQUENCE4res>(&reply.resarray[0].op);
  if (sequence == nullptr || sequence->status != NFS4_OK) {
    undo_sequence(slot);
    return reply;
  }
  last_flags = sequence->resok4.sr_status_flags;
  reply.resarray.erase(reply.resarray.begin());
  return reply;
}

COMPOUND4res RawClient::run_at(const std::string& path, const Ops& list) {
  const Ops way = path_ops(path);
  COMPOUND4res reply = run(way + list);
  if (reply.resarray.size() < way.size()) {
    ADD_FAILURE() << path << ": " << name_of(reply.status);
    return reply;
  }
  reply.resarray.erase(reply.resarray.begin(), reply.resarray.begin() + static_cast<ptrdiff_t>(way.size()));
  return reply;
}

EXCHANGE_ID4res RawClient::exchange_id(uint32_t flags) {
  EXCHANGE_ID4args args;
  args.eia_clientowner = {verifier, owner};
  args.eia_flags = flags;
  const COMPOUND4res reply = call(ops(args));
  const EXCHANGE_ID4res& res = at<EXCHANGE_ID4res>(reply, 0);
  if (res.status == NFS4_OK) {
    clientid = res.resok4.eir_clientid;
    create_sequence = res.resok4.eir_sequenceid;
  }
  return res;
}

CREATE_SESSION4res RawClient::create_session() {
  session_request.csa_clientid = clientid;
  session_request.csa_sequence = create_sequence;
  const COMPOUND4res reply = call(ops(session_request));
  const CREATE_SESSION4res& res = at<CREATE_SESSION4res>(reply, 0);
  if (res.status == NFS4_OK) {
    session = res.resok4.csr_sessionid;
    session_attributes = res.resok4;
    sequences.clear();
    ++create_sequence;
  }
  return res;
}

bool RawClient::establish(bool complete) {
  if (exchange_id().status != NFS4_OK || create_session().status != NFS4_OK) return false;
  return !complete || run(ops(RECLAIM_COMPLETE4args{})).status == NFS4_OK;
}

nfs_fh4 RawClient::handle_of(const std::string& path) {
  const COMPOUND4res reply = run_at(path, ops(GETFH4args{}));
  return at<GETFH4res>(reply, 0).resok4.object;
}

fattr4 RawClient::attributes(const std::string& path, const bitmap4& wanted) {
  const COMPOUND4res reply = run_at(path, ops(GETATTR4args{wanted}));
  EXPECT_EQ(reply.status, NFS4_OK);
  return at<GETATTR4res>(reply, 0).resok4.obj_attributes;
}

OPEN4args RawClient::open_args(const std::string& name, uint32_t access, uint32_t deny,
                               const std::string& open_owner) {
  OPEN4args args;
  args.share_access = access;
  args.share_deny = deny;
  args.owner = {0, open_owner};
  args.claim.file = name;
  return args;
}

stateid4 RawClient::open(const std::string& path, uint32_t access, uint32_t deny,
                         const std::string& open_owner) {
  const size_t slash = path.rfind('/');
  const COMPOUND4res reply =
      run_at(path.substr(0, slash), ops(open_args(path.substr(slash + 1), access, deny, open_owner)));
  EXPECT_EQ(reply.status, NFS4_OK) << path << ": " << name_of(reply.status);
  return at<OPEN4res>(reply, 0).resok4.stateid;
}

std::string RawClient::read(const std::string& path, stateid4 stateid, uint64_t offset, uint32_t count) {
  const COMPOUND4res reply = run_at(path, ops(READ4args{stateid, offset, count}));
  EXPECT_EQ(reply.status, NFS4_OK) << path << ": " << name_of(reply.status);
  return std::string(as_string_view(at<READ4res>(reply, 0).resok4.data));
}

WRITE4res RawClient::write(const std::string& path, stateid4 stateid, uint64_t offset,
                           const std::string& data, stable_how4 stable) {
  WRITE4args args;
  args.stateid = stateid;
  args.offset = offset;
  args.stable = stable;
  args.data = as_const_bytes(data);
  const COMPOUND4res reply = run_at(path, ops(args));
  return at<WRITE4res>(reply, 0);
}

std::optional<CB_COMPOUND4args> RawClient::serve_callback(nfsstat4 status, int timeout_ms) {
  ByteVector message;
  if (!callbacks_.empty()) {
    message = std::move(callbacks_.front());
    callbacks_.pop_front();
  } else {
    auto received = connection->receive(timeout_ms);
    if (!received) return std::nullopt;
    message = std::move(*received);
  }
  xdr::Decoder x(message);
  rpc::call_header header;
  CB_COMPOUND4args args;
  if (!x(header) || !x(args)) {
    ADD_FAILURE() << "not a callback: " << x.failure();
    return std::nullopt;
  }
  EXPECT_EQ(header.prog, session_request.csa_cb_program);
  CB_COMPOUND4res res;
  res.status = status;
  for (const nfs_cb_argop4& op : args.argarray) {
    if (const auto* s = std::get_if<CB_SEQUENCE4args>(&op.op)) {
      CB_SEQUENCE4res r;
      r.resok4 = {s->csa_sessionid, s->csa_sequenceid, s->csa_slotid, 1, 1};
      res.resarray.push_back({r});
    } else if (std::holds_alternative<CB_RECALL4args>(op.op)) {
      res.resarray.push_back({CB_RECALL4res{status}});
    } else if (std::holds_alternative<CB_GETATTR4args>(op.op) && delegated) {
      res.resarray.push_back({CB_GETATTR4res{NFS4_OK, {*delegated}}});
    } else if (std::holds_alternative<CB_RECALL_SLOT4args>(op.op)) {
      res.resarray.push_back({CB_RECALL_SLOT4res{status}});
    } else if (std::holds_alternative<CB_RECALL_ANY4args>(op.op)) {
      res.resarray.push_back({CB_RECALL_ANY4res{status}});
    } else if (std::holds_alternative<CB_NOTIFY_LOCK4args>(op.op)) {
      res.resarray.push_back({CB_NOTIFY_LOCK4res{status}});
    } else {
      res.status = NFS4ERR_OP_ILLEGAL;
      res.resarray.push_back({CB_ILLEGAL4res{}});
    }
  }
  rpc::reply_header reply;
  reply.xid = header.xid;
  ByteVector out;
  xdr::Encoder e(out);
  EXPECT_TRUE(e(reply) && e(res));
  connection->send(out);
  return args;
}

}  // namespace nfsrdma::filer::test
