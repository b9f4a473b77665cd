// SPDX-License-Identifier: Apache-2.0
// `mount --persist` and `umount --forget`: record a mount for the next boot or login. Root's mounts go to
// fstab ($LIBMOUNT_FSTAB, as for mount(8), else /etc/fstab), a user's mounts to that user's login mounts
// (login.h).
#pragma once

#include <string>
#include <vector>

#include "cli/options/option_split.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// A list that both mount(8) and our -o parse as these options. Values with commas are in double quotes.
std::string list_of(const std::vector<RawOption>& options);

// Records an existing mount on the canonical `directory`. Returns the place, for display.
Outcome<std::string> persist_mount(const std::string& source, const std::string& directory,
                                   const std::vector<RawOption>& options);

// Removes the record of `directory`, and its entries in the side bars (sidebar.h). Returns false if there
// were none.
Outcome<bool> forget_mount(const std::string& directory);

}  // namespace nfsrdma::cli
