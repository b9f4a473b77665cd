#include "tests/unit/fabric/support/fabrics.h"

#include "transport/fabric/iwarp/iwarp.h"

namespace nfsrdma::test {
namespace {

FabricCase iwarp_case(std::string name, fabric::iwarp::Options options, std::string address = "127.0.0.1") {
  return {std::move(name), [options](Loop& loop) { return fabric::iwarp::make_fabric(loop, options); },
          std::move(address)};
}

}  // namespace

const std::vector<FabricCase>& fabrics() {
  static const std::vector<FabricCase> all = [] {
    fabric::iwarp::Options crc;
    crc.crc = true;
    // As to a peer behind an Ethernet, and as few Reads at a time as there can be.
    fabric::iwarp::Options small;
    small.frame_bytes = 1448;
    small.ird = small.ord = 1;
    return std::vector<FabricCase>{iwarp_case("Iwarp", {}), iwarp_case("IwarpCrc", crc),
                                   iwarp_case("IwarpSmallFrames", small)};
  }();
  return all;
}

}  // namespace nfsrdma::test
