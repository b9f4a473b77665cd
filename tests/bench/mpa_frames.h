// SPDX-License-Identifier: Apache-2.0
// The frames in which RDMA over TCP in software brings a READ's data: FPDUs of MPA (RFC 5044 section 4.1)
// with tagged DDP segments (RFC 5041 section 4.2). In front of the data stand 2 bytes of ULPDU_Length and
// DDP's 14, behind it padding to 4 bytes and 4 of CRC, which nobody computes here. ULPDU_Length has 16 bits,
// so that DDP's 14 bytes and the data are 65,535 at most: 65,520 bytes of data are the most that need no
// padding. What does not fill a frame goes first, as the daemon's peer sends it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <sys/uio.h>

namespace frames {

inline constexpr size_t kHeaderBytes = 2 + 14;
inline constexpr size_t kMostBetween = 3 + 4 + kHeaderBytes;  // padding, CRC and the next frame's header

// Data and what stands around it, in the stream's order: to be sent, or to be received with one call, if each
// frame has as much data as it should.
class Whole {
 public:
  Whole(char* data, size_t size);

  std::vector<iovec>& parts() { return parts_; }
  size_t size() const { return size_; }
  // Of what was received.
  bool as_expected() const;

 private:
  struct Words {
    size_t end = 0;   // of the frame before: padding and CRC
    size_t data = 0;  // of the frame behind; 0: there is none
    std::array<unsigned char, kMostBetween> bytes{};
  };
  void add(size_t end, size_t data);

  std::vector<Words> words_;
  std::vector<iovec> parts_;
  size_t size_ = 0;
};

}  // namespace frames
