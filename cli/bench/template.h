// SPDX-License-Identifier: Apache-2.0
// The page template that report.h fills: template.html, which CMake compiles into the program.
#pragma once

#include <string_view>

namespace nfsrdma::cli::bench {

extern const std::string_view kTemplate;

}  // namespace nfsrdma::cli::bench
