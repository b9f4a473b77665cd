// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse doctor [DIR|SERVER[:/PATH]]`: its options, and the function that runs it.
#pragma once

#include <string>

namespace nfsrdma::cli::doctor {

struct DoctorVerb {
  std::string what;  // empty: this machine and the caller's mounts
  bool json = false;
  std::string bundle;  // write this archive and no report
  bool with_names = false;
};

// Returns ToolExit: kOk if no verdict is bad, kFailed if one is, kUsage and kNotOurs for an argument that
// cannot be checked. The process should exit at once afterwards: unanswered requests may still run on other
// threads (gather.h).
int run_doctor(const std::string& program, const DoctorVerb& verb);

}  // namespace nfsrdma::cli::doctor
