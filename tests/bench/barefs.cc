// SPDX-License-Identifier: Apache-2.0
// barefs: a minimal NFSv4.1 client behind FUSE, to compare with a mount of the same server. It sends one RPC
// for a lookup, a READ or a WRITE, each encoded once. Replies are decoded in the receive buffer, and a READ's
// data is spliced from 64 KiB on. It has no data cache, recovery, locks, delegations, back channel or
// permissions, and does not order WRITEs of the same bytes. Attributes come from LOOKUP, CREATE and its own
// writes, and an open(2) never drops the kernel's cached data. It serves only the benchmark's loads. It
// refuses other operations, or ends with a line that says why.
//
// usage: barefs --server HOST --port N --path /EXPORT[/DIR] [--io BYTES] [--small] [--duties] MOUNTPOINT
//
// The mount shows the files of the one directory, by name. FUSE's WRITE is answered before the server's
// reply, unless the file was opened with O_DIRECT; a flush or fsync waits for the file's WRITEs and for
// COMMIT. --small: the LOOKUP's COMPOUND also reads the file's first 4096 bytes, so that opening and reading
// the file need no further RPC. --duties: adds three duties of a real mount. Written data stays in memory
// until a COMMIT covers it. A file that is open here is open at the server (with --small LOOKUP's RPC is an
// OPEN, and one RPC closes sixteen files). Each close(2) of a file causes a FUSE_FLUSH, which a client that
// keeps POSIX locks needs.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bare_fs.h"

namespace {

BareFs& of(fuse_req_t req) {
  return *static_cast<BareFs*>(fuse_req_userdata(req));
}

void reply_attributes(fuse_req_t req, fuse_ino_t ino) {
  const struct stat st = of(req).attributes(ino);
  fuse_reply_attr(req, &st, kValidSeconds);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = [](void* fs, fuse_conn_info* conn) { negotiate(conn, static_cast<BareFs*>(fs)->max_io); };
  ops.lookup = [](fuse_req_t req, fuse_ino_t parent, const char* name) {
    if (parent != FUSE_ROOT_ID) {
      fuse_reply_err(req, EOPNOTSUPP);
    } else {
      of(req).lookup(req, name);
    }
  };
  ops.getattr = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info*) { reply_attributes(req, ino); };
  ops.setattr = [](fuse_req_t req, fuse_ino_t ino, struct stat* attributes, int which, fuse_file_info*) {
    if ((which & FUSE_SET_ATTR_SIZE) == 0) {
      fuse_reply_err(req, EOPNOTSUPP);
    } else {
      of(req).resize(ino, static_cast<uint64_t>(attributes->st_size));
      reply_attributes(req, ino);
    }
  };
  ops.open = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
    of(req).open(ino);
    info->keep_cache = true;
    if (!of(req).duties) spare_flush(info);
    fuse_reply_open(req, info);
  };
  ops.create = [](fuse_req_t req, fuse_ino_t parent, const char* name, mode_t, fuse_file_info*) {
    if (parent != FUSE_ROOT_ID) {
      fuse_reply_err(req, EOPNOTSUPP);
    } else {
      of(req).create(req, name);
    }
  };
  ops.read = [](fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
    of(req).read(req, ino, size, offset);
  };
  ops.write = [](fuse_req_t req, fuse_ino_t ino, const char* data, size_t size, off_t offset,
                 fuse_file_info* info) {
    of(req).write(req, ino, {reinterpret_cast<const std::byte*>(data), size}, offset,
                  (info->flags & O_DIRECT) != 0);
  };
  ops.flush = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info*) { of(req).settle(req, ino); };
  ops.fsync = [](fuse_req_t req, fuse_ino_t ino, int, fuse_file_info*) { of(req).settle(req, ino); };
  ops.release = [](fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
    BareFs& fs = of(req);
    fuse_reply_err(req, 0);  // frees `req`
    fs.close(ino);
  };
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  std::string host, path;
  const char* mountpoint = nullptr;
  unsigned long port = 2049, max_io = 512 << 10;
  bool small = false, duties = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--small") {
      small = true;
    } else if (arg == "--duties") {
      duties = true;
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
                 "usage: barefs --server HOST --port N --path PATH [--io BYTES] [--small] [--duties] "
                 "MOUNTPOINT\n");
    return 2;
  }
  BareFs fs(host, static_cast<uint16_t>(port), path, static_cast<uint32_t>(max_io), small, duties);
  const std::string options = "fsname=barefs,subtype=barefs,max_read=" + std::to_string(max_io);
  return serve(operations(), &fs, &fs, options.c_str(), mountpoint);
}
