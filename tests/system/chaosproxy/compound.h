// SPDX-License-Identifier: Apache-2.0
// Parses ONC RPC records far enough to find the NFSv4 operations of a COMPOUND.
//
// Written for tests, from RFC 5531, 8881 and 5662, and deliberately separate from the client's codec: the
// observer must not share the client's mistakes. No allocation depends on a length on the wire. Parsing stops
// at anything that it does not know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace chaos {

constexpr uint32_t kAny = 0xffffffff;  // an operation that matches every record

struct Message {
  uint32_t xid = 0;
  bool is_call = false;
  uint32_t program = 0;    // calls only
  uint32_t procedure = 0;  // calls only
  // NFSv4 COMPOUND calls only:
  std::vector<uint32_t> operations;  // in their order
  uint32_t read_bytes = 0;           // bytes requested by the largest READ
  uint32_t write_bytes = 0;          // bytes carried by the largest WRITE
};

// Parses a record: its RPC header and, for an NFSv4 COMPOUND call, its operations. Empty when it is no RPC
// message.
std::optional<Message> parse_message(const std::string& record);

// "OPEN" gives 18, "any" gives kAny. Empty for unknown names.
std::optional<uint32_t> operation_number(const std::string& name);
std::string operation_name(uint32_t number);

}  // namespace chaos
