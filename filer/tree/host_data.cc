// SPDX-License-Identifier: Apache-2.0
// HostStore: data of regular files, and when it reaches the disk.

#include <fcntl.h>
#include <unistd.h>

#include <climits>

#include "filer/tree/host_path.h"
#include "filer/tree/host_status.h"
#include "filer/tree/host_store.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

// Opens a descriptor's object through /proc, so renaming does not matter.
Fd open_again(int path, int how) {
  return Fd(::open(host_path(path).c_str(), how | O_CLOEXEC));
}

}  // namespace

Answer<int> HostStore::reader_of(HostNode& file) {
  // Opening other types may block or have side effects.
  if (file.type != NF4REG) return refuse(NFS4ERR_WRONG_TYPE);
  if (file.reader) return file.reader.get();
  // A file's creator may read it whatever its mode.
  if (file.writer && (fcntl(file.writer.get(), F_GETFL) & O_ACCMODE) == O_RDWR) return file.writer.get();
  const Answer<int> path = path_of(file);
  if (!path) return path;
  file.reader = open_again(*path, O_RDONLY);
  if (!file.reader) return refuse(status_of(errno));
  return file.reader.get();
}

Answer<int> HostStore::writer_of(HostNode& file) {
  if (file.type != NF4REG) return refuse(NFS4ERR_WRONG_TYPE);
  if (file.writer) return file.writer.get();
  const Answer<int> path = path_of(file);
  if (!path) return path;
  file.writer = open_again(*path, O_RDWR);
  if (!file.writer && errno == EACCES) file.writer = open_again(*path, O_WRONLY);
  if (!file.writer) return refuse(status_of(errno));
  return file.writer.get();
}

Answer<size_t> HostStore::read(Node& file, uint64_t offset, size_t bytes, ByteVector& to) {
  if (bytes == 0 || offset > INT64_MAX) return size_t{0};
  const Answer<int> fd = reader_of(of_host(file));
  if (!fd) return refuse(fd.error());
  const size_t begin = to.size();
  to.resize(begin + bytes);
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(*fd, to.data() + begin + got, bytes - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(status_of(errno));
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  to.resize(begin + got);
  return got;
}

// Written as the caller, because the host accounts quotas and reserved blocks to the writer.
nfsstat4 HostStore::write(Node& file, uint64_t offset, ConstBytes data, bool stable, const Principal& who) {
  HostNode& own = of_host(file);
  const Answer<int> fd = writer_of(own);
  if (!fd) return fd.error();
  size_t done = 0;
  int error = 0;
  const bool acted = callers_.act_as(who, [&] {
    while (done < data.size() && error == 0) {
      const ssize_t n =
          pwrite(*fd, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
      if (n >= 0) done += static_cast<size_t>(n);
      if (n < 0 && errno != EINTR) error = errno;
    }
  });
  if (!acted) return NFS4ERR_SERVERFAULT;
  if (error == 0 && stable && fsync(*fd) != 0) {
    error = errno;
    note_loss();
  }
  if (!stable) own.unstable = true;
  if (stable && error == 0) own.unstable = false;  // fsync() has written earlier data too
  changed(file);
  close_data(own);
  return status_of(error);
}

nfsstat4 HostStore::resize(Node& file, uint64_t size, const Principal& who) {
  HostNode& own = of_host(file);
  if (own.type != NF4REG) return NFS4ERR_WRONG_TYPE;
  const Answer<int> path = path_of(own);
  if (!path) return path.error();
  const auto length = static_cast<off_t>(size);
  // If no writer is open, open one for this call only. truncate(2) would not do: it leaves the times
  // unchanged if the size does not change.
  const Fd once = own.writer ? Fd() : open_again(*path, O_WRONLY);
  if (!own.writer && !once) return status_of(errno);
  int error = 0;
  const bool acted = callers_.act_as(who, [&] {
    if (ftruncate((own.writer ? own.writer : once).get(), length) != 0) error = errno;
  });
  if (!acted) return NFS4ERR_SERVERFAULT;
  changed(file);
  if (error == 0) settle(own);
  return status_of(error);
}

nfsstat4 HostStore::commit(Node& file, uint64_t, uint64_t) {
  HostNode& own = of_host(file);
  Answer<int> fd = own.writer ? Answer<int>(own.writer.get()) : reader_of(own);
  if (!fd && fd.error() == NFS4ERR_ACCESS) fd = writer_of(own);
  if (!fd) return fd.error();
  if (fsync(*fd) != 0) {
    const int error = errno;
    note_loss();
    return status_of(error);
  }
  own.unstable = false;
  close_data(own);
  return NFS4_OK;
}

Answer<std::string> HostStore::read_link(Node& link, const Principal& who) {
  const Answer<int> fd = path_of(of_host(link));
  if (!fd) return refuse(fd.error());
  std::string target(PATH_MAX, '\0');
  ssize_t bytes = -1;
  int error = 0;
  // As the caller, because some file systems (/proc, FUSE) check more than search permission.
  const bool acted = callers_.act_as(who, [&] {
    bytes = readlinkat(*fd, "", target.data(), target.size());
    error = bytes < 0 ? errno : 0;
  });
  if (!acted) return refuse(NFS4ERR_SERVERFAULT);
  if (error != 0) return refuse(status_of(error));
  target.resize(static_cast<size_t>(bytes));
  return target;
}

void HostStore::settle(HostNode& node) {
  if (!sync_ || (!node.is_directory() && node.type != NF4REG)) return;
  const Answer<int> path = path_of(node);
  if (!path) return;
  // If it cannot be opened for reading, fsync() is not possible and the host writes it in its own time.
  const Fd fd = open_again(*path, O_RDONLY);
  if (fd && fsync(fd.get()) != 0 && node.type == NF4REG) note_loss();  // fsync() reports an error only once
}

}  // namespace nfsrdma::filer::tree
