// SPDX-License-Identifier: Apache-2.0
// Messages for tests of contexts, and what a context makes of them.
#pragma once

#include <gtest/gtest.h>

#include "transport/security/gss/context.h"

namespace nfsrdma::gss {

inline ByteVector pattern(size_t n, unsigned seed = 1) {
  ByteVector bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return bytes;
}

inline ByteVector wrapped(const Context& context, Pieces pieces) {
  size_t sum = 0;
  for (const ConstBytes piece : pieces) sum += piece.size();
  ByteVector token(context.wrapped_bytes(sum));
  const auto done = context.wrap(pieces, token);
  EXPECT_TRUE(done) << describe(done.error());
  return token;
}

}  // namespace nfsrdma::gss
