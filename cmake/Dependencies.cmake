# SPDX-License-Identifier: Apache-2.0
# Everything comes from Debian 12's packages; scripts/setup installs them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected QUIET)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
find_path(EXPECTED_INCLUDE_DIR tl/expected.hpp REQUIRED)
pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3)
pkg_check_modules(LIBNFS REQUIRED IMPORTED_TARGET libnfs)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)
pkg_check_modules(GSS REQUIRED IMPORTED_TARGET krb5-gssapi krb5)
pkg_check_modules(RDMA REQUIRED IMPORTED_TARGET librdmacm libibverbs)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(MOUNT REQUIRED IMPORTED_TARGET mount)
pkg_check_modules(NCURSES REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
find_package(CLI11 REQUIRED)
find_program(SCDOC scdoc)
if(NOT SCDOC)
  message(FATAL_ERROR "scdoc is missing, which makes the manual pages: install Debian's package scdoc (scripts/setup does)")
endif()

# Standalone Asio, compiled once (transport/runtime/asio.cc) instead of in every file that includes it.
add_library(nfsrdma_asio INTERFACE)
target_include_directories(nfsrdma_asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
# Asio recognises std::aligned_alloc by a macro that exists only after a libstdc++ header was included. Without the
# last definition, files that include Asio first would allocate with operator new what other files give to free().
target_compile_definitions(nfsrdma_asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION
  ASIO_NO_DEPRECATED ASIO_HAS_STD_ALIGNED_ALLOC=1)
target_link_libraries(nfsrdma_asio INTERFACE Threads::Threads)

if(NFSRDMA_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
