// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648 section 4) for bytes within JSON. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "xdr/support/bytes.h"

namespace nfsrdma::cli {

std::string to_base64(ConstBytes bytes);
// Returns nothing if the text is not padded base64.
std::optional<ByteVector> from_base64(std::string_view text);

}  // namespace nfsrdma::cli
