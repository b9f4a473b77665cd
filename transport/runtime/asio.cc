// SPDX-License-Identifier: Apache-2.0
// Compiles Asio's own functions once for the whole program (ASIO_SEPARATE_COMPILATION).
#include <asio/impl/src.hpp>
