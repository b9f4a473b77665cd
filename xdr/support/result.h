// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error. It is tl::expected, because libstdc++ 12 has std::expected only with C++23
// and without and_then. The alias keeps a later change to one line.
#pragma once

#include <tl/expected.hpp>

#include "xdr/support/error.h"

namespace nfsrdma {

template <class T = void>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace nfsrdma

// Early return on error for plain functions and coroutines.
#define NFSRDMA_TRY(expr)                                                                                   \
  do {                                                                                                      \
    if (auto nfsrdma_try_ = (expr); !nfsrdma_try_) return ::nfsrdma::fail(std::move(nfsrdma_try_).error()); \
  } while (false)
#define NFSRDMA_CO_TRY(expr)                                      \
  do {                                                            \
    if (auto nfsrdma_try_ = (expr); !nfsrdma_try_)                \
      co_return ::nfsrdma::fail(std::move(nfsrdma_try_).error()); \
  } while (false)
