// SPDX-License-Identifier: Apache-2.0
// Asio's own functions, for the whole program (ASIO_SEPARATE_COMPILATION).
#include <asio/impl/src.hpp>
