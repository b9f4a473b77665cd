// SPDX-License-Identifier: Apache-2.0
// Hexadecimal text, the form of golden messages. Lines that begin with # are comments; white space is
// ignored.
#pragma once

#include <string>
#include <string_view>

#include "xdr/support/bytes.h"

namespace nfsrdma::golden {

// Ends the test run at anything but hex digits, white space and #-comments.
ByteVector from_hex(std::string_view text);
// In words of four bytes.
std::string to_hex(ConstBytes bytes);

// Prints what is wrong with the golden data and ends the test run.
[[noreturn]] void die(const std::string& what);

}  // namespace nfsrdma::golden
