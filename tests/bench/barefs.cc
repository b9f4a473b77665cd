// barefs: a plain NFSv4.1 client behind FUSE, to be measured beside a mount of the same server. One RPC for a
// name, a READ, a WRITE; READ and WRITE are encoded once, a READ's reply is looked at where it lies and its
// data spliced from 64 KiB on. No cache of data, no recovery, no locks, no delegations, no back channel, no
// permissions. For the benchmark's loads only: docs/STATUS.md says what it cannot do.
//
// usage: barefs --server HOST --port N --path /EXPORT[/DIR] [--io BYTES] [--small] MOUNTPOINT
//
// Files of the one directory are there, by name. WRITEs are answered before the server has answered, unless
// the file was opened with O_DIRECT; a flush or fsync waits for them and for COMMIT. --small: a name is asked
// for together with the file's first 4096 bytes, and opening and reading it ask nothing more.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>

#include "bare_session.h"
#include "ceiling.h"

namespace {

using namespace nfsrdma::nfs4;
using bare::Answer;
using bare::Request;
using bare::Session;
using bare::take;
using nfsrdma::ByteVector;
using nfsrdma::ConstBytes;
using nfsrdma::store_be32;
using nfsrdma::xdr::Decoder;

constexpr double kValidSeconds = 3.0;
constexpr uint32_t kSmallBytes = 4096;
constexpr bitmap4 kEntry = bitmap4::of({FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEID, FATTR4_MODE});
constexpr size_t kReadHead = 8 + 16;  // PUTFH's result, and READ's before its data

enum class Kind { kNothing, kLookup, kCreate, kRead, kWrite, kWriteBehind, kClose };

struct Pending {
  Kind kind = Kind::kNothing;
  fuse_req_t req = nullptr;
  uint64_t unique = 0;
  size_t size = 0;
  std::string name{};
};

struct File {
  nfs_fh4 handle{};
  uint64_t size = 0;
  bool directory = false;
  stateid4 open{};
  Request read{}, write{};  // with the last words open: offset and count; offset, stability and length
  ByteVector first{};       // --small: the first bytes
};

void put64(std::byte* to, uint64_t v) {
  store_be32(to, static_cast<uint32_t>(v >> 32));
  store_be32(to + 4, static_cast<uint32_t>(v));
}

class BareFs final : public FarEnd {
 public:
  BareFs(const std::string& host, uint16_t port, const std::string& path, uint32_t largest, bool small)
      : max_io(largest), session_(host, port), small_(small), pending_(Session::kSlots) {
    files_.resize(FUSE_ROOT_ID + 1);
    files_[FUSE_ROOT_ID].directory = true;
    for (size_t at = 0; at < path.size();) {
      const size_t end = std::min(path.find('/', at), path.size());
      if (end > at) walk(path.substr(at, end - at));
      at = end + 1;
    }
  }

  const uint32_t max_io;  // bytes of the largest READ and WRITE

  int socket() const override { return session_.socket(); }
  void idle() override {
    quiet();
    session_.call();
  }

  bool answer() override {
    if (large_ != 0) {
      const auto [slot, left] = session_.head();
      return finish_head(slot, left);
    }
    do {
      const std::optional<Answer> next = session_.next();
      if (!next) return false;
      finish(next->slot, next->results);
    } while (session_.has_received());
    return true;
  }

  struct stat attributes(fuse_ino_t ino) const {
    struct stat st {};
    st.st_ino = ino;
    st.st_nlink = 1;
    st.st_mode = files_[ino].directory ? S_IFDIR | 0777 : S_IFREG | 0666;
    st.st_size = static_cast<off_t>(files_[ino].size);
    st.st_blksize = 4096;
    return st;
  }

  void lookup(fuse_req_t req, const char* name) {
    const PUTFH4args put{files_[FUSE_ROOT_ID].handle};
    const LOOKUP4args args{name};
    const GETATTR4args get{kEntry};
    Request request = small_ ? session_.compound(put, args, GETFH4args{}, get, READ4args{{}, 0, kSmallBytes})
                             : session_.compound(put, args, GETFH4args{}, get);
    start({Kind::kLookup, req, unique, 0, name}, request);
  }

  void create(fuse_req_t req, const char* name) {
    OPEN4args args = open_args();
    args.openhow.opentype = OPEN4_CREATE;
    args.openhow.how.createattrs.attrmask = bitmap4::of({FATTR4_MODE});
    args.openhow.how.createattrs.mode = 0644;
    args.claim.file = name;
    const GETATTR4args get{kEntry};
    Request request = session_.compound(PUTFH4args{files_[FUSE_ROOT_ID].handle}, args, GETFH4args{}, get);
    start({Kind::kCreate, req, unique, 0, name}, request);
  }

  void open(fuse_ino_t ino) {
    File& file = files_[ino];
    OPEN4args args = open_args();
    args.claim.claim = CLAIM_FH;
    quiet();
    Decoder x(session_.call(PUTFH4args{file.handle}, args));
    take<PUTFH4res>(x);
    opened(file, take<OPEN4res>(x).resok4.stateid);
  }

  void close(fuse_ino_t ino) {
    const File& file = files_[ino];
    if (file.open == stateid4{}) return;
    Request request = session_.compound(PUTFH4args{file.handle}, CLOSE4args{.open_stateid = file.open});
    start({Kind::kClose}, request);
  }

  void read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset) {
    File& file = files_[ino];
    if (small_) {
      const size_t from = std::min(static_cast<size_t>(offset), file.first.size());
      const size_t found = std::min(size, file.first.size() - from);
      fuse_reply_buf(req, reinterpret_cast<const char*>(file.first.data()) + from, found);
      return;
    }
    Request& request = at_hand<READ4args>(file.read, file);
    std::byte* words = request.bytes.data() + request.bytes.size() - 12;
    put64(words, static_cast<uint64_t>(offset));
    store_be32(words + 8, static_cast<uint32_t>(size));
    if (size >= kMinSplicedBytes) ++large_;
    start({Kind::kRead, req, unique, size}, request);
  }

  void write(fuse_req_t req, fuse_ino_t ino, ConstBytes data, off_t offset, bool direct) {
    File& file = files_[ino];
    Request& request = at_hand<WRITE4args>(file.write, file);
    std::byte* words = request.bytes.data() + request.bytes.size() - 16;
    put64(words, static_cast<uint64_t>(offset));
    store_be32(words + 8, direct ? FILE_SYNC4 : UNSTABLE4);
    store_be32(words + 12, static_cast<uint32_t>(data.size()));
    if (!direct) fuse_reply_write(req, data.size());
    start({direct ? Kind::kWrite : Kind::kWriteBehind, req, unique, data.size()}, request, data);
    file.size = std::max(file.size, static_cast<uint64_t>(offset) + data.size());
    if (!direct) unstable_ = true;
  }

  void settle(fuse_ino_t ino) {
    if (!std::exchange(unstable_, false)) return;
    quiet();
    Decoder x(session_.call(PUTFH4args{files_[ino].handle}, COMMIT4args{0, 0}));
    take<PUTFH4res>(x);
    take<COMMIT4res>(x);
  }

 private:
  static OPEN4args open_args() {
    OPEN4args args;
    args.share_access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    args.owner.owner = "barefs";
    return args;
  }

  static void opened(File& file, const stateid4& stateid) {
    file.open = stateid;
    file.read = file.write = {};
  }

  // The file's `request`, made with its first use since the file was opened.
  template <class Args>
  Request& at_hand(Request& request, const File& file) const {
    if (request.bytes.empty())
      request = session_.compound(PUTFH4args{file.handle}, Args{.stateid = file.open});
    return request;
  }

  void walk(const std::string& name) {
    nfs_fh4& at = files_[FUSE_ROOT_ID].handle;
    const bool below = !at.empty();
    Decoder x(below ? session_.call(PUTFH4args{at}, LOOKUP4args{name}, GETFH4args{})
                    : session_.call(PUTROOTFH4args{}, LOOKUP4args{name}, GETFH4args{}));
    below ? (void)take<PUTFH4res>(x) : (void)take<PUTROOTFH4res>(x);
    take<LOOKUP4res>(x);
    at = take<GETFH4res>(x).resok4.object;
  }

  void start(Pending pending, Request& request, ConstBytes data = {}) {
    while (session_.full()) wait();
    ++under_way_;
    pending_[session_.send(request, data)] = std::move(pending);
  }

  void wait() {
    if (!answer()) bare::fail("the server is gone");
  }
  // Waits until nothing is under way.
  void quiet() {
    while (under_way_ != 0) wait();
  }

  // What head() began.
  bool finish_head(uint32_t slot, size_t left) {
    Pending& pending = pending_[slot];
    if (pending.kind != Kind::kRead || pending.size < kMinSplicedBytes) {
      finish(slot, session_.rest(left));
      return true;
    }
    std::byte head[kReadHead];
    session_.receive(head, sizeof(head));
    if (nfsrdma::load_be32(head + 12) != NFS4_OK) bare::fail("READ failed");
    const uint32_t length = nfsrdma::load_be32(head + 20);
    if (length > pending.size) bare::fail("READ answered more than was asked for");
    const bool done = piped_.begin(pending.unique, length) && piped_.add(session_.socket(), length) &&
                      piped_.end(fuse, pending.req);
    const size_t padding = left - kReadHead - length;
    if (padding != 0) session_.rest(padding);
    --large_;
    --under_way_;
    return done;
  }

  void finish(uint32_t slot, ConstBytes results) {
    Pending& pending = pending_[slot];
    --under_way_;
    Decoder x(results);
    if (pending.kind != Kind::kRead) take<PUTFH4res>(x);
    switch (pending.kind) {
      case Kind::kRead: return finish_read(pending, results);
      case Kind::kLookup: return finish_lookup(pending, x);
      case Kind::kCreate: return finish_create(pending, x);
      case Kind::kClose: take<CLOSE4res>(x); return;
      case Kind::kWrite:
      case Kind::kWriteBehind: {
        if (take<WRITE4res>(x).resok4.count != pending.size) bare::fail("a WRITE of a part");
        if (pending.kind == Kind::kWrite) fuse_reply_write(pending.req, pending.size);
        return;
      }
      case Kind::kNothing: bare::fail("a reply to nothing");
    }
  }

  static void finish_read(const Pending& pending, ConstBytes results) {
    if (results.size() < kReadHead || nfsrdma::load_be32(results.data() + 12) != NFS4_OK)
      bare::fail("READ failed");
    const uint32_t length = nfsrdma::load_be32(results.data() + 20);
    if (length > pending.size || length > results.size() - kReadHead)
      bare::fail("READ answered more than was asked for");
    fuse_reply_buf(pending.req, reinterpret_cast<const char*>(results.data()) + kReadHead, length);
  }

  fuse_entry_param entry(const std::string& name, Decoder& x) {
    const auto [place, fresh] = names_.try_emplace(name, files_.size());
    if (fresh) files_.emplace_back();
    File& file = files_[place->second];
    file.handle = take<GETFH4res>(x).resok4.object;
    const fattr4 attributes = take<GETATTR4res>(x).resok4.obj_attributes;
    file.size = attributes.size;
    file.directory = attributes.type == NF4DIR;
    fuse_entry_param e{};
    e.ino = place->second;
    e.attr = this->attributes(e.ino);
    e.attr_timeout = e.entry_timeout = kValidSeconds;
    return e;
  }

  void finish_lookup(const Pending& pending, Decoder& x) {
    if (take<LOOKUP4res>(x, NFS4ERR_NOENT).status != NFS4_OK) {
      fuse_reply_err(pending.req, ENOENT);
      return;
    }
    const fuse_entry_param e = entry(pending.name, x);
    if (small_) {
      const ConstBytes data = take<READ4res>(x).resok4.data;
      files_[e.ino].first.assign(data.begin(), data.end());
    }
    fuse_reply_entry(pending.req, &e);
  }

  void finish_create(const Pending& pending, Decoder& x) {
    const stateid4 stateid = take<OPEN4res>(x).resok4.stateid;
    const fuse_entry_param e = entry(pending.name, x);
    opened(files_[e.ino], stateid);
    fuse_file_info info{};
    fuse_reply_create(pending.req, &e, &info);
  }

  Session session_;
  bool small_;
  PipedReply piped_;
  std::vector<Pending> pending_;  // by slot
  std::deque<File> files_;        // by inode number
  std::unordered_map<std::string, fuse_ino_t> names_;
  unsigned under_way_ = 0;
  unsigned large_ = 0;     // READs among them whose data is spliced
  bool unstable_ = false;  // WRITEs since the last COMMIT
};

// ---------------------------------------------------------------------------------------------------------

BareFs& of(fuse_req_t req) {
  return *static_cast<BareFs*>(fuse_req_userdata(req));
}

fuse_lowlevel_ops operations(bool small) {
  fuse_lowlevel_ops ops{};
  ops.init = [](void* fs, fuse_conn_info* conn) { negotiate(conn, static_cast<BareFs*>(fs)->max_io); };
  ops.lookup = [](fuse_req_t req, fuse_ino_t, const char* name) { of(req).lookup(req, name); };
  ops.getattr = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
    const struct stat st = of(req).attributes(ino);
    fuse_reply_attr(req, &st, kValidSeconds);
  };
  ops.setattr = [](fuse_req_t req, fuse_ino_t ino, struct stat*, int, fuse_file_info*) {
    const struct stat st = of(req).attributes(ino);
    fuse_reply_attr(req, &st, kValidSeconds);
  };
  if (small) {
    ops.open = [](fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
      spare_flush(info);
      fuse_reply_open(req, info);
    };
  } else {
    ops.open = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
      of(req).open(ino);
      info->keep_cache = true;
      spare_flush(info);
      fuse_reply_open(req, info);
    };
  }
  ops.create = [](fuse_req_t req, fuse_ino_t, const char* name, mode_t, fuse_file_info*) {
    of(req).create(req, name);
  };
  ops.read = [](fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
    of(req).read(req, ino, size, offset);
  };
  ops.write = [](fuse_req_t req, fuse_ino_t ino, const char* data, size_t size, off_t offset,
                 fuse_file_info* info) {
    of(req).write(req, ino, {reinterpret_cast<const std::byte*>(data), size}, offset,
                  (info->flags & O_DIRECT) != 0);
  };
  ops.flush = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
    of(req).settle(ino);
    fuse_reply_err(req, 0);
  };
  ops.fsync = [](fuse_req_t req, fuse_ino_t ino, int, fuse_file_info*) {
    of(req).settle(ino);
    fuse_reply_err(req, 0);
  };
  ops.release = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
    BareFs& fs = of(req);
    fuse_reply_err(req, 0);  // and `req` is gone
    fs.close(ino);
  };
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  std::string host, path;
  const char* mountpoint = nullptr;
  unsigned long port = 2049, max_io = 512 << 10;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--small") {
      small = true;
    } else if (arg == "--server" && i + 1 < argc) {
      host = argv[++i];
    } else if (arg == "--port" && i + 1 < argc) {
      port = std::strtoul(argv[++i], nullptr, 10);
    } else if (arg == "--path" && i + 1 < argc) {
      path = argv[++i];
    } else if (arg == "--io" && i + 1 < argc) {
      max_io = std::strtoul(argv[++i], nullptr, 10);
    } else {
      mountpoint = argv[i];
    }
  }
  if (mountpoint == nullptr || host.empty() || path.empty()) {
    std::fprintf(stderr,
                 "usage: barefs --server HOST --port N --path PATH [--io BYTES] [--small] MOUNTPOINT\n");
    return 2;
  }
  BareFs fs(host, static_cast<uint16_t>(port), path, static_cast<uint32_t>(max_io), small);
  const std::string options = "fsname=barefs,subtype=barefs,max_read=" + std::to_string(max_io);
  return serve(operations(small), &fs, &fs, options.c_str(), mountpoint);
}
