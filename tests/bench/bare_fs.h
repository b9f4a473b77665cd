// SPDX-License-Identifier: Apache-2.0
// The file system of barefs: one directory of an NFSv4.1 server. Its methods are FUSE requests; each is
// answered through its fuse_req_t, most of them once the server has replied. One thread only.
//
// LOOKUP, OPEN, CLOSE, READ and WRITE are encoded once, except for the fields that change. Results are read
// in the receive buffer.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "bare_session.h"
#include "ceiling.h"

class BareFs final : public FarEnd {
 public:
  BareFs(const std::string& host, uint16_t port, const std::string& path, uint32_t max_io, bool small,
         bool duties);
  ~BareFs() override;

  const uint32_t max_io;  // bytes of the largest READ and WRITE
  const bool duties;

  int socket() const override { return session_.socket(); }
  bool answer() override;
  void idle() override;  // renews the lease

  struct stat attributes(fuse_ino_t ino) const;
  void lookup(fuse_req_t req, const char* name);
  void create(fuse_req_t req, const char* name);
  void open(fuse_ino_t ino);
  void close(fuse_ino_t ino);
  void resize(fuse_ino_t ino, uint64_t size);
  void read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset);
  void write(fuse_req_t req, fuse_ino_t ino, nfsrdma::ConstBytes data, off_t offset, bool direct);
  // Replies once the data written to the file is on stable storage.
  void settle(fuse_req_t req, fuse_ino_t ino);

 private:
  enum class Kind { kNothing, kLookup, kCreate, kRead, kWrite, kWriteBehind, kCommit, kCommitBehind, kClose };
  using Name = std::pair<const std::string, fuse_ino_t>;

  struct File {
    nfsrdma::nfs4::nfs_fh4 handle{};
    uint64_t size = 0;
    bool directory = false;
    unsigned opens = 0;              // all of them share one open at the server
    nfsrdma::nfs4::stateid4 open{};  // all zero: the anonymous stateid
    bare::Request read{}, write{};   // without the last words: offset and count; offset, stability and length
    unsigned writing = 0;            // WRITEs without a reply
    bool unstable = false;           // WRITEs since the last COMMIT
    bool brought = false;            // --small: `content` is the whole file
    nfsrdma::ByteVector content{};
  };

  struct Pending {
    Kind kind = Kind::kNothing;
    fuse_req_t req = nullptr;
    uint64_t unique = 0;
    size_t size = 0;
    File* file = nullptr;
    Name* name = nullptr;
    void* kept = nullptr;  // the memory that a WRITE is sent from
  };

  void walk(const std::string& name);
  void prepare();
  void opened(File& file, const nfsrdma::nfs4::stateid4& stateid);
  template <class Args>
  bare::Request& at_hand(bare::Request& request, const File& file) const;
  void send_closes();
  void keep_until_commit(Pending& pending);
  void start(const Pending& pending, bare::Request& request, nfsrdma::ConstBytes data = {});
  void wait();
  void quiet();

  bool finish_large_read(const Pending& pending, bare::Reply reply);
  void finish(const Pending& pending, bare::Results results);
  void finish_read(const Pending& pending, bare::Results& results);
  void finish_write(const Pending& pending, bare::Results& results);
  void finish_lookup(const Pending& pending, bare::Results& results);
  void finish_create(const Pending& pending, bare::Results& results);
  void finish_commit(const Pending& pending, bare::Results& results);
  void finish_closes(const Pending& pending, bare::Results& results);
  fuse_entry_param entry(Name& name, bare::Results& results);

  bare::Session session_;
  bool small_;
  PipedReply piped_;
  bare::Request lookup_, create_;  // the name is added when sent
  bare::Request close_;            // CLOSEs are added to it
  size_t closes_ = 0;
  std::vector<void*> kept_, under_commit_, free_memory_;  // with duties: buffers of at least max_io bytes
  std::vector<Pending> pending_;                          // by slot
  std::deque<File> files_;                                // by inode number
  std::unordered_map<std::string, fuse_ino_t> names_;     // 0: looked up, and absent
  unsigned under_way_ = 0;
  unsigned large_ = 0;  // READs without a reply whose data may be spliced
};
