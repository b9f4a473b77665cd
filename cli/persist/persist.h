// SPDX-License-Identifier: Apache-2.0
// `mount --persist` and `umount --forget`: where a mount is written down, by who asks: root's in fstab
// ($LIBMOUNT_FSTAB, as for mount(8), else /etc/fstab), a user's among what he has at login (login.h).
#pragma once

#include <string>
#include <vector>

#include "cli/option_split.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

// A list that both mount(8) and our own -o read as these options: values with commas in double quotes.
std::string list_of(const std::vector<RawOption>& options);

// Of a mount that is there, on the canonical `directory`. Returns where, for people.
Outcome<std::string> persist_mount(const std::string& source, const std::string& directory,
                                   const std::vector<RawOption>& options);

// False: nothing was written down for this directory.
Outcome<bool> forget_mount(const std::string& directory);

}  // namespace nfsrdma::cli
