// SPDX-License-Identifier: Apache-2.0
// Does random steps in one directory, each with the system call and in the model, and compares both after
// each step.
//
// One Runner per process; it owns every descriptor and mapping it opens. A difference is thrown as Mismatch
// and ends the run: main prints it with the seed, the step and the latest history. Only behaviour that POSIX
// and the Linux man pages permit is accepted, plus what `Options` names.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "model.h"

namespace fsrandom {

struct Options {
  std::string directory;  // the tested directory; must exist and be empty
  std::string witness;    // the same directory by another way (server side, second mount), also compared
  uint64_t seed = 1;
  uint64_t steps = 10000;
  uint64_t check_every = 1000;      // steps between two comparisons of the whole tree
  uint64_t max_bytes = 300 * 1024;  // usual maximum of file sizes; some go beyond 4 GiB nevertheless
  unsigned scans = 0;               // weight of steps that read long runs, so that a client may read ahead
  bool silly = false;               // tolerate .nfs* names and a link count of 1 for open unlinked files
  std::set<std::string> without;    // kinds of steps to leave out
  unsigned step_timeout_s = 300;    // a step that takes longer ends the run with status 3
};

class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Runner {
 public:
  explicit Runner(const Options& options);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner();

  // Does all steps and the last check, then syncs and closes everything.
  void run();

  const Tree& tree() const { return tree_; }
  uint64_t step() const { return step_; }
  const std::deque<std::string>& history() const { return history_; }
  const std::map<std::string, uint64_t>& counts() const { return counts_; }
  const std::set<std::string>& unsupported() const { return unsupported_; }

 private:
  struct Descriptor {
    int fd;
    int flags;
    InodePtr inode;
    std::string path;
  };
  struct Mapping {
    char* address;
    uint64_t offset;
    uint64_t length;
    bool dirty;
    InodePtr inode;
  };
  using Step = void (Runner::*)();
  struct Kind {
    const char* name;
    unsigned weight;
    Step step;
  };
  static const std::vector<Kind>& kinds();

  // runner_files.cc: steps on open files and their contents
  void open_file();
  void close_file();
  void write_file();
  void read_file();
  void truncate_open();
  void truncate_path();
  void map_file();
  void map_read();
  void map_write();
  void unmap();
  void sync_file();
  void seek_file();
  void copy_range();
  void drop_cache();
  void scan_file();
  void allocate();

  // runner_names.cc: steps on names and attributes
  void make_directory();
  void remove_directory();
  void unlink_name();
  void rename_name();
  void link_name();
  void make_symlink();
  void read_symlink();
  void list_directory();
  void stat_path();
  void change_mode();
  void set_times();

  // Random choices.
  uint64_t random(uint64_t below) {
    return std::uniform_int_distribution<uint64_t>(0, below - 1)(generator_);
  }
  bool chance(unsigned percent) { return random(100) < percent; }
  std::string some_path();
  std::string existing_path(Type type);  // empty when there is none
  std::string fresh_path();
  uint64_t some_offset(const Inode& inode);
  std::string some_bytes(uint64_t length);
  Descriptor* some_descriptor();

  // Checks.
  std::string at(const std::string& path) const {
    return path.empty() ? options_.directory : options_.directory + "/" + path;
  }
  void note(const std::string& what);
  void expect(const std::string& call, int result_errno, int expected_errno);
  void expect_data(const std::string& call, uint64_t offset, const std::string& got,
                   const std::string& expected);
  void check_stat(const std::string& what, const struct stat& st, Inode& inode);
  void check_open(Descriptor& descriptor);
  void check_path(const std::string& path);
  void check_all();
  void sync_all();
  void close_descriptor(size_t index);
  void unmap_at(size_t index);
  // Before bytes are written up to `end`: see zeroes_beyond_the_end().
  void write_out_page_at_end(const Descriptor& to, uint64_t end, const std::string& call);
  bool mapped(const InodePtr& inode) const;
  void check_region(int fd, uint64_t offset, uint64_t length, const Inode& inode);

  const Options& options_;
  Tree tree_;
  std::mt19937_64 generator_;
  std::vector<Descriptor> descriptors_;
  std::vector<Mapping> mappings_;
  std::set<std::string> unsupported_;
  std::map<std::string, uint64_t> counts_;
  std::deque<std::string> history_;
  uint64_t step_ = 0;
  bool acted_ = false;
};

// Compares a whole directory with the tree; throws Mismatch. with_numbers: st_ino must agree, too.
void verify_tree(const std::string& directory, const Tree& tree, bool silly, bool with_numbers);

// Compares contents through fd: all of a small file, else every page of the model and samples of the rest.
void verify_content(const std::string& what, int fd, const Inode& inode);

// Save and load a tree, for `--dump` and `--verify`.
void save_tree(const Tree& tree, const std::string& file);
Tree load_tree(const std::string& file);

std::string describe_difference(uint64_t offset, const std::string& got, const std::string& expected);

}  // namespace fsrandom
