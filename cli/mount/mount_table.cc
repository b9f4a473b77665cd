// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_table.h"

#include <fmt/core.h>
#include <libmount/libmount.h>

#include <cstring>
#include <memory>

#include "cli/persist/persist.h"

namespace nfsrdma::cli {
namespace {

struct ReleaseMount {
  void operator()(libmnt_fs* fs) const { mnt_unref_fs(fs); }
  void operator()(libmnt_table* table) const { mnt_unref_table(table); }
  void operator()(libmnt_cache* cache) const { mnt_unref_cache(cache); }
  void operator()(libmnt_update* update) const { mnt_free_update(update); }
};
template <class T>
using Owned = std::unique_ptr<T, ReleaseMount>;

// Adds a line for `fs`; if `fs` is null, removes the line of `mount_point`. Returns 0 or a negative errno.
int change_table(libmnt_fs* fs, const char* mount_point) {
  const Owned<libmnt_update> update(mnt_new_update());
  if (!update) return -ENOMEM;
  const int ready = mnt_update_set_fs(update.get(), 0, mount_point, fs);
  if (ready != 0) return ready > 0 ? 0 : ready;  // 1: nothing to do
  // libmount makes and frees the lock: 2.41 frees a caller's lock together with the update.
  return mnt_update_table(update.get(), nullptr);
}

}  // namespace

Outcome<> add_to_mount_table(const std::string& source, const std::string& mount_point,
                             const std::vector<RawOption>& options) {
  const Owned<libmnt_fs> fs(mnt_new_fs());
  int status = -ENOMEM;
  if (fs) {
    status = mnt_fs_set_source(fs.get(), source.c_str());
    if (status == 0) status = mnt_fs_set_target(fs.get(), mount_point.c_str());
    if (status == 0) status = mnt_fs_set_options(fs.get(), list_of(options).c_str());
    if (status == 0) status = mnt_fs_append_options(fs.get(), "_netdev");
  }
  if (status == 0) {
    remove_from_mount_table(mount_point);
    status = change_table(fs.get(), nullptr);
  }
  if (status == 0) return {};
  return refuse(MountExit::kSystem, fmt::format("/run/mount/utab: {}", std::strerror(-status)));
}

void remove_from_mount_table(const std::string& mount_point) {
  change_table(nullptr, mount_point.c_str());
}

std::vector<RawOption> fstab_options(const std::string& fstab, const std::string& source,
                                     const std::string& directory) {
  const Owned<libmnt_table> table(mnt_new_table());
  const Owned<libmnt_cache> cache(mnt_new_cache());
  if (!table || mnt_table_set_cache(table.get(), cache.get()) != 0) return {};
  if (mnt_table_parse_fstab(table.get(), fstab.empty() ? nullptr : fstab.c_str()) != 0) return {};
  libmnt_fs* fs = mnt_table_find_pair(table.get(), source.c_str(), directory.c_str(), MNT_ITER_FORWARD);
  const char* options = fs == nullptr ? nullptr : mnt_fs_get_options(fs);
  const auto words = split_options(options == nullptr ? "" : options);
  return words ? *words : std::vector<RawOption>{};
}

}  // namespace nfsrdma::cli
