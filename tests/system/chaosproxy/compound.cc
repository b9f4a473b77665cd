// SPDX-License-Identifier: Apache-2.0
#include "compound.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

namespace chaos {

namespace {

constexpr uint32_t kNfsProgram = 100003;
constexpr uint32_t kMaxOperations = 1024;

// RFC 8881 §16.1 and RFC 7862 §15; the first name is operation 3.
constexpr std::array<const char*, 69> kNames{"ACCESS",
                                             "CLOSE",
                                             "COMMIT",
                                             "CREATE",
                                             "DELEGPURGE",
                                             "DELEGRETURN",
                                             "GETATTR",
                                             "GETFH",
                                             "LINK",
                                             "LOCK",
                                             "LOCKT",
                                             "LOCKU",
                                             "LOOKUP",
                                             "LOOKUPP",
                                             "NVERIFY",
                                             "OPEN",
                                             "OPENATTR",
                                             "OPEN_CONFIRM",
                                             "OPEN_DOWNGRADE",
                                             "PUTFH",
                                             "PUTPUBFH",
                                             "PUTROOTFH",
                                             "READ",
                                             "READDIR",
                                             "READLINK",
                                             "REMOVE",
                                             "RENAME",
                                             "RENEW",
                                             "RESTOREFH",
                                             "SAVEFH",
                                             "SECINFO",
                                             "SETATTR",
                                             "SETCLIENTID",
                                             "SETCLIENTID_CONFIRM",
                                             "VERIFY",
                                             "WRITE",
                                             "RELEASE_LOCKOWNER",
                                             "BACKCHANNEL_CTL",
                                             "BIND_CONN_TO_SESSION",
                                             "EXCHANGE_ID",
                                             "CREATE_SESSION",
                                             "DESTROY_SESSION",
                                             "FREE_STATEID",
                                             "GET_DIR_DELEGATION",
                                             "GETDEVICEINFO",
                                             "GETDEVICELIST",
                                             "LAYOUTCOMMIT",
                                             "LAYOUTGET",
                                             "LAYOUTRETURN",
                                             "SECINFO_NO_NAME",
                                             "SEQUENCE",
                                             "SET_SSV",
                                             "TEST_STATEID",
                                             "WANT_DELEGATION",
                                             "DESTROY_CLIENTID",
                                             "RECLAIM_COMPLETE",
                                             "ALLOCATE",
                                             "COPY",
                                             "COPY_NOTIFY",
                                             "DEALLOCATE",
                                             "IO_ADVISE",
                                             "LAYOUTERROR",
                                             "LAYOUTSTATS",
                                             "OFFLOAD_CANCEL",
                                             "OFFLOAD_STATUS",
                                             "READ_PLUS",
                                             "SEEK",
                                             "WRITE_SAME",
                                             "CLONE"};
constexpr uint32_t kFirstOperation = 3;

class Unknown : public std::exception {};

// Walks over XDR items; throws Unknown past the end.
class Cursor {
 public:
  explicit Cursor(const std::string& data) : data_(data) {}

  uint32_t u32() {
    need(4);
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(data_[at_++]);
    return value;
  }
  void skip(size_t bytes) {
    need(bytes);
    at_ += bytes;
  }
  void opaque() { counted(); }
  uint32_t counted() {  // an opaque; returns its length
    const uint32_t length = u32();
    skip((uint64_t{length} + 3) / 4 * 4);
    return length;
  }
  void words() { skip(size_t{4} * u32()); }  // a counted array of 32-bit items, e.g. bitmap4
  void fattr() {
    words();
    opaque();
  }

 private:
  void need(size_t bytes) const {
    if (data_.size() - at_ < bytes) throw Unknown();
  }
  const std::string& data_;
  size_t at_ = 0;
};

constexpr size_t kStateid = 16;
constexpr size_t kSession = 16;
constexpr size_t kVerifier = 8;

// RFC 5662: OPEN4args.
void skip_open(Cursor& in) {
  in.skip(4 + 4 + 4 + 8);  // seqid, share_access, share_deny, clientid
  in.opaque();             // owner
  if (in.u32() == 1) {     // OPEN4_CREATE
    const uint32_t mode = in.u32();
    if (mode == 2 || mode == 3) in.skip(kVerifier);
    if (mode != 2) in.fattr();
  }
  switch (in.u32()) {
    case 0:  // CLAIM_NULL
    case 3:  // CLAIM_DELEGATE_PREV
      return in.opaque();
    case 1:  // CLAIM_PREVIOUS
      return in.skip(4);
    case 2:  // CLAIM_DELEGATE_CUR
      in.skip(kStateid);
      return in.opaque();
    case 5:  // CLAIM_DELEG_CUR_FH
      return in.skip(kStateid);
    default:  // by file handle: no further arguments
      return;
  }
}

void skip_create(Cursor& in) {
  const uint32_t type = in.u32();
  if (type == 5) in.opaque();              // NF4LNK
  if (type == 3 || type == 4) in.skip(8);  // NF4BLK, NF4CHR
  in.opaque();
  in.fattr();
}

void skip_lock(Cursor& in) {
  in.skip(4 + 4 + 8 + 8);  // type, reclaim, offset, length
  if (in.u32() != 0) {     // open_to_lock_owner4
    in.skip(4 + kStateid + 4 + 8);
    return in.opaque();
  }
  in.skip(kStateid + 4);
}

void skip_exchange_id(Cursor& in) {
  in.skip(kVerifier);
  in.opaque();
  in.skip(4);
  if (in.u32() != 0) throw Unknown();  // state protection: not parsed
  if (in.u32() != 0) {                 // nfs_impl_id4
    in.opaque();
    in.opaque();
    in.skip(12);
  }
}

void skip_create_session(Cursor& in) {
  in.skip(8 + 4 + 4);
  for (int channel = 0; channel < 2; ++channel) {
    in.skip(6 * 4);
    in.words();
  }
  in.skip(4);
  for (uint32_t count = in.u32(); count > 0; --count) {
    const uint32_t flavor = in.u32();
    if (flavor == 1) {  // AUTH_SYS: stamp, machine name, uid, gid, gids
      in.skip(4);
      in.opaque();
      in.skip(8);
      in.words();
    } else if (flavor != 0) {
      throw Unknown();
    }
  }
}

// Skips one operation's arguments, and records the byte counts of READ and WRITE.
void skip_arguments(Cursor& in, uint32_t operation, Message& message) {
  const std::string name = operation_name(operation);
  struct Fixed {
    const char* name;
    size_t bytes;
  };
  static constexpr Fixed kFixed[] = {
      {"SEQUENCE", kSession + 16},
      {"PUTROOTFH", 0},
      {"PUTPUBFH", 0},
      {"GETFH", 0},
      {"SAVEFH", 0},
      {"RESTOREFH", 0},
      {"LOOKUPP", 0},
      {"READLINK", 0},
      {"ACCESS", 4},
      {"COMMIT", 12},
      {"CLOSE", 4 + kStateid},
      {"LOCKU", 8 + kStateid + 16},
      {"OPEN_DOWNGRADE", kStateid + 12},
      {"DELEGRETURN", kStateid},
      {"FREE_STATEID", kStateid},
      {"RECLAIM_COMPLETE", 4},
      {"DESTROY_SESSION", kSession},
      {"DESTROY_CLIENTID", 8},
      {"BIND_CONN_TO_SESSION", kSession + 8},
      {"SECINFO_NO_NAME", 4},
      {"OPENATTR", 4},
      {"RENEW", 8},
  };
  for (const Fixed& fixed : kFixed) {
    if (name == fixed.name) return in.skip(fixed.bytes);
  }
  if (name == "PUTFH" || name == "LOOKUP" || name == "REMOVE" || name == "LINK" || name == "SECINFO")
    return in.opaque();
  if (name == "GETATTR") return in.words();
  if (name == "VERIFY" || name == "NVERIFY") return in.fattr();
  if (name == "OPEN") return skip_open(in);
  if (name == "CREATE") return skip_create(in);
  if (name == "LOCK") return skip_lock(in);
  if (name == "EXCHANGE_ID") return skip_exchange_id(in);
  if (name == "CREATE_SESSION") return skip_create_session(in);
  if (name == "RENAME") {
    in.opaque();
    return in.opaque();
  }
  if (name == "SETATTR") {
    in.skip(kStateid);
    return in.fattr();
  }
  if (name == "READDIR") {
    in.skip(8 + kVerifier + 8);
    return in.words();
  }
  if (name == "READ") {
    in.skip(kStateid + 8);
    message.read_bytes = std::max(message.read_bytes, in.u32());
    return;
  }
  if (name == "WRITE") {
    in.skip(kStateid + 12);
    message.write_bytes = std::max(message.write_bytes, in.counted());
    return;
  }
  if (name == "LOCKT") {
    in.skip(4 + 16 + 8);
    return in.opaque();
  }
  if (name == "TEST_STATEID") return in.skip(size_t{in.u32()} * kStateid);
  throw Unknown();
}

}  // namespace

std::optional<Message> parse_message(const std::string& record) {
  Message message;
  Cursor in(record);
  try {
    message.xid = in.u32();
    const uint32_t direction = in.u32();
    if (direction > 1) return std::nullopt;
    message.is_call = direction == 0;
    if (!message.is_call) return message;
    in.skip(4);  // RPC version
    message.program = in.u32();
    in.skip(4);  // program version
    message.procedure = in.u32();
  } catch (const Unknown&) {
    return std::nullopt;
  }
  if (message.program != kNfsProgram || message.procedure != 1) return message;
  try {
    for (int i = 0; i < 2; ++i) {  // credential and verifier: flavor, body
      in.skip(4);
      in.opaque();
    }
    in.opaque();  // tag
    in.skip(4);   // minor version
    for (uint32_t count = std::min(in.u32(), kMaxOperations); count > 0; --count) {
      message.operations.push_back(in.u32());
      skip_arguments(in, message.operations.back(), message);
    }
  } catch (const Unknown&) {
    // Return the operations found so far.
  }
  return message;
}

std::optional<uint32_t> operation_number(const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "ANY") return kAny;
  const auto found = std::find(kNames.begin(), kNames.end(), upper);
  if (found == kNames.end()) return std::nullopt;
  return kFirstOperation + static_cast<uint32_t>(found - kNames.begin());
}

std::string operation_name(uint32_t number) {
  if (number < kFirstOperation || number - kFirstOperation >= kNames.size())
    return "OP_" + std::to_string(number);
  return kNames[number - kFirstOperation];
}

}  // namespace chaos
