// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse doctor [DIR|SERVER[:/PATH]]`: what it was asked, and how it is run.
#pragma once

#include <string>

namespace nfsrdma::cli::doctor {

struct DoctorVerb {
  std::string what;  // empty: this machine, and the caller's mounts
  bool json = false;
  std::string bundle;  // write this archive instead of the report
  bool with_names = false;
};

// ToolExit: kOk, nothing is bad; kFailed, something is; kUsage and kNotOurs for what cannot be asked about.
// The process should end at once afterwards: see gather.h.
int run_doctor(const std::string& program, const DoctorVerb& verb);

}  // namespace nfsrdma::cli::doctor
