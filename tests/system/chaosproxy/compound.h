// SPDX-License-Identifier: Apache-2.0
// Looks into ONC RPC records just far enough to say which NFSv4 operations a COMPOUND holds.
//
// Written for tests, from RFC 5531, 8881 and 5662, and on purpose apart from the client's codec: the observer
// shall not share the observed one's mistakes. Nothing is allocated from a length on the wire; what cannot be
// followed ends the list.
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
  uint32_t read_bytes = 0;           // asked for by the largest READ
  uint32_t write_bytes = 0;          // carried by the largest WRITE
};

// The head of a record and, of an NFSv4 COMPOUND call, its operations. Empty when it is no RPC message.
std::optional<Message> parse_message(const std::string& record);

// OPEN, 18; "any" is kAny. Empty for names that do not exist.
std::optional<uint32_t> operation_number(const std::string& name);
std::string operation_name(uint32_t number);

}  // namespace chaos
