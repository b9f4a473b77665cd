// SPDX-License-Identifier: Apache-2.0
// The page that report.h fills; template.html, as CMake puts it into the program.
#pragma once

#include <string_view>

namespace nfsrdma::cli::bench {

extern const std::string_view kTemplate;

}  // namespace nfsrdma::cli::bench
