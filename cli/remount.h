// SPDX-License-Identifier: Apache-2.0
// What mount -o remount may be given: what it changes (Mutability::kRemount), and everything else as it is.
//
// mount(8) adds the options of fstab and of the mount table to those that are typed, so what cannot be
// changed may be there, but must say what is in force already. Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "cli/option_split.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

// Whether the option could be one that a remount cannot change, so that what is in force must be known.
bool may_need_new_mount(const RawOption& option);

// `now`: what is in force, as show_options() has it; `found_transport`: its transport was not asked for.
// `given`: options that were parsed before. Fails with MountExit::kUsage.
Outcome<> check_remount(std::string_view now, bool found_transport, const std::vector<RawOption>& given);

}  // namespace nfsrdma::cli
