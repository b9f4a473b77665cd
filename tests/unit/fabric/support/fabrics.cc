// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fabric/support/fabrics.h"

#include "tests/unit/fabric/support/rdma_device.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::test {
namespace {

FabricCase iwarp_case(std::string name, fabric::iwarp::Options options, std::string address = "127.0.0.1") {
  return {std::move(name),
          [options](Loop& loop) { return fabric::iwarp::make_fabric(loop, options); },
          std::move(address),
          {},
          nullptr};
}

// Endpoints need the pool for their whole life, and they live until the pair is destroyed.
BufferPool& verbs_pool() {
  static BufferPool pool;
  return pool;
}

FabricCase verbs_case(std::string name, fabric::verbs::Options options, const RdmaDevice& device) {
  return {std::move(name),
          [options](Loop& loop) {
            return fabric::verbs::make_fabric(loop, options,
                                              fabric::verbs::make_shared_domains(verbs_pool()));
          },
          device.address, device.lacking, &verbs_pool()};
}

}  // namespace

const std::vector<FabricCase>& fabrics() {
  static const std::vector<FabricCase> all = [] {
    fabric::iwarp::Options crc;
    crc.crc = true;
    // Frames as for a peer behind an Ethernet, and the smallest number of Reads.
    fabric::iwarp::Options small;
    small.frame_bytes = 1448;
    small.ird = small.ord = 1;
    const RdmaDevice device = find_rdma_device(AF_INET);
    // The smallest values, so that everything has to wait for room.
    fabric::verbs::Options narrow;
    narrow.send_depth = 4;
    narrow.reads = 1;
    narrow.copy_below = 0;
    fabric::verbs::Options registrations;
    registrations.windows = false;
    fabric::verbs::Options polling;
    polling.poll = std::chrono::microseconds(50);

    return std::vector<FabricCase>{iwarp_case("Iwarp", {}),
                                   iwarp_case("IwarpCrc", crc),
                                   iwarp_case("IwarpSmallFrames", small),
                                   verbs_case("Verbs", {}, device),
                                   verbs_case("VerbsNarrow", narrow, device),
                                   verbs_case("VerbsWithoutWindows", registrations, device),
                                   verbs_case("VerbsPolling", polling, find_rdma_device(AF_INET6))};
  }();
  return all;
}

}  // namespace nfsrdma::test
