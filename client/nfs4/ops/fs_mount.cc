// SPDX-License-Identifier: Apache-2.0
// Mount, unmount, statfs, and data about the whole mount.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "client/api/make_filesystem.h"
#include "client/nfs4/ops/nfs4_filesystem.h"
#include "transport/runtime/deadline.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// Components of a mount path per COMPOUND; few mount paths have more.
constexpr size_t kComponentsPerCompound = 8;
// SEQUENCE, PUTROOTFH or PUTFH, GETFH, GETATTR.
constexpr size_t kOperationsBesideLookups = 4;
// The time for DESTROY_SESSION and DESTROY_CLIENTID if the server is connected but does not answer.
constexpr Duration kFarewell = std::chrono::seconds(10);

ClientOptions with_client_name(ClientOptions options) {
  // Section 2.4: co_ownerid must differ between the instances of a client that run at the same time.
  if (options.client_name.empty()) {
    std::random_device random;
    options.client_name =
        fmt::format("nfsrdma-fuse {} {} {:08x}{:08x}", machine_name(), getpid(), random(), random());
  }
  return options;
}

std::vector<std::string> components_of(const std::string& path) {
  std::vector<std::string> all;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) all.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

}  // namespace

Nfs4Filesystem::Nfs4Filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options)
    : CachingFilesystem(loops, buffers, with_client_name(std::move(options)), nodes_, protocol_),
      ids_(options_.id_mapping),
      session_(parts_.loops, parts_.buffers, options_, machine_),
      server_limits_(parts_, session_),
      replies_(nodes_, ids_, exports_, session_, server_limits_),
      recorder_(replies_, attributes_, access_, names_),
      states_(session_, nodes_.names(), delegations_, *this, options_.close_delay),
      callbacks_(session_.slots(), nodes_, delegations_),
      locks_(parts_, session_, states_, kept_, write_back_, attributes_),
      delegating_(parts_, nodes_, session_, delegations_, states_, kept_, write_back_),
      protocol_(parts_, nodes_, exports_, session_, states_, delegating_, server_limits_, replies_),
      export_finder_(parts_, session_) {
  delegations_.attach(&delegating_);
  session_.attach(&states_.keeper(), &callbacks_);
}

Nfs4Filesystem::~Nfs4Filesystem() = default;

Task<Result<Entry>> Nfs4Filesystem::mount(FrontEnd* front_end) {
  kernel_.begin(front_end);
  co_await parts_.loops[0].resume_here();
  Result<> started = co_await session_.start();
  if (!started) co_return fail(std::move(started.error()));
  Result<Entry> root = co_await walk_to_export();
  if (!root) co_return root;
  NFSRDMA_CO_TRY(co_await server_limits_.read_root(root->node));
  mounted_ = true;
  parts_.loops[0].spawn(run_periodically());
  co_return root;
}

Task<Result<Entry>> Nfs4Filesystem::walk_to_export() {
  const std::vector<std::string> path = components_of(options_.export_path);
  nfs4::nfs_fh4 fh;
  Entry root;
  const size_t at_once =
      std::min(kComponentsPerCompound, session_.fore_channel().operations() - kOperationsBesideLookups);
  for (size_t at = 0; at == 0 || at < path.size(); at += at_once) {
    const size_t end = std::min(path.size(), at + at_once);
    const bool last = end == path.size();
    const uint64_t order = nodes_.next_start();
    auto build = [&](CompoundBuilder& b) {
      if (at == 0) {
        b.add(nfs4::PUTROOTFH4args{});
      } else {
        b.putfh(fh);
      }
      for (size_t i = at; i < end; ++i) b.add(nfs4::LOOKUP4args{path[i]});
      b.add(nfs4::GETFH4args{});
      if (last) b.getattr(kFileAttributes);
    };
    const Request request{.op = nfs4::OP_LOOKUP, .credential = machine_, .build = build};
    Result<CompoundReply> reply = co_await session_.run(request);
    if (!reply) co_return fail(std::move(reply.error()));
    // Find out which operation failed.
    size_t reached = at;
    Result<> found = at == 0 ? reply->expect<nfs4::PUTROOTFH4res>() : reply->expect<nfs4::PUTFH4res>();
    for (; found && reached < end; ++reached) found = reply->expect<nfs4::LOOKUP4res>();
    Result<nfs4::GETFH4res> handle = found ? reply->take<nfs4::GETFH4res>() : fail(std::move(found.error()));
    if (!handle) {
      std::vector<std::string> names(path.begin() + static_cast<ptrdiff_t>(at),
                                     path.begin() + static_cast<ptrdiff_t>(reached));
      auto explaining =
          export_finder_.explain(std::move(handle.error()), at == 0 ? nullptr : &fh, std::move(names));
      Error explained = co_await std::move(explaining);
      co_return fail(std::move(explained));
    }
    fh = handle->resok4.object;
    if (!last) continue;
    auto attributes = reply->take<nfs4::GETATTR4res>();
    if (!attributes) {
      auto explaining = export_finder_.explain(std::move(attributes.error()), nullptr, path);
      Error explained = co_await std::move(explaining);
      co_return fail(std::move(explained));
    }
    root = co_await recorder_.make_entry(fh, attributes->resok4.obj_attributes, order, Cause::kAsked);
  }
  if (!S_ISDIR(root.attributes.mode)) co_return fail(system_error(ENOTDIR, "LOOKUP", options_.export_path));
  co_return root;
}

Task<> Nfs4Filesystem::write_back_everything() {
  co_await ahead_.end_all_read_ahead();
  for (const NodeRef& node : states_.registry().files()) {
    std::shared_ptr<FileState> file;
    std::vector<std::pair<OpenStateRef, uint32_t>> openers;
    {
      MutexLock lock(nfs4_node(node).mutex);
      file = nfs4_node(node).file;
      if (!file) continue;
      if (file->delegation) {
        // The delegation's return closes these opens after the data is written.
        for (const OpenStateRef& state : file->opens) state->openers = {};
        if (!file->unsaved()) continue;
      }
      for (const OpenStateRef& state : file->opens) {
        for (uint32_t access = 1; access < state->openers.size(); ++access) {
          // After this, one closed() per share access closes all of its openers.
          if (state->openers[access] == 0) continue;
          state->openers[access] = 1;
          openers.emplace_back(state, access);
        }
      }
    }
    co_await write_back_.write_back(node, file);
    for (const auto& [state, access] : openers) co_await states_.closer().closed(file, state, access);
    states_.registry().drop_if_unused(nfs4_node(node));
  }
  co_await states_.closer().close_rest();
  co_await delegating_.give_back_everything();
}

Task<bool> Nfs4Filesystem::unmount(Duration patience) {
  co_await parts_.loops[0].resume_here();
  stopping_ = true;
  held_timer_.cancel();
  states_.closer().close_at_once();
  const TimePoint end = Clock::now() + patience;
  bool written = true;
  if (std::exchange(mounted_, false))
    written = co_await finish_within(parts_.loops[0], write_back_everything(), patience);
  // The data is on the server, or `patience` is over. If the server does not answer DESTROY_SESSION, our
  // lease expires by itself.
  const Duration left = std::max<Duration>(end - Clock::now(), std::chrono::milliseconds(100));
  const bool answered = co_await session_.stop(std::min<Duration>(left, kFarewell));
  co_return written&& answered;
}

Task<Result<FilesystemStatus>> Nfs4Filesystem::statfs(RequestContext ctx, NodeRef node) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kSpaceAttributes); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  auto res = take_behind_putfh<nfs4::GETATTR4res>(reply);
  if (!res) co_return fail(std::move(res.error()));
  const nfs4::fattr4& a = res->resok4.obj_attributes;
  FilesystemStatus s;
  s.block_size = 4096;
  s.name_max = protocol_.limits_of(node).name_max;
  if (a.has(nfs4::FATTR4_SPACE_TOTAL)) s.total_bytes = a.fs->space_total;
  if (a.has(nfs4::FATTR4_SPACE_FREE)) s.free_bytes = a.fs->space_free;
  if (a.has(nfs4::FATTR4_SPACE_AVAIL)) s.available_bytes = a.fs->space_avail;
  if (a.has(nfs4::FATTR4_FILES_TOTAL)) s.total_files = a.fs->files_total;
  if (a.has(nfs4::FATTR4_FILES_FREE)) s.free_files = a.fs->files_free;
  if (a.has(nfs4::FATTR4_FILES_AVAIL)) s.available_files = a.fs->files_avail;
  co_return s;
}

bool Nfs4Filesystem::soft_timed_out() const {
  if (!options_.soft) return false;
  const TimePoint since = session_.connections().stalled_since();
  return since != TimePoint{} && Clock::now() - since > soft_patience(options_.timeo, options_.retrans);
}

bool Nfs4Filesystem::responding() const {
  return session_.connections().responding();
}

Statistics Nfs4Filesystem::statistics() const {
  Statistics s;
  s.server = options_.host;
  s.export_path = options_.export_path;
  s.age_seconds = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(age()).count());
  s.operations = const_cast<Session&>(session_).counters().snapshot();
  s.transports = session_.connections().status();
  s.session = session_.statistics();
  s.session.rsize = server_limits_.root().rsize;
  s.session.wsize = server_limits_.root().wsize;
  s.session.callbacks = callbacks_.count();
  s.cache = cache_statistics();
  const StateRegistry::Counts counts = states_.registry().counts();
  s.cache.open_files = counts.opens;
  s.cache.locks = counts.locks;
  s.cache.locks_lost = counts.locks_lost;
  s.delegations = delegations_.statistics();
  return s;
}

}  // namespace nfsrdma::client::nfs4

namespace nfsrdma::client {

std::unique_ptr<Filesystem> make_nfs4_filesystem(LoopPool& loops, BufferPool& buffers,
                                                 ClientOptions options) {
  return std::make_unique<nfs4::Nfs4Filesystem>(loops, buffers, std::move(options));
}

}  // namespace nfsrdma::client
