// SPDX-License-Identifier: Apache-2.0
// nullfs: a FUSE file system that does nothing, as fast as FUSE permits. It is the ceiling for any daemon
// behind /dev/fuse.
//
// usage: nullfs [--size BYTES] [--files N] [--direct] [--relay [--framed]] MOUNTPOINT
//
// Reads are answered from one constant buffer; the data of writes is dropped. The root holds `data` with the
// given size and N (default 0) files f0, f1, ... of 4096 bytes. Files may be created and are remembered by
// name. One thread reads /dev/fuse, as in the daemon. Entries and attributes are valid for 3 s, as nfs(5)'s
// acregmin. The kernel may keep data over an open, as it may for an unchanged file of a mount. Runs in the
// foreground until it is unmounted. With --relay the data of READs and WRITEs crosses a TCP connection to a
// process that does nothing else (relay.h); with --framed that of READs comes in MPA's frames.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay.h"

namespace {

constexpr uint32_t kMaxIo = 1 << 20;
constexpr fuse_ino_t kData = 2;
constexpr fuse_ino_t kFirstFile = 3;
constexpr off_t kSmallFileBytes = 4096;

struct NullFs {
  off_t size = 0;
  bool direct = false;
  std::unique_ptr<Relay> relay;
  std::vector<char> content = std::vector<char>(kMaxIo, 'n');
  std::unordered_map<std::string, fuse_ino_t> names;
  fuse_ino_t next = kFirstFile;
};

NullFs& of(fuse_req_t req) {
  return *static_cast<NullFs*>(fuse_req_userdata(req));
}

off_t size_of(const NullFs& fs, fuse_ino_t ino) {
  return ino == kData ? fs.size : kSmallFileBytes;
}

struct stat attributes(const NullFs& fs, fuse_ino_t ino) {
  struct stat st {};
  st.st_ino = ino;
  st.st_nlink = ino == FUSE_ROOT_ID ? 2 : 1;
  st.st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0777 : S_IFREG | 0666;
  st.st_size = ino == FUSE_ROOT_ID ? 0 : size_of(fs, ino);
  st.st_blksize = 4096;
  return st;
}

fuse_entry_param entry(const NullFs& fs, fuse_ino_t ino) {
  fuse_entry_param e{};
  e.ino = ino;
  e.attr = attributes(fs, ino);
  e.attr_timeout = kValidSeconds;
  e.entry_timeout = kValidSeconds;
  return e;
}

void init(void*, fuse_conn_info* conn) {
  negotiate(conn, kMaxIo);
}

void lookup(fuse_req_t req, fuse_ino_t, const char* name) {
  const NullFs& fs = of(req);
  const auto found = fs.names.find(name);
  if (found == fs.names.end()) {
    fuse_reply_err(req, ENOENT);
    return;
  }
  const fuse_entry_param e = entry(fs, found->second);
  fuse_reply_entry(req, &e);
}

void getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
  const struct stat st = attributes(of(req), ino);
  fuse_reply_attr(req, &st, kValidSeconds);
}

void setattr(fuse_req_t req, fuse_ino_t ino, struct stat*, int, fuse_file_info*) {
  const struct stat st = attributes(of(req), ino);
  fuse_reply_attr(req, &st, kValidSeconds);
}

void open(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  info->direct_io = of(req).direct;
  info->keep_cache = true;
  spare_flush(info);
  fuse_reply_open(req, info);
}

void create(fuse_req_t req, fuse_ino_t, const char* name, mode_t, fuse_file_info* info) {
  NullFs& fs = of(req);
  const auto [place, fresh] = fs.names.try_emplace(name, fs.next);
  if (fresh) ++fs.next;
  info->direct_io = fs.direct;
  const fuse_entry_param e = entry(fs, place->second);
  fuse_reply_create(req, &e, info);
}

void unlink(fuse_req_t req, fuse_ino_t, const char* name) {
  fuse_reply_err(req, of(req).names.erase(name) == 1 ? 0 : ENOENT);
}

void read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  const NullFs& fs = of(req);
  const off_t end = size_of(fs, ino);
  const size_t left = offset < end ? static_cast<size_t>(end - offset) : 0;
  const size_t found = std::min({size, left, fs.content.size()});
  if (fs.relay && found != 0) {
    fs.relay->read(req, found);
  } else {
    fuse_reply_buf(req, fs.content.data(), found);
  }
}

void write(fuse_req_t req, fuse_ino_t, const char* data, size_t size, off_t, fuse_file_info*) {
  if (const NullFs& fs = of(req); fs.relay) {
    fs.relay->write(req, data, size);
  } else {
    fuse_reply_write(req, size);
  }
}

void done(fuse_req_t req, fuse_ino_t, fuse_file_info*) {
  fuse_reply_err(req, 0);
}
void fsync(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) {
  fuse_reply_err(req, 0);
}

void readdir(fuse_req_t req, fuse_ino_t, size_t, off_t, fuse_file_info*) {
  fuse_reply_buf(req, nullptr, 0);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.lookup = lookup;
  ops.getattr = getattr;
  ops.setattr = setattr;
  ops.open = open;
  ops.create = create;
  ops.unlink = unlink;
  ops.read = read;
  ops.write = write;
  ops.flush = done;
  ops.release = done;
  ops.fsync = fsync;
  ops.readdir = readdir;
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  NullFs fs;
  bool relay = false;
  bool framed = false;
  const char* mountpoint = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--size" && i + 1 < argc) {
      fs.size = static_cast<off_t>(std::strtoull(argv[++i], nullptr, 10));
    } else if (arg == "--files" && i + 1 < argc) {
      for (long n = std::strtol(argv[++i], nullptr, 10), k = 0; k < n; ++k) {
        fs.names.emplace("f" + std::to_string(k), fs.next++);
      }
    } else if (arg == "--direct") {
      fs.direct = true;
    } else if (arg == "--relay") {
      relay = true;
    } else if (arg == "--framed") {
      framed = true;
    } else if (mountpoint == nullptr && arg[0] != '-') {
      mountpoint = argv[i];
    } else {
      mountpoint = nullptr;
      break;
    }
  }
  if (mountpoint == nullptr) {
    std::fprintf(stderr,
                 "usage: nullfs [--size BYTES] [--files N] [--direct] [--relay [--framed]] MOUNTPOINT\n");
    return 2;
  }
  if (relay && !(fs.relay = Relay::start(kMaxIo, framed))) {
    std::perror("nullfs: no far end");
    return 1;
  }
  fs.names.emplace("data", kData);
  return serve(operations(), &fs, fs.relay.get(), "fsname=nullfs,subtype=nullfs,max_read=1048576",
               mountpoint);
}
