// SPDX-License-Identifier: Apache-2.0
// The file system of barefs: one directory of an NFSv4.1 server. What is asked of it are FUSE's requests,
// each answered through its fuse_req_t, most of them once the server has answered. One thread's.
//
// Names, CLOSE, READ and WRITE are encoded once, up to what changes; their results are read where they lie.
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
  void idle() override;  // keeps the lease

  struct stat attributes(fuse_ino_t ino) const;
  void lookup(fuse_req_t req, const char* name);
  void create(fuse_req_t req, const char* name);
  void open(fuse_ino_t ino);
  void close(fuse_ino_t ino);
  void resize(fuse_ino_t ino, uint64_t size);
  void read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset);
  void write(fuse_req_t req, fuse_ino_t ino, nfsrdma::ConstBytes data, off_t offset, bool direct);
  // Answers once what was written to the file is on stable storage.
  void settle(fuse_req_t req, fuse_ino_t ino);

 private:
  enum class Kind { kNothing, kLookup, kCreate, kRead, kWrite, kWriteBehind, kCommit, kCommitBehind, kClose };
  using Name = std::pair<const std::string, fuse_ino_t>;

  struct File {
    nfsrdma::nfs4::nfs_fh4 handle{};
    uint64_t size = 0;
    bool directory = false;
    unsigned opens = 0;              // one at the server for all of them
    nfsrdma::nfs4::stateid4 open{};  // all zero: the special one that means nobody's
    bare::Request read{}, write{};   // with the last words open: offset and count; offset, stability, length
    unsigned writing = 0;            // WRITEs under way
    bool unstable = false;           // WRITEs since the last COMMIT
    bool brought = false;            // --small: all of it is in `content`
    nfsrdma::ByteVector content{};
  };

  struct Pending {
    Kind kind = Kind::kNothing;
    fuse_req_t req = nullptr;
    uint64_t unique = 0;
    size_t size = 0;
    File* file = nullptr;
    Name* name = nullptr;
    void* kept = nullptr;  // what a WRITE is sent from
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
  bare::Request lookup_, create_;  // to be sent with a name
  bare::Request close_;            // to which CLOSEs are added
  size_t closes_ = 0;
  std::vector<void*> kept_, under_commit_, free_memory_;  // with duties: of requests, max_io and more each
  std::vector<Pending> pending_;                          // by slot
  std::deque<File> files_;                                // by inode number
  std::unordered_map<std::string, fuse_ino_t> names_;     // 0: was asked for, and not there
  unsigned under_way_ = 0;
  unsigned large_ = 0;  // READs among them whose data may be spliced
};
