// SPDX-License-Identifier: Apache-2.0
// The other end of an iWARP connection as plain bytes on a socket, for a peer that breaks the rules.
//
// Frames are built here from the RFCs' figures with the codecs (which are tested against captured frames) and
// no other code under test. Blocking, in the test's thread; every wait ends after kPatience.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/unit/fabric/support/fabric_pair.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/fabric/iwarp/mpa.h"

namespace nfsrdma::test {

namespace iwarp = fabric::iwarp;

ByteVector ulpdu(const iwarp::Segment& segment, ConstBytes payload);
// A frame of any ULPDU, with a valid CRC.
ByteVector frame(ConstBytes ulpdu);
ByteVector frame(const iwarp::Segment& segment, ConstBytes payload = {});

iwarp::Segment send_segment(uint32_t msn, uint32_t offset = 0, bool last = true);
iwarp::Segment write_segment(const rpcrdma::segment& to, uint64_t shift = 0, bool last = true);
iwarp::Segment read_response(const iwarp::ReadRequest& to, uint64_t shift = 0, bool last = true);
ByteVector read_request(uint32_t msn, const iwarp::ReadRequest& request);

class RawPeer {
 public:
  explicit RawPeer(PeerSocket socket) : socket_(std::move(socket)) {}
  // Connects to 127.0.0.1.
  static RawPeer connect(uint16_t port);

  bool write(ConstBytes bytes) { return socket_.write(bytes); }
  iwarp::StartupFrame read_startup(iwarp::StartupFrame::Kind kind);

  struct Frame {
    iwarp::Segment segment;
    ByteVector payload;
    bool crc_good = false;
  };
  // nullopt: the connection was closed.
  std::optional<Frame> read_frame();
  // The Terminate before the end of the connection; frames before it are skipped. nullopt: there is none.
  std::optional<iwarp::Terminate> read_terminate();
  // True if the connection ends and nothing else arrives.
  bool closed() { return socket_.closed_by_client(); }
  PeerSocket& socket() { return socket_; }

 private:
  PeerSocket socket_;
};

// A passive endpoint of ours, and a raw peer connected to it.
class RawToOurs {
 public:
  explicit RawToOurs(iwarp::Options options = {}, fabric::EndpointOptions endpoint = {},
                     iwarp::StartupFrame request = iwarp::make_request({false, 8, 8, {}}));
  ~RawToOurs();

  template <class F>
  auto on_loop(F f) {
    return call_on(*loop_, std::move(f));
  }
  rpcrdma::segment expose(MutableBytes memory, fabric::Access access);

  Side ours;
  iwarp::StartupFrame reply;
  std::optional<RawPeer> raw;

 private:
  LoopThread loop_;
  std::unique_ptr<fabric::Fabric> fabric_;
};

}  // namespace nfsrdma::test
