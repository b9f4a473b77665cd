// SPDX-License-Identifier: Apache-2.0
#include "bare_fs.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace {

using namespace nfsrdma::nfs4;
using bare::fail;
using bare::Reply;
using bare::Request;
using bare::Results;
using bare::Session;
using bare::take;
using nfsrdma::ByteVector;
using nfsrdma::ConstBytes;
using nfsrdma::store_be32;
using nfsrdma::xdr::Decoder;

constexpr uint32_t kSmallBytes = 4096;
constexpr size_t kStateidBytes = 16;
constexpr bitmap4 kEntry = bitmap4::of({FATTR4_TYPE, FATTR4_SIZE});
constexpr uint32_t kEntryWord = 1u << FATTR4_TYPE | 1u << FATTR4_SIZE;
constexpr size_t kReadHead = 8 + 16;  // PUTFH's result, and READ's result up to the data

// With duties, the daemon's values: files closed in one COMPOUND, and bytes kept before it sends COMMIT.
constexpr size_t kClosesAtOnce = 16;
constexpr size_t kCommitAt = 32u << 20;

void put64(std::byte* to, uint64_t v) {
  store_be32(to, static_cast<uint32_t>(v >> 32));
  store_be32(to + 4, static_cast<uint32_t>(v));
}

void add(ByteVector& to, uint32_t word) {
  to.resize(to.size() + 4);
  store_be32(to.data() + to.size() - 4, word);
}
void add(ByteVector& to, ConstBytes opaque) {
  to.insert(to.end(), opaque.begin(), opaque.end());
  to.resize(to.size() + nfsrdma::xdr_padding(opaque.size()));
}

OPEN4args open_args() {
  OPEN4args args;
  args.share_access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  args.owner.owner = "barefs";
  return args;
}

// The stateid in an OPEN's result.
stateid4 open_result(Results& x) {
  stateid4 stateid;
  stateid.seqid = x.word();
  std::ranges::copy(x.bytes(stateid.other.size()), stateid.other.begin());
  x.bytes(4 + 8 + 8 + 4);  // change_info4, rflags
  x.bytes(4 * x.word());   // attrset
  const uint32_t delegation = x.word();
  if (delegation == OPEN_DELEGATE_NONE) return stateid;
  if (delegation != OPEN_DELEGATE_NONE_EXT) fail("a delegation that was not asked for");
  const uint32_t why = x.word();
  if (why == WND4_CONTENTION || why == WND4_RESOURCE) x.word();
  return stateid;
}

// The length of a READ's data. Skips the fields between the status and the data.
size_t read_length(Results& x, size_t asked) {
  const bool eof = x.word() != 0;
  const uint32_t length = x.word();
  if (length > asked) fail("READ answered more than was asked for");
  if (length < asked && !eof) fail("a READ of a part");
  return length;
}

}  // namespace

BareFs::BareFs(const std::string& host, uint16_t port, const std::string& path, uint32_t largest, bool small,
               bool dutiful)
    : max_io(largest),
      duties(dutiful),
      session_(host, port, largest),
      small_(small),
      pending_(Session::kSlots) {
  files_.resize(FUSE_ROOT_ID + 1);
  files_[FUSE_ROOT_ID].directory = true;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) walk(path.substr(at, end - at));
    at = end + 1;
  }
  prepare();
  session_.meanwhile = [this] { wait(); };
}

BareFs::~BareFs() {
  for (const std::vector<void*>* all : {&kept_, &under_commit_, &free_memory_}) {
    for (void* memory : *all) std::free(memory);
  }
}

void BareFs::walk(const std::string& name) {
  nfs_fh4& at = files_[FUSE_ROOT_ID].handle;
  const bool below = !at.empty();
  Decoder x(below ? session_.call(PUTFH4args{at}, LOOKUP4args{name}, GETFH4args{})
                  : session_.call(PUTROOTFH4args{}, LOOKUP4args{name}, GETFH4args{}));
  below ? (void)take<PUTFH4res>(x) : (void)take<PUTROOTFH4res>(x);
  take<LOOKUP4res>(x);
  at = take<GETFH4res>(x).resok4.object;
}

void BareFs::prepare() {
  const PUTFH4args directory{files_[FUSE_ROOT_ID].handle};
  const GETATTR4args attributes{kEntry};
  if (small_) {
    const READ4args content{duties ? kCurrentStateid : stateid4{}, 0, kSmallBytes};
    lookup_ =
        duties ? session_.compound(directory, open_args()) : session_.compound(directory, LOOKUP4args{});
    Session::follow(lookup_, GETFH4args{}, attributes, content);
  } else {
    lookup_ = session_.compound(directory, LOOKUP4args{});
    Session::follow(lookup_, GETFH4args{}, attributes);
  }
  OPEN4args args = open_args();
  args.openhow.opentype = OPEN4_CREATE;
  args.openhow.how.createattrs.attrmask = bitmap4::of({FATTR4_MODE});
  args.openhow.how.createattrs.mode = 0644;
  create_ = session_.compound(directory, args);
  Session::follow(create_, GETFH4args{}, attributes);
  close_ = session_.compound();
}

// ---------------------------------------------------------------------------------------------------------
// Requests.

struct stat BareFs::attributes(fuse_ino_t ino) const {
  struct stat st {};
  st.st_ino = ino;
  st.st_nlink = 1;
  st.st_mode = files_[ino].directory ? S_IFDIR | 0777 : S_IFREG | 0666;
  st.st_size = static_cast<off_t>(files_[ino].size);
  st.st_blksize = 4096;
  return st;
}

void BareFs::lookup(fuse_req_t req, const char* name) {
  Name& asked = *names_.try_emplace(name, 0).first;
  if (small_ && duties && asked.second != 0) quiet();  // the lookup will be an OPEN
  store_be32(lookup_.bytes.data() + lookup_.bytes.size() - 4, static_cast<uint32_t>(asked.first.size()));
  start({.kind = Kind::kLookup, .req = req, .name = &asked}, lookup_, nfsrdma::as_const_bytes(asked.first));
}

void BareFs::create(fuse_req_t req, const char* name) {
  Name& asked = *names_.try_emplace(name, 0).first;
  if (asked.second != 0) quiet();  // its CLOSE may be in progress and would close the new open, too
  store_be32(create_.bytes.data() + create_.bytes.size() - 4, static_cast<uint32_t>(asked.first.size()));
  start({.kind = Kind::kCreate, .req = req, .name = &asked}, create_, nfsrdma::as_const_bytes(asked.first));
}

void BareFs::open(fuse_ino_t ino) {
  File& file = files_[ino];
  if ((small_ && !duties) || file.opens != 0 || file.open != stateid4{}) {
    ++file.opens;
    return;
  }
  OPEN4args args = open_args();
  args.claim.claim = CLAIM_FH;
  quiet();
  Results x(session_.call(PUTFH4args{file.handle}, args));
  x.ok(OP_PUTFH);
  x.ok(OP_OPEN);
  opened(file, open_result(x));
  ++file.opens;
}

void BareFs::opened(File& file, const stateid4& stateid) {
  file.open = {.seqid = 0, .other = stateid.other};  // seqid 0: the current one, whatever it is
  file.read = file.write = {};
}

void BareFs::close(fuse_ino_t ino) {
  File& file = files_[ino];
  if (--file.opens != 0 || file.open == stateid4{}) return;
  ByteVector& bytes = close_.bytes;
  add(bytes, OP_PUTFH);
  add(bytes, static_cast<uint32_t>(file.handle.size()));
  add(bytes, file.handle.bytes());
  add(bytes, OP_CLOSE);
  add(bytes, uint32_t{0});  // seqid: for NFSv4.0 only
  add(bytes, file.open.seqid);
  add(bytes, ConstBytes(file.open.other));
  Session::add_operations(close_, 2);
  file.open = {};
  file.read = file.write = {};
  if (++closes_ == (duties ? kClosesAtOnce : 1)) send_closes();
}

void BareFs::send_closes() {
  if (closes_ == 0) return;
  start({.kind = Kind::kClose, .size = closes_}, close_);
  close_ = session_.compound();
  closes_ = 0;
}

void BareFs::resize(fuse_ino_t ino, uint64_t size) {
  File& file = files_[ino];
  SETATTR4args args{.stateid = file.open};
  args.obj_attributes.attrmask = bitmap4::of({FATTR4_SIZE});
  args.obj_attributes.size = size;
  quiet();
  Decoder x(session_.call(PUTFH4args{file.handle}, args));
  take<PUTFH4res>(x);
  take<SETATTR4res>(x);
  file.size = size;
  file.brought = false;
}

// The file's `request`; it is encoded at its first use after the open.
template <class Args>
Request& BareFs::at_hand(Request& request, const File& file) const {
  if (request.bytes.empty()) request = session_.compound(PUTFH4args{file.handle}, Args{.stateid = file.open});
  return request;
}

void BareFs::read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset) {
  File& file = files_[ino];
  if (file.brought) {
    const size_t from = std::min(static_cast<size_t>(offset), file.content.size());
    const size_t found = std::min(size, file.content.size() - from);
    fuse_reply_buf(req, reinterpret_cast<const char*>(file.content.data()) + from, found);
    return;
  }
  while (file.writing != 0) wait();  // otherwise the READ overtakes the WRITEs
  Request& request = at_hand<READ4args>(file.read, file);
  std::byte* words = request.bytes.data() + request.bytes.size() - 12;
  put64(words, static_cast<uint64_t>(offset));
  store_be32(words + 8, static_cast<uint32_t>(size));
  if (size >= kMinSplicedBytes) ++large_;
  start({.kind = Kind::kRead, .req = req, .unique = unique, .size = size}, request);
}

void BareFs::write(fuse_req_t req, fuse_ino_t ino, ConstBytes data, off_t offset, bool direct) {
  File& file = files_[ino];
  Request& request = at_hand<WRITE4args>(file.write, file);
  std::byte* words = request.bytes.data() + request.bytes.size() - 16;
  put64(words, static_cast<uint64_t>(offset));
  store_be32(words + 8, direct ? FILE_SYNC4 : UNSTABLE4);
  store_be32(words + 12, static_cast<uint32_t>(data.size()));
  if (!direct) fuse_reply_write(req, data.size());
  ++file.writing;
  file.brought = false;
  file.size = std::max(file.size, static_cast<uint64_t>(offset) + data.size());
  const Kind kind = direct ? Kind::kWrite : Kind::kWriteBehind;
  Pending pending{.kind = kind, .req = req, .size = data.size(), .file = &file};
  if (duties && !direct) keep_until_commit(pending);
  start(pending, request, data);
}

// Keeps the buffer of the request that is being handled. The next request gets a buffer whose data is
// committed.
void BareFs::keep_until_commit(Pending& pending) {
  if (kept_.size() * max_io >= kCommitAt && under_commit_.empty()) {
    under_commit_.swap(kept_);
    Request commit = session_.compound(PUTFH4args{pending.file->handle}, COMMIT4args{0, 0});
    start({.kind = Kind::kCommitBehind}, commit);
  }
  pending.kept = std::exchange(handled.mem, nullptr);
  if (free_memory_.empty()) return;
  handled.mem = free_memory_.back();
  free_memory_.pop_back();
}

void BareFs::settle(fuse_req_t req, fuse_ino_t ino) {
  File& file = files_[ino];
  while (file.writing != 0 || !under_commit_.empty()) wait();
  if (!std::exchange(file.unstable, false)) {
    fuse_reply_err(req, 0);
    return;
  }
  under_commit_.swap(kept_);
  Request request = session_.compound(PUTFH4args{file.handle}, COMMIT4args{0, 0});
  start({.kind = Kind::kCommit, .req = req}, request);
}

void BareFs::start(const Pending& pending, Request& request, ConstBytes data) {
  while (session_.full()) wait();
  ++under_way_;
  const uint32_t slot = session_.send(request, data);
  pending_[slot] = pending;
}

void BareFs::wait() {
  if (!answer()) fail("the server is gone");
}

// Waits until every request has its reply.
void BareFs::quiet() {
  send_closes();
  while (under_way_ != 0) wait();
}

void BareFs::idle() {
  quiet();
  session_.call();
}

// ---------------------------------------------------------------------------------------------------------
// Replies.

bool BareFs::answer() {
  do {
    std::optional<Reply> reply = large_ != 0 ? session_.next_head(kReadHead) : session_.next();
    if (!reply) return false;
    --under_way_;
    const Pending pending = std::exchange(pending_[reply->slot], {});
    if (pending.kind == Kind::kRead && pending.size >= kMinSplicedBytes) {
      --large_;
      if (reply->left >= kMinSplicedBytes) {
        if (!finish_large_read(pending, *reply)) return false;
        continue;
      }
    }
    session_.complete(*reply);
    finish(pending, Results(reply->results));
  } while (session_.has_received());
  return true;
}

bool BareFs::finish_large_read(const Pending& pending, Reply reply) {
  Results x(reply.results);
  x.ok(OP_PUTFH);
  x.ok(OP_READ);
  const size_t length = read_length(x, pending.size);
  if (length > reply.left || x.left() != 0) fail("a READ's reply that makes no sense");
  if (!piped_.begin(pending.unique, length) || !piped_.add(session_.socket(), length) ||
      !piped_.end(fuse, pending.req))
    return false;
  session_.discard(reply.left - length);
  return true;
}

void BareFs::finish(const Pending& pending, Results x) {
  x.ok(OP_PUTFH);
  switch (pending.kind) {
    case Kind::kRead: return finish_read(pending, x);
    case Kind::kLookup: return finish_lookup(pending, x);
    case Kind::kCreate: return finish_create(pending, x);
    case Kind::kWrite:
    case Kind::kWriteBehind: return finish_write(pending, x);
    case Kind::kClose: return finish_closes(pending, x);
    case Kind::kCommit:
    case Kind::kCommitBehind: return finish_commit(pending, x);
    case Kind::kNothing: fail("a reply to nothing");
  }
}

void BareFs::finish_read(const Pending& pending, Results& x) {
  x.ok(OP_READ);
  const ConstBytes data = x.bytes(read_length(x, pending.size));
  fuse_reply_buf(pending.req, reinterpret_cast<const char*>(data.data()), data.size());
}

void BareFs::finish_write(const Pending& pending, Results& x) {
  x.ok(OP_WRITE);
  if (x.word() != pending.size) fail("a WRITE of a part");
  if (x.word() != FILE_SYNC4) pending.file->unstable = true;
  --pending.file->writing;
  if (pending.kept != nullptr) kept_.push_back(pending.kept);
  if (pending.kind == Kind::kWrite) fuse_reply_write(pending.req, pending.size);
}

void BareFs::finish_commit(const Pending& pending, Results& x) {
  x.ok(OP_COMMIT);
  free_memory_.insert(free_memory_.end(), under_commit_.begin(), under_commit_.end());
  under_commit_.clear();
  if (pending.kind == Kind::kCommit) fuse_reply_err(pending.req, 0);
}

void BareFs::finish_closes(const Pending& pending, Results& x) {
  for (size_t i = 0; i < pending.size; ++i) {
    if (i != 0) x.ok(OP_PUTFH);
    x.ok(OP_CLOSE);
    x.bytes(kStateidBytes);
  }
}

fuse_entry_param BareFs::entry(Name& name, Results& x) {
  x.ok(OP_GETFH);
  const nfs_fh4 handle(x.opaque());
  if (name.second == 0 || files_[name.second].handle != handle) {
    name.second = files_.size();
    files_.emplace_back().handle = handle;
  }
  File& file = files_[name.second];
  x.ok(OP_GETATTR);
  if (x.word() != 1 || x.word() != kEntryWord) fail("other attributes than were asked for");
  x.word();  // the length of the attributes
  file.directory = x.word() == NF4DIR;
  const uint64_t size = x.long_word();
  file.size = file.writing == 0 ? size : std::max(size, file.size);
  fuse_entry_param e{};
  e.ino = name.second;
  e.attr = attributes(e.ino);
  e.attr_timeout = e.entry_timeout = kValidSeconds;
  return e;
}

void BareFs::finish_lookup(const Pending& pending, Results& x) {
  const bool opens = small_ && duties;
  const nfsstat4 status = x.status(opens ? OP_OPEN : OP_LOOKUP);
  if (status == NFS4ERR_NOENT) {
    fuse_reply_err(pending.req, ENOENT);
    return;
  }
  if (status != NFS4_OK) fail(opens ? OP_OPEN : OP_LOOKUP, status);
  const stateid4 stateid = opens ? open_result(x) : stateid4{};
  const fuse_entry_param e = entry(*pending.name, x);
  if (opens) opened(files_[e.ino], stateid);
  if (File& file = files_[e.ino]; small_ && !file.directory) {
    x.ok(OP_READ);
    x.word();  // eof
    const ConstBytes data = x.opaque();
    file.content.assign(data.begin(), data.end());
    file.brought = data.size() == file.size;
  }
  fuse_reply_entry(pending.req, &e);
}

void BareFs::finish_create(const Pending& pending, Results& x) {
  x.ok(OP_OPEN);
  const stateid4 stateid = open_result(x);
  const fuse_entry_param e = entry(*pending.name, x);
  opened(files_[e.ino], stateid);
  ++files_[e.ino].opens;
  fuse_file_info info{};
  fuse_reply_create(pending.req, &e, &info);
}
