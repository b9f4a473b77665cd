// Asio's own functions, for the whole program (ASIO_SEPARATE_COMPILATION).
#include <asio/impl/src.hpp>
