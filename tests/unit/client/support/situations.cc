// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/support/situations.h"

#include <unistd.h>

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using Path = const std::string&;

void nothing(filer::Server&, Path) {}
void one_file(filer::Server& server, Path directory) {
  server.make_file(directory + "/a", "content", 0666);
}
void one_directory(filer::Server& server, Path directory) {
  server.make_directory(directory + "/d", 0777);
}

int create(TestMount& m, Path path, int flags) {
  const auto file = m.try_create(path, flags);
  if (!file) return errno_of(file);
  const int written = m.write(*file, 0, "text");
  const int closed = m.close(*file);
  return written != 0 ? written : closed;
}

// Opens `path`, calls `act` with the file, and closes it.
int with_file(TestMount& m, Path path, const std::function<int(const client::OpenFileRef&)>& act) {
  const auto file = m.try_open(path, O_RDWR);
  if (!file) return errno_of(file);
  const int result = act(*file);
  const int closed = m.close(*file);
  return result != 0 ? result : closed;
}

int lock_and_unlock(TestMount& m, Path path) {
  return with_file(m, path, [&](const client::OpenFileRef& file) {
    const int locked = m.lock(file, client::LockType::kWrite, 0, 9);
    const int unlocked = m.lock(file, client::LockType::kUnlock);
    return locked != 0 ? locked : unlocked;
  });
}

int write_large(TestMount& m, Path path) {
  return m.write_file(path, std::string(200'000, 'w'));
}

int truncate(TestMount& m, Path path) {
  const auto found = m.lookup(path);
  if (!found) return errno_of(found);
  client::SetAttributes set;
  set.size = 3;
  return errno_of(m.run(m.fs().setattr(m.user(), found->node, set, nullptr)));
}

// With unwritten data: in one COMPOUND with it.
int write_and_set_time(TestMount& m, Path path) {
  const auto file = m.try_create(path, O_RDWR | O_EXCL);
  if (!file) return errno_of(file);
  const int written = m.write(*file, 0, "text");
  client::SetAttributes set;
  set.mtime = client::SetAttributes::Time{.now = false, .value = {.tv_sec = 1'000'000'000, .tv_nsec = 0}};
  const auto reply = m.run(m.fs().setattr(m.user(), client::cached_open(*file).node, set, *file));
  const int error = errno_of(reply);
  const int closed = m.close(*file);
  return written != 0 ? written : error != 0 ? error : closed;
}

int list(TestMount& m, Path path) {
  const auto found = m.lookup(path);
  if (!found) return errno_of(found);
  const auto directory = m.run(m.fs().opendir(m.user(), found->node));
  if (!directory) return errno_of(directory);
  return errno_of(m.run(m.fs().readdir(m.user(), directory->directory, 0, 4096, true)));
}

// The kernel has always looked up what it renames, and holds the file and its directory. Only then is the
// file known under its new name.
int rename_as_the_kernel(TestMount& m, Path directory, Path from, Path to) {
  const auto held = m.lookup(directory);
  if (!held) return errno_of(held);
  const auto found = m.lookup(directory + from);
  return found ? m.rename(directory + from, directory + to) : errno_of(found);
}

// Calls `act` with the Node of `path`.
template <class Act>
int on_node(TestMount& m, Path path, Act act) {
  const auto found = m.lookup(path);
  return found ? errno_of(m.run(act(found->node))) : errno_of(found);
}

}  // namespace

const std::vector<Situation>& situations() {
  static const std::vector<Situation> all = {
      {"Rename", OP_RENAME, true, one_file,
       [](TestMount& m, Path d) { return rename_as_the_kernel(m, d, "/a", "/b"); }},
      {"RenameAcross", OP_RENAME, true,
       [](filer::Server& s, Path d) {
         one_file(s, d);
         one_directory(s, d);
       },
       [](TestMount& m, Path d) { return rename_as_the_kernel(m, d, "/a", "/d/b"); }},
      {"ExclusiveCreate", OP_OPEN, true, nothing,
       [](TestMount& m, Path d) { return create(m, d + "/new", O_RDWR | O_EXCL); }},
      {"Create", OP_OPEN, true, nothing,
       [](TestMount& m, Path d) { return create(m, d + "/new", O_RDWR | O_TRUNC); }},
      {"Open", OP_OPEN, false, one_file,
       [](TestMount& m, Path d) { return with_file(m, d + "/a", [](const auto&) { return 0; }); }},
      {"Mkdir", OP_CREATE, true, nothing, [](TestMount& m, Path d) { return m.mkdir(d + "/new"); }},
      {"Symlink", OP_CREATE, true, nothing,
       [](TestMount& m, Path d) { return m.symlink("target", d + "/new"); }},
      {"Link", OP_LINK, true, one_file, [](TestMount& m, Path d) { return m.link(d + "/a", d + "/b"); }},
      {"Unlink", OP_REMOVE, true, one_file, [](TestMount& m, Path d) { return m.unlink(d + "/a"); }},
      {"Rmdir", OP_REMOVE, true, one_directory, [](TestMount& m, Path d) { return m.rmdir(d + "/d"); }},
      {"Truncate", OP_SETATTR, true, one_file, [](TestMount& m, Path d) { return truncate(m, d + "/a"); }},
      {"SetTimeBehindData", OP_SETATTR, true, nothing,
       [](TestMount& m, Path d) { return write_and_set_time(m, d + "/new"); }},
      {"WriteBeforeSetTime", OP_WRITE, true, nothing,
       [](TestMount& m, Path d) { return write_and_set_time(m, d + "/new"); }},
      {"Lock", OP_LOCK, true, one_file, [](TestMount& m, Path d) { return lock_and_unlock(m, d + "/a"); }},
      {"Unlock", OP_LOCKU, true, one_file, [](TestMount& m, Path d) { return lock_and_unlock(m, d + "/a"); }},
      {"TestLock", OP_LOCKT, false, one_file,
       [](TestMount& m, Path d) {
         return with_file(m, d + "/a", [&](const client::OpenFileRef& file) {
           return errno_of(m.test_lock(file, client::LockType::kWrite));
         });
       }},
      {"Close", OP_CLOSE, true, one_file,
       [](TestMount& m, Path d) { return with_file(m, d + "/a", [](const auto&) { return 0; }); }},
      {"Downgrade", OP_OPEN_DOWNGRADE, true, one_file,
       [](TestMount& m, Path d) {
         const auto reader = m.try_open(d + "/a", O_RDONLY);
         if (!reader) return errno_of(reader);
         const int wrote = with_file(m, d + "/a", [](const auto&) { return 0; });
         m.close(*reader);
         return wrote;
       }},
      {"Write", OP_WRITE, true, nothing, [](TestMount& m, Path d) { return write_large(m, d + "/new"); }},
      {"Commit", OP_COMMIT, true, nothing, [](TestMount& m, Path d) { return write_large(m, d + "/new"); }},
      {"Read", OP_READ, false, one_file,
       [](TestMount& m, Path d) {
         return with_file(m, d + "/a",
                          [&](const client::OpenFileRef& file) { return errno_of(m.read(file)); });
       }},
      {"Lookup", OP_LOOKUP, false, one_file,
       [](TestMount& m, Path d) { return errno_of(m.lookup(d + "/a")); }},
      {"Readlink", OP_READLINK, false, [](filer::Server& s, Path d) { s.make_symlink(d + "/s", "target"); },
       [](TestMount& m, Path d) {
         return on_node(m, d + "/s", [&](const client::NodeRef& n) { return m.fs().readlink(m.user(), n); });
       }},
      {"Access", OP_ACCESS, false, one_file,
       [](TestMount& m, Path d) {
         return on_node(m, d + "/a",
                        [&](const client::NodeRef& n) { return m.fs().access(m.user(), n, R_OK); });
       }},
      {"Readdir", OP_READDIR, false, one_file, [](TestMount& m, Path d) { return list(m, d); }},
      {"Getattr", OP_GETATTR, false, one_file,
       [](TestMount& m, Path d) {
         return on_node(m, d + "/a", [&](const client::NodeRef& n) { return m.fs().statfs(m.user(), n); });
       }},
  };
  return all;
}

std::vector<Situation> changing_situations() {
  std::vector<Situation> some;
  for (const Situation& s : situations()) {
    if (s.changes) some.push_back(s);
  }
  return some;
}

void prepare(filer::Server& server, const Situation& situation, const std::string& name) {
  const std::string directory = "/export/" + name;
  EXPECT_TRUE(server.make_directory(directory, 0777));
  situation.prepare(server, directory);
}

std::map<std::string, std::string> contents(filer::Server& server, const std::string& directory) {
  std::map<std::string, std::string> all;
  for (const std::string& name : server.list(directory)) {
    const std::string path = directory + "/" + name;
    const auto facts = server.stat(path);
    if (!facts) continue;
    all[name] = std::to_string(facts->type) + " " + std::to_string(facts->links) + " " +
                server.read_file(path).value_or("");
    if (facts->type != NF4DIR) continue;
    for (const auto& [inner, text] : contents(server, path)) all[name + "/" + inner] = text;
  }
  return all;
}

std::ostream& operator<<(std::ostream& out, const Situation& s) {
  return out << s.name;
}

}  // namespace nfsrdma::test
