// SPDX-License-Identifier: Apache-2.0
// ReadList: the RDMA Reads that this side has requested.
//
// At most ORD are outstanding (RFC 6581 section 9.1); the others wait here. Responses arrive in the order of
// the requests (RFC 5040 section 5.5, rule 4 of the Read Response), each from its first byte to its last. So
// only the oldest Read can get data next. Its sink has a tag from the request until the last byte.
//
// Owner: one endpoint; its loop only.
#pragma once

#include <deque>

#include "transport/fabric/fabric.h"
#include "transport/fabric/iwarp/ddp.h"
#include "transport/fabric/iwarp/stag_table.h"
#include "transport/fabric/iwarp/stream_reader.h"

namespace nfsrdma::fabric::iwarp {

class ReadList {
 public:
  ReadList(StagTable& tags, size_t ord) : tags_(tags), ord_(ord) {}

  void push(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie);
  // The next request to send, if there is one that may be sent now.
  std::optional<ReadRequest> next();

  // The place for the payload of a Read Response segment.
  Placement::Place place(const Segment& segment, size_t bytes) const;
  // `bytes` more bytes of the oldest Read have arrived. Returns its cookie if they were the last.
  std::optional<Cookie> placed(size_t bytes, bool last);

  size_t outstanding() const { return outstanding_; }
  size_t size() const { return reads_.size(); }
  void clear();

 private:
  struct Read {
    MutableBytes target;
    rpcrdma::segment source;
    Owner owner;
    Cookie cookie = 0;
    StagTable::Tag sink;  // set when the request is made
    size_t received = 0;
  };

  StagTable& tags_;
  const size_t ord_;
  std::deque<Read> reads_;  // the first outstanding_ of them have been requested
  size_t outstanding_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
