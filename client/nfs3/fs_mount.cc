// SPDX-License-Identifier: Apache-2.0
// Mount and unmount (RFC 1813 appendix I, RFC 1833), and data about the whole mount.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "client/nfs3/nfs3_client.h"
#include "client/nfs3/one_call.h"
#include "transport/runtime/deadline.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {
namespace {

// The time for UMNT if the server does not answer.
constexpr Duration kFarewell = std::chrono::seconds(2);
// libnfs 4.0 accepts messages of up to this size plus 4096 bytes.
constexpr uint32_t kLibraryIo = 1u << 20;

net::Family family_of(AddressFamily family) {
  switch (family) {
    case AddressFamily::kIpv4: return net::Family::kIpv4;
    case AddressFamily::kIpv6: return net::Family::kIpv6;
    case AddressFamily::kAny: break;
  }
  return net::Family::kAny;
}

std::string listed(const std::vector<std::string>& exports) {
  constexpr size_t kMostShown = 20;
  const size_t shown = std::min(exports.size(), kMostShown);
  std::string text =
      fmt::format("{}", fmt::join(exports.begin(), exports.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < exports.size()) text += fmt::format(" and {} more", exports.size() - shown);
  return text;
}

bool same_address(net::Endpoint a, net::Endpoint b) {
  a.set_port(0);
  b.set_port(0);
  return net::to_string(a) == net::to_string(b);
}

}  // namespace

Nfs3Filesystem::Nfs3Filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options)
    : CachingFilesystem(loops, buffers, std::move(options), nodes_, protocol_),
      protocol_(nodes_, server_, files_) {
  for (unsigned i = 0; i < loops.size(); ++i) {
    nfs3::RpcClient::Hooks hooks;
    hooks.find_server = [this](Loop& loop) { return find_server(loop); };
    hooks.on_reconnected = [this] { protocol_.begin_epoch(); };
    clients_.push_back(std::make_unique<nfs3::RpcClient>(loops[i], options_, std::move(hooks)));
  }
}

Nfs3Filesystem::~Nfs3Filesystem() = default;

Task<Result<net::Endpoint>> Nfs3Filesystem::resolve(Loop& loop, std::string host) {
  net::Resolver resolver(loop);
  auto endpoints = co_await resolver.resolve(std::move(host), options_.port, family_of(options_.family));
  if (!endpoints) co_return fail(std::move(endpoints.error()));
  std::optional<net::Endpoint> known;
  {
    MutexLock lock(mutex_);
    known = address_;
  }
  // All connections use the same address of the server, while the server has it.
  for (const net::Endpoint& endpoint : *endpoints) {
    if (known && same_address(endpoint, *known)) co_return endpoint;
  }
  co_return endpoints->front();
}

Task<Result<net::Endpoint>> Nfs3Filesystem::find_server(Loop& loop) {
  auto found = co_await resolve(loop, options_.host);
  if (!found) co_return found;
  MutexLock lock(mutex_);
  found->set_port(address_->port());
  address_ = *found;
  co_return found;
}

Task<Result<std::string>> Nfs3Filesystem::find_export() {
  Loop& loop = parts_.loops[0];
  auto server = co_await resolve(loop, options_.host);
  if (!server) co_return fail(std::move(server.error()));
  Result<uint16_t> port = options_.v3.port;
  if (*port == 0) port = co_await nfs3::ask_port(loop, *server, nfs3::kNfsProgram, nfs3::kNfsVersion);
  if (!port) co_return fail(std::move(port.error()));
  server->set_port(*port);
  Result<net::Endpoint> mountd = *server;
  if (!options_.v3.mount_host.empty()) mountd = co_await resolve(loop, options_.v3.mount_host);
  if (!mountd) co_return fail(std::move(mountd.error()));
  port = options_.v3.mount_port;
  if (*port == 0) port = co_await nfs3::ask_port(loop, *mountd, nfs3::kMountProgram, nfs3::kMountVersion);
  if (!port) co_return fail(std::move(port.error()));
  mountd->set_port(*port);
  mountd_ = *mountd;
  {
    MutexLock lock(mutex_);
    address_ = *server;
  }
  auto mounting = nfs3::mount_export(loop, mountd_, options_.export_path, machine_);
  Result<std::string> handle = co_await std::move(mounting);
  // For a path that is not exported, servers return ACCES or NOENT.
  if (!handle && (handle.error().errnum == ENOENT || handle.error().errnum == EACCES)) {
    auto asking = nfs3::list_exports(loop, mountd_);
    const auto exports = co_await std::move(asking);
    if (exports && !exports->empty())
      handle.error().cause += fmt::format(": the server exports {}", listed(*exports));
  }
  co_return handle;
}

Task<Result<>> Nfs3Filesystem::connect_all() {
  for (const auto& client : clients_) {
    co_await client->loop().resume_here();
    Result<> started = co_await client->start();
    // Check that the server supports version 3.
    if (started && client == clients_[0]) started = co_await server_.null(machine_);
    if (started) continue;
    co_await parts_.loops[0].resume_here();
    co_return started;
  }
  co_await parts_.loops[0].resume_here();
  co_return Result<>{};
}

Task<Result<Entry>> Nfs3Filesystem::read_root(std::string handle) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.getattr(machine_, handle);
  auto root = co_await std::move(asking);
  if (!root) co_return fail(std::move(root.error()));
  if (root->status != 0) co_return fail(nfs3::nfs3_error(root->status, "GETATTR"));
  if (!S_ISDIR(root->object.attributes.mode))
    co_return fail(system_error(ENOTDIR, "MNT", options_.export_path));
  const NodeRef node = nodes_.get(handle, protocol_.export_of(root->object));
  AnsweredAttributes attributes = protocol_.answered(root->object, order);
  co_await attributes_.record(node, attributes);
  auto asking_limits = server_.fsinfo(machine_, handle);
  auto limits = co_await std::move(asking_limits);
  if (!limits) co_return fail(std::move(limits.error()));
  if (limits->status != 0) co_return fail(nfs3::nfs3_error(limits->status, "FSINFO"));
  FileLimits found;
  found.rsize = io_size(options_.rsize, limits->rtmax, kLibraryIo);
  found.wsize = io_size(options_.wsize, limits->wtmax, kLibraryIo);
  found.file_max = file_size_limit(limits->maxfilesize);
  auto asking_names = server_.pathconf(machine_, handle);
  auto names = co_await std::move(asking_names);
  if (!names) co_return fail(std::move(names.error()));
  if (names->status == 0 && names->name_max != 0) found.name_max = std::min(names->name_max, 255U);
  protocol_.set_limits(found);
  co_return attributes_.cached_entry(node, Duration::zero());
}

Task<Result<Entry>> Nfs3Filesystem::mount(FrontEnd* front_end) {
  kernel_.begin(front_end);
  co_await parts_.loops[0].resume_here();
  auto handle = co_await find_export();
  if (!handle) co_return fail(std::move(handle.error()));
  mounted_ = true;  // by MNT, so unmount() must send UMNT
  NFSRDMA_CO_TRY(co_await connect_all());
  auto root = co_await read_root(*handle);
  if (root) parts_.loops[0].spawn(run_periodically());
  co_return root;
}

Task<> Nfs3Filesystem::write_back_everything() {
  for (const NodeRef& node : files_.all()) {
    std::shared_ptr<Nfs3FileState> file;
    {
      MutexLock lock(nfs3_node(node).mutex);
      file = nfs3_node(node).file;
    }
    if (!file) continue;
    co_await write_back_.write_back(node, file);
    {
      MutexLock lock(nfs3_node(node).mutex);
      file->openers = 0;
    }
    co_await removals_.remove_if_hidden(node, file);
    files_.drop_if_unused(nfs3_node(node));
  }
}

Task<> Nfs3Filesystem::farewell() {
  co_await nfs3::unmount_export(parts_.loops[0], mountd_, options_.export_path, machine_);
}

Task<bool> Nfs3Filesystem::unmount(Duration patience) {
  co_await parts_.loops[0].resume_here();
  stopping_ = true;
  held_timer_.cancel();
  bool written = true;
  if (std::exchange(mounted_, false)) {
    written = co_await finish_within(parts_.loops[0], write_back_everything(), patience);
    (void)co_await finish_within(parts_.loops[0], farewell(), std::min<Duration>(patience, kFarewell));
  }
  for (const auto& client : clients_) co_await client->close();
  co_await parts_.loops[0].resume_here();
  co_return written;
}

bool Nfs3Filesystem::soft_timed_out() const {
  if (!options_.soft) return false;
  const Duration patience = soft_patience(options_.timeo, options_.retrans);
  return std::any_of(clients_.begin(), clients_.end(), [&](const auto& client) {
    const TimePoint since = client->stalled_since();
    return since != TimePoint{} && Clock::now() - since > patience;
  });
}

bool Nfs3Filesystem::responding() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->responding(); });
}

Statistics Nfs3Filesystem::statistics() const {
  Statistics s;
  s.server = options_.host;
  s.export_path = options_.export_path;
  s.age_seconds = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(age()).count());
  s.operations = server_.counters();
  for (const auto& client : clients_) s.transports.push_back(client->status());
  s.session.rsize = protocol_.limits().rsize;
  s.session.wsize = protocol_.limits().wsize;
  s.cache = cache_statistics();
  for (const NodeRef& node : files_.all()) {
    MutexLock lock(nfs3_node(node).mutex);
    const auto& file = nfs3_node(node).file;
    s.cache.open_files += file ? file->openers : 0;
  }
  return s;
}

}  // namespace nfsrdma::client::nfs3

namespace nfsrdma::client {

std::unique_ptr<Filesystem> make_nfs3_filesystem(LoopPool& loops, BufferPool& buffers,
                                                 ClientOptions options) {
  return std::make_unique<nfs3::Nfs3Filesystem>(loops, buffers, std::move(options));
}

}  // namespace nfsrdma::client
