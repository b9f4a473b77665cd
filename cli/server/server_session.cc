// SPDX-License-Identifier: Apache-2.0
#include "cli/server/server_session.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "client/api/make_filesystem.h"
#include "transport/runtime/user_ids.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;

template <class T>
using Promise = std::shared_ptr<std::promise<T>>;

Task<> mount_root(client::Filesystem& filesystem, client::FrontEnd* front_end,
                  Promise<Result<client::Entry>> out) {
  Task<Result<client::Entry>> task = filesystem.mount(front_end);
  Result<client::Entry> root = co_await std::move(task);
  out->set_value(std::move(root));
}

using Listing = ServerSession::Listing;

Task<Result<Listing>> read_directory(client::Filesystem& filesystem, client::RequestContext context,
                                     client::NodeRef node, size_t most) {
  Task<Result<client::OpenDirectoryReply>> opening = filesystem.opendir(context, node);
  Result<client::OpenDirectoryReply> opened = co_await std::move(opening);
  if (!opened) co_return fail(std::move(opened.error()));
  Listing listing;
  uint64_t offset = 0;
  Result<> failure;
  while (!listing.more) {
    Task<Result<client::DirectoryPage>> reading =
        filesystem.readdir(context, opened->directory, offset, 65536, true);
    Result<client::DirectoryPage> page = co_await std::move(reading);
    if (!page) failure = fail(std::move(page.error()));
    if (!page || page->entries.empty()) break;
    for (client::DirectoryEntry& entry : page->entries) {
      offset = entry.next;
      if (entry.name == "." || entry.name == "..") continue;
      listing.more = listing.entries.size() == most;
      if (!listing.more) listing.entries.push_back(std::move(entry));
    }
  }
  Task<> closing = filesystem.releasedir(opened->directory);
  co_await std::move(closing);
  if (!failure) co_return fail(std::move(failure.error()));
  co_return listing;
}

Task<> list_root(client::Filesystem& filesystem, client::RequestContext context, client::NodeRef node,
                 size_t most, Promise<Result<Listing>> out) {
  Task<Result<Listing>> task = read_directory(filesystem, std::move(context), std::move(node), most);
  Result<Listing> listing = co_await std::move(task);
  out->set_value(std::move(listing));
}

Task<> end_session(client::Filesystem& filesystem, Promise<bool> out) {
  Task<bool> task = filesystem.unmount(1s);
  const bool clean = co_await std::move(task);
  out->set_value(clean);
}

rpc::CredentialPtr own_credential() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  const int n = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(n, 0)));
  std::vector<uint32_t> outer(groups.begin(), groups.end());
  const UserIds ids = UserIds::of_this_process();
  ids.make_outer(outer);
  return std::make_shared<const rpc::Credential>(host, ids.outer_user(geteuid()), ids.outer_group(getegid()),
                                                 std::move(outer));
}

template <class T>
std::optional<T> get(std::future<T>& future, std::chrono::milliseconds limit) {
  if (future.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return future.get();
}

}  // namespace

ServerSession::ServerSession(const client::ClientOptions& options)
    : filesystem_(client::make_nfs4_filesystem(loops_, pool_, options)) {
  loops_.start();
}

ServerSession::~ServerSession() {
  auto ended = std::make_shared<std::promise<bool>>();
  auto result = ended->get_future();
  loops_[0].spawn(end_session(*filesystem_, ended));
  result.wait();
  loops_.stop_and_join();
}

std::optional<Result<client::Entry>> ServerSession::mount(std::chrono::milliseconds limit) {
  auto promise = std::make_shared<std::promise<Result<client::Entry>>>();
  auto answer = promise->get_future();
  loops_[0].spawn(mount_root(*filesystem_, &front_end_, promise));
  return get(answer, limit);
}

std::optional<Result<Listing>> ServerSession::list(const client::NodeRef& directory, size_t most,
                                                   std::chrono::milliseconds limit) {
  auto promise = std::make_shared<std::promise<Result<Listing>>>();
  auto answer = promise->get_future();
  loops_[0].spawn(list_root(*filesystem_, {own_credential(), nullptr}, directory, most, promise));
  return get(answer, limit);
}

}  // namespace nfsrdma::cli
