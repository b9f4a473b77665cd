// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpcrdma/private_data.h"

#include <algorithm>

namespace nfsrdma::rpcrdma {
namespace {

constexpr uint32_t kFormatIdentifier = 0xf6ab0e18;
constexpr uint8_t kFormatVersion = 1;
constexpr uint8_t kRemoteInvalidation = 0x01;
constexpr size_t kUnit = 1024;

std::byte encoded_size(size_t bytes) {
  return static_cast<std::byte>(std::clamp(bytes, kUnit, 256 * kUnit) / kUnit - 1);
}

size_t decoded_size(std::byte v) {
  return (std::to_integer<size_t>(v) + 1) * kUnit;
}

}  // namespace

std::array<std::byte, kPrivateDataBytes> encode(const private_data& v) {
  std::array<std::byte, kPrivateDataBytes> out{};
  store_be32(out.data(), kFormatIdentifier);
  out[4] = std::byte{kFormatVersion};
  out[5] = std::byte{v.remote_invalidation ? kRemoteInvalidation : uint8_t{0}};
  out[6] = encoded_size(v.send_bytes);
  out[7] = encoded_size(v.receive_bytes);
  return out;
}

private_data find_private_data(ConstBytes data) {
  for (size_t at = 0; at + kPrivateDataBytes <= data.size(); ++at) {
    const std::byte* p = data.data() + at;
    if (load_be32(p) != kFormatIdentifier) continue;
    if (std::to_integer<uint8_t>(p[4]) != kFormatVersion) break;
    return {(std::to_integer<uint8_t>(p[5]) & kRemoteInvalidation) != 0, decoded_size(p[6]),
            decoded_size(p[7])};
  }
  return {};
}

}  // namespace nfsrdma::rpcrdma
