// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/support/test_mount.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/unit/transport/support/eventually.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::test {

using namespace client;  // NOLINT: this file acts as its front end

void RecordingFrontEnd::invalidate_data(NodeRef node) {
  MutexLock lock(mutex_);
  ++data_[node.get()];
}

Task<> RecordingFrontEnd::drop_data(NodeRef node) {
  invalidate_data(std::move(node));
  for (;;) {
    MutexLock lock(mutex_);
    if (!held_) co_return;
    co_await released_.wait(lock);
  }
}

void RecordingFrontEnd::hold_drops(bool hold) {
  MutexLock lock(mutex_);
  held_ = hold;
  if (!hold) released_.notify_all();
}

void RecordingFrontEnd::invalidate_attributes(NodeRef node) {
  MutexLock lock(mutex_);
  ++attributes_[node.get()];
}

void RecordingFrontEnd::invalidate_entry(NodeRef directory, std::string name) {
  MutexLock lock(mutex_);
  names_[directory.get()].insert(std::move(name));
}

std::set<std::string> RecordingFrontEnd::names(const NodeRef& directory) const {
  MutexLock lock(mutex_);
  const auto it = names_.find(directory.get());
  return it == names_.end() ? std::set<std::string>{} : it->second;
}

unsigned RecordingFrontEnd::data(const NodeRef& node) const {
  MutexLock lock(mutex_);
  const auto it = data_.find(node.get());
  return it == data_.end() ? 0 : it->second;
}

unsigned RecordingFrontEnd::attributes(const NodeRef& node) const {
  MutexLock lock(mutex_);
  const auto it = attributes_.find(node.get());
  return it == attributes_.end() ? 0 : it->second;
}

TransportKind transport_under_test() {
  const char* wanted = std::getenv("NFSRDMA_TEST_TRANSPORT");  // NOLINT(concurrency-mt-unsafe)
  return wanted != nullptr ? TransportKind::kSoftwareRdma : TransportKind::kTcp;
}

unsigned loops_under_test() {
  const char* wanted = std::getenv("NFSRDMA_TEST_LOOPS");  // NOLINT(concurrency-mt-unsafe)
  return wanted != nullptr ? static_cast<unsigned>(std::stoul(wanted)) : 1;
}

rdma::Versions versions_under_test() {
  const std::string_view wanted = std::getenv("NFSRDMA_TEST_TRANSPORT");  // NOLINT(concurrency-mt-unsafe)
  if (wanted == "rdma1") return rdma::Versions::kOnly1;
  EXPECT_EQ(wanted, "rdma2");
  return rdma::Versions::kOnly2;
}

std::unique_ptr<filer::Server> start_filer(filer::nfs::Options options) {
  options.rdma.listen = options.rdma.listen || transport_under_test() == TransportKind::kSoftwareRdma;
  const std::vector<std::string> exports = options.exports;
  auto server = filer::Server::start(std::move(options));
  EXPECT_TRUE(server) << describe(server.error());
  (*server)->with_core([&exports](filer::nfs::Core& core) {
    for (const std::string& path : exports) core.tree.walk(path)->mode = 0777;
  });
  return std::move(*server);
}

TestMount::TestMount(filer::Server& server, Settings settings) : server_(server), loops_(settings.loops) {
  static std::atomic<unsigned> count{0};
  ClientOptions options;
  options.host = "127.0.0.1";
  options.port = server.port();
  options.transport = transport_under_test();
  if (options.transport == TransportKind::kSoftwareRdma) {
    options.port = server.rdma_port();
    options.rdma_versions = versions_under_test();
  }
  options.export_path = settings.export_path;
  options.close_delay = {};  // so that a test's counts are complete when the call returns
  options.client_name = client_name_ = "test mount " + std::to_string(++count);
  if (settings.options) settings.options(options);
  fs_ = std::make_unique<client::nfs4::Nfs4Filesystem>(loops_, buffers_, options);
  loops_.start();
  if (!settings.mount) return;
  const Result<Entry> mounted = mount();
  EXPECT_TRUE(mounted) << describe(mounted.error());
}

Result<Entry> TestMount::mount() {
  Result<Entry> mounted = run(fs_->mount(&front_end));
  if (mounted) {
    mounted_ = true;
    root_ = mounted->node;
  }
  return mounted;
}

bool TestMount::unmount(Duration patience) {
  mounted_ = false;
  return run_on(loops_[0], fs_->unmount(patience));
}

TestMount::~TestMount() {
  if (mounted_) {
    const bool answered = unmount(abandoned_ ? std::chrono::milliseconds(50) : std::chrono::seconds(20));
    EXPECT_TRUE(answered || abandoned_) << "the server did not answer";
    if (!abandoned_ && !leftovers_) {
      for (const filer::ClientFacts& c : server_.clients()) {
        EXPECT_NE(c.owner, client_name_) << "the client is still known to the server, with "
                                         << c.sessions.size() << " sessions and " << c.opens << " opens";
      }
    }
  }
  known_.clear();
  root_.reset();
  // The task that unmounted counts as live until it has returned to its loop.
  for (unsigned i = 0; i < loops_.size(); ++i)
    EXPECT_TRUE(eventually([&] { return loops_[i].live_tasks() == 0; }, std::chrono::microseconds(100)))
        << loops_[i].live_tasks() << " on loop " << i;
  loops_.stop_and_join();
  EXPECT_EQ(fs_->statistics().cache.nodes, 0u);
  fs_.reset();
  EXPECT_EQ(buffers_.outstanding_bytes(), 0u);
}

void TestMount::settle() {
  for (int request = 0; request < 2; ++request) {
    turn_every_loop();
    for (unsigned i = 0; i < loops_.size(); ++i) EXPECT_TRUE(run_on(loops_[i], fs_->statfs(user(), root_)));
  }
  turn_every_loop();
}

RequestContext TestMount::user(uint32_t uid, uint32_t gid) {
  return {std::make_shared<rpc::Credential>("host", uid, gid, std::vector<uint32_t>{}), nullptr, thread_};
}

Result<Entry> TestMount::remember(Result<Entry> entry) {
  if (entry && entry->node) known_[entry->node.get()] = entry->node;
  return entry;
}

Result<Entry> TestMount::lookup(std::string_view path) {
  if (!root_) return fail(system_error(ENOTCONN, "LOOKUP"));  // not mounted
  Entry entry;
  entry.node = root_;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    Result<Entry> next = run(fs_->lookup(user(), entry.node, std::string(path.substr(0, slash))));
    if (!next) return next;
    if (!next->node) return fail(system_error(ENOENT, "LOOKUP"));
    entry = *remember(std::move(next));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return entry;
}

NodeRef TestMount::node(std::string_view path) {
  const Result<Entry> found = lookup(path);
  EXPECT_TRUE(found) << path << ": " << describe(found.error());
  return found ? found->node : NodeRef();
}

Result<TestMount::Place> TestMount::place(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return Place{root_, std::string(path)};
  const Result<Entry> directory = lookup(path.substr(0, slash));
  if (!directory) return fail(directory.error());
  return Place{directory->node, std::string(path.substr(slash + 1))};
}

Result<Attributes> TestMount::stat(std::string_view path) {
  const Result<Entry> found = lookup(path);
  if (!found) return fail(found.error());
  const auto reply = run(fs_->getattr(user(), found->node, nullptr));
  if (!reply) return fail(reply.error());
  return reply->attributes;
}

int TestMount::mkdir(std::string_view path, uint32_t mode) {
  const Result<Place> p = place(path);
  if (!p) return errno_of(p);
  return errno_of(remember(run(fs_->mkdir(user(), p->directory, p->name, mode))));
}

int TestMount::unlink(std::string_view path) {
  const Result<Place> p = place(path);
  if (!p) return errno_of(p);
  return errno_of(run(fs_->unlink(user(), p->directory, p->name)));
}

int TestMount::rmdir(std::string_view path) {
  const Result<Place> p = place(path);
  if (!p) return errno_of(p);
  return errno_of(run(fs_->rmdir(user(), p->directory, p->name)));
}

int TestMount::rename(std::string_view from, std::string_view to, unsigned flags) {
  const Result<Place> a = place(from), b = place(to);
  if (!a) return errno_of(a);
  if (!b) return errno_of(b);
  return errno_of(run(fs_->rename(user(), a->directory, a->name, b->directory, b->name, flags)));
}

int TestMount::link(std::string_view existing, std::string_view path) {
  const Result<Entry> file = lookup(existing);
  if (!file) return errno_of(file);
  const Result<Place> p = place(path);
  if (!p) return errno_of(p);
  return errno_of(remember(run(fs_->link(user(), file->node, p->directory, p->name))));
}

int TestMount::symlink(std::string target, std::string_view path) {
  const Result<Place> p = place(path);
  if (!p) return errno_of(p);
  return errno_of(remember(run(fs_->symlink(user(), p->directory, p->name, std::move(target)))));
}

std::vector<std::string> TestMount::list(std::string_view path) {
  std::vector<std::string> names;
  auto directory = run(fs_->opendir(user(), node(path)));
  EXPECT_TRUE(directory) << describe(directory.error());
  if (!directory) return names;
  for (uint64_t offset = 0;;) {
    auto page = run(fs_->readdir(user(), directory->directory, offset, 4096, false));
    EXPECT_TRUE(page) << describe(page.error());
    if (!page || page->entries.empty()) break;
    for (const DirectoryEntry& e : page->entries) {
      if (e.name != "." && e.name != "..") names.push_back(e.name);
    }
    offset = page->entries.back().next;
  }
  run(fs_->releasedir(directory->directory));
  return names;
}

Result<OpenFileRef> TestMount::try_open(std::string_view path, int flags) {
  const Result<Entry> found = lookup(path);
  if (!found) return fail(found.error());
  auto opened = run(fs_->open(user(), found->node, flags));
  if (!opened) return fail(opened.error());
  return opened->file;
}

OpenFileRef TestMount::open(std::string_view path, int flags) {
  const Result<OpenFileRef> file = try_open(path, flags);
  EXPECT_TRUE(file) << path << ": " << describe(file.error());
  return file ? *file : nullptr;
}

Result<OpenFileRef> TestMount::try_create(std::string_view path, int flags, uint32_t mode) {
  const Result<Place> p = place(path);
  if (!p) return fail(p.error());
  auto created = run(fs_->create(user(), p->directory, p->name, mode, flags | O_CREAT));
  if (!created) return fail(created.error());
  remember(created->entry);
  return created->open.file;
}

OpenFileRef TestMount::create(std::string_view path, int flags) {
  const Result<OpenFileRef> file = try_create(path, flags);
  EXPECT_TRUE(file) << path << ": " << describe(file.error());
  return file ? *file : nullptr;
}

Task<Result<>> TestMount::write_task(OpenFileRef file, uint64_t offset, std::string_view text) {
  const Slice data = buffers_.slice(text.size());
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(data.bytes.data()));
  return fs_->write(user(), std::move(file), offset, data);
}

int TestMount::write(const OpenFileRef& file, uint64_t offset, std::string_view text) {
  return errno_of(run(write_task(file, offset, text)));
}

Result<std::string> TestMount::read(const OpenFileRef& file, uint64_t offset, size_t size) {
  auto reply = run(fs_->read(user(), file, offset, size));
  if (!reply) return fail(reply.error());
  std::string text;
  for (BulkData& piece : reply->data) {
    EXPECT_TRUE(piece.land());
    text += as_string_view(piece.slice.bytes);
  }
  EXPECT_EQ(text.size(), reply->size);
  return text;
}

int TestMount::fsync(const OpenFileRef& file) {
  const int told = errno_of(run(fs_->fsync(user(), file, false)));
  const std::optional<Error> taken = told != 0 ? fs_->take_error(file) : std::nullopt;
  return taken ? taken->errnum : 0;
}

int TestMount::close(OpenFileRef file, uint64_t owner) {
  const int flushed = errno_of(run(fs_->flush(user(), file, owner)));
  const std::optional<Error> taken = flushed != 0 ? fs_->take_error(file) : std::nullopt;
  run(fs_->release(user(), std::move(file)));
  return taken ? taken->errnum : 0;
}

std::string TestMount::read_file(std::string_view path) {
  const Result<OpenFileRef> file = try_open(path);
  if (!file) return "open: " + describe(file.error());
  Result<std::string> text = read(*file);
  close(*file);
  return text ? *text : "read: " + describe(text.error());
}

int TestMount::write_file(std::string_view path, std::string_view text) {
  const Result<OpenFileRef> file = try_create(path, O_WRONLY | O_TRUNC);
  if (!file) return errno_of(file);
  const int written = text.empty() ? 0 : write(*file, 0, text);
  const int closed = close(*file);
  return written != 0 ? written : closed;
}

int TestMount::lock(const OpenFileRef& file, LockType type, uint64_t start, uint64_t end, uint64_t owner) {
  return errno_of(run(fs_->setlk(user(), file, owner, {type, start, end, process(owner)}, false)));
}

Result<Lock> TestMount::test_lock(const OpenFileRef& file, LockType type, uint64_t start, uint64_t end,
                                  uint64_t owner) {
  return run(fs_->getlk(user(), file, owner, {type, start, end, 0}));
}

uint64_t TestMount::requests(const std::string& op) {
  for (const OperationStatistics& s : fs_->statistics().operations) {
    if (s.name == op) return s.requests;
  }
  return 0;
}

}  // namespace nfsrdma::test
