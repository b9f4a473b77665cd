// SPDX-License-Identifier: Apache-2.0
// Checks the options of mount -o remount: those with Mutability::kRemount may change, all others must stay as
// they are.
//
// mount(8) adds the options of fstab and of the mount table to those on the command line. So an option that
// cannot change may be present, but it must equal the effective value. Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "cli/options/option_split.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// True if a remount may be unable to change the option. The caller then needs the effective options.
bool may_need_new_mount(const RawOption& option);

// `now`: the effective options, as show_options() returns them. `found_transport`: the user did not request
// the transport. `given`: options that were already parsed. Fails with MountExit::kUsage.
Outcome<> check_remount(std::string_view now, bool found_transport, const std::vector<RawOption>& given);

}  // namespace nfsrdma::cli
