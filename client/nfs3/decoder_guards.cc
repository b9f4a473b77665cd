// SPDX-License-Identifier: Apache-2.0
#include "client/nfs3/decoder_guards.h"

#include <arpa/inet.h>
#include <dlfcn.h>

#include <cstring>
#include <optional>

#include "client/nfs3/libnfs.h"

namespace nfsrdma::client::nfs3 {
namespace {

// The library's own function of that name. (RTLD_NEXT skips the program, which defines ours.)
template <class Function>
Function* own(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

uint32_t bytes_left(const ZDR& zdr) {
  return zdr.pos < 0 || zdr.pos > zdr.size ? 0 : static_cast<uint32_t>(zdr.size - zdr.pos);
}

// The next word: a length or a count.
std::optional<uint32_t> next_word(const ZDR& zdr) {
  if (bytes_left(zdr) < 4) return std::nullopt;
  uint32_t word = 0;
  std::memcpy(&word, zdr.buf + zdr.pos, sizeof word);
  return ntohl(word);
}

// True if the next word is at most `most`, and that many units of at least `unit` bytes can follow it.
bool fits(const ZDR& zdr, uint32_t most, uint32_t unit) {
  if (zdr.x_op != ZDR_DECODE) return true;
  const auto count = next_word(zdr);
  return count && *count <= most && *count <= (bytes_left(zdr) - 4) / unit;
}

thread_local uint32_t depth = 0;
thread_local KeptFragments* counting = nullptr;

}  // namespace

CountFragments::CountFragments(KeptFragments& kept) {
  counting = &kept;
}

CountFragments::~CountFragments() {
  counting = nullptr;
}

}  // namespace nfsrdma::client::nfs3

// Functions of the library that are not in its headers.
extern "C" {
int rpc_add_fragment(rpc_context* rpc, char* data, uint32_t size);
void rpc_free_all_fragments(rpc_context* rpc);
}

namespace nfsrdma::client::nfs3 {

bool decoder_is_guarded() {
  const auto ours = [](const char* name, auto* function) {
    return dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(function) && own<void()>(name) != nullptr;
  };
  return ours("libnfs_zdr_string", libnfs_zdr_string) && ours("libnfs_zdr_bytes", libnfs_zdr_bytes) &&
         ours("libnfs_zdr_opaque", libnfs_zdr_opaque) && ours("libnfs_zdr_array", libnfs_zdr_array) &&
         ours("libnfs_zdr_pointer", libnfs_zdr_pointer) && ours("rpc_add_fragment", rpc_add_fragment) &&
         ours("rpc_free_all_fragments", rpc_free_all_fragments);
}

}  // namespace nfsrdma::client::nfs3

extern "C" {

bool_t libnfs_zdr_string(ZDR* zdr, char** string, uint32_t most) {
  static auto* const theirs = nfsrdma::client::nfs3::own<decltype(libnfs_zdr_string)>("libnfs_zdr_string");
  return nfsrdma::client::nfs3::fits(*zdr, most, 1) ? theirs(zdr, string, most) : bool_t{0};
}

bool_t libnfs_zdr_bytes(ZDR* zdr, char** bytes, uint32_t* size, uint32_t most) {
  static auto* const theirs = nfsrdma::client::nfs3::own<decltype(libnfs_zdr_bytes)>("libnfs_zdr_bytes");
  return nfsrdma::client::nfs3::fits(*zdr, most, 1) ? theirs(zdr, bytes, size, most) : bool_t{0};
}

bool_t libnfs_zdr_opaque(ZDR* zdr, char* bytes, uint32_t size) {
  static auto* const theirs = nfsrdma::client::nfs3::own<decltype(libnfs_zdr_opaque)>("libnfs_zdr_opaque");
  if (zdr->x_op == ZDR_DECODE && size > nfsrdma::client::nfs3::bytes_left(*zdr)) return 0;
  return theirs(zdr, bytes, size);
}

// An element takes at least one word.
bool_t libnfs_zdr_array(ZDR* zdr, char** array, uint32_t* count, uint32_t most, uint32_t element_bytes,
                        zdrproc_t element) {
  static auto* const theirs = nfsrdma::client::nfs3::own<decltype(libnfs_zdr_array)>("libnfs_zdr_array");
  // The library multiplies in 32 bits: limit the count so that this cannot wrap.
  const bool small = element_bytes == 0 || most <= UINT32_MAX / element_bytes;
  const uint32_t bound = small ? most : UINT32_MAX / element_bytes;
  if (!nfsrdma::client::nfs3::fits(*zdr, bound, 4)) return 0;
  return theirs(zdr, array, count, most, element_bytes, element);
}

bool_t libnfs_zdr_pointer(ZDR* zdr, char** object, uint32_t size, zdrproc_t decode) {
  static auto* const theirs = nfsrdma::client::nfs3::own<decltype(libnfs_zdr_pointer)>("libnfs_zdr_pointer");
  using nfsrdma::client::nfs3::depth;
  if (depth >= nfsrdma::client::nfs3::kDeepestList) return 0;
  ++depth;
  const bool_t done = theirs(zdr, object, size, decode);
  --depth;
  return done;
}

int rpc_add_fragment(rpc_context* rpc, char* data, uint32_t size) {
  static auto* const theirs = nfsrdma::client::nfs3::own<decltype(rpc_add_fragment)>("rpc_add_fragment");
  if (auto* const kept = nfsrdma::client::nfs3::counting) {
    kept->bytes += size + nfsrdma::client::nfs3::kFragmentCost;
    if (kept->bytes > nfsrdma::client::nfs3::kMostFragmentBytes) return -1;
  }
  return theirs(rpc, data, size);
}

void rpc_free_all_fragments(rpc_context* rpc) {
  static auto* const theirs =
      nfsrdma::client::nfs3::own<decltype(rpc_free_all_fragments)>("rpc_free_all_fragments");
  if (auto* const kept = nfsrdma::client::nfs3::counting) kept->bytes = 0;
  theirs(rpc);
}

}  // extern "C"
