// SPDX-License-Identifier: Apache-2.0
// Hexadecimal text, as golden bytes are written down. Lines starting with # are comments; white space means
// nothing.
#pragma once

#include <string>
#include <string_view>

#include "xdr/support/bytes.h"

namespace nfsrdma::golden {

// Anything but hex digits, white space and #-comments ends the test run.
ByteVector from_hex(std::string_view text);
// In words of four bytes.
std::string to_hex(ConstBytes bytes);

// Says what is wrong with the golden data, and ends the test run.
[[noreturn]] void die(const std::string& what);

}  // namespace nfsrdma::golden
