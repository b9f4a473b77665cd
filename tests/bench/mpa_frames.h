// SPDX-License-Identifier: Apache-2.0
// The frames in which software RDMA over TCP carries a READ's data: FPDUs of MPA (RFC 5044 section 4.1) with
// tagged DDP segments (RFC 5041 section 4.2). In front of the data are 2 bytes of ULPDU_Length and DDP's
// header of 14, behind it padding to 4 bytes and 4 bytes of CRC, which this program does not compute.
// ULPDU_Length has 16 bits, so DDP's 14 bytes and the data are 65,535 at most: 65,520 bytes of data are the
// most without padding. The frame that is not full comes first, as the daemon's peer sends it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <sys/uio.h>

namespace frames {

inline constexpr size_t kHeaderBytes = 2 + 14;
inline constexpr size_t kMostBetween = 3 + 4 + kHeaderBytes;  // padding, CRC and the next frame's header

// Data and the frame bytes around it as an iovec, in the stream's order: to send it, or to receive it with
// one call if each frame has the expected size.
class Whole {
 public:
  Whole(char* data, size_t size);

  std::vector<iovec>& parts() { return parts_; }
  size_t size() const { return size_; }
  // Whether the received frames have the expected sizes.
  bool as_expected() const;

 private:
  struct Words {
    size_t end = 0;   // bytes of padding and CRC of the frame before
    size_t data = 0;  // bytes of data of the next frame; 0: there is none
    std::array<unsigned char, kMostBetween> bytes{};
  };
  void add(size_t end, size_t data);

  std::vector<Words> words_;
  std::vector<iovec> parts_;
  size_t size_ = 0;
};

}  // namespace frames
