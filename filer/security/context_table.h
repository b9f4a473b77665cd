// SPDX-License-Identifier: Apache-2.0
// ContextTable: the RPCSEC_GSS contexts that the server keeps, by their handles (RFC 2203 section 5.3.3.1).
//
// "due to resource constraints, the server may destroy a context prematurely (on an LRU basis ...)" (section
// 5.3.3.3): its client then gets RPCSEC_GSS_CREDPROBLEM and makes another. Who has too many loses his own: at
// the limits below, the context goes that was unused for longest, of the same principal at the same address,
// else of the same address, else of the address that has most. Contexts that are not established yet have a
// limit of their own, because their peers have proven nothing.
//
// Handles are random, so a stranger cannot name a context. A context that is taken out of the table lives on
// until the calls that use it are answered. Loop thread.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filer/tree/principal.h"
#include "transport/runtime/loop.h"
#include "transport/security/gss/establishment.h"
#include "transport/security/sequence_window.h"

namespace nfsrdma::filer::security {

// Calls that a client may have under way in one context (seq_window). More than a session has slots.
inline constexpr uint32_t kSequenceWindow = 2048;

// One context, from its first token on.
struct ServerContext {
  std::optional<gss::Acceptor> acceptor{};  // until it is established
  std::optional<gss::Context> keys{};       // from then on, ...
  tree::Principal who{};                    // ...with the initiator...
  TimePoint looked_up{};                    // ...as this host knew him then...
  TimePoint ends = TimePoint::max();        // ...and the end of its ticket...
  TimePoint ask_again{};                    // ...which the library is asked for again then
  nfsrdma::security::SequenceWindow window{kSequenceWindow};
  std::string address{};  // where its first token came from

  bool established() const { return keys.has_value(); }
};

using ContextPtr = std::shared_ptr<ServerContext>;

class ContextTable {
 public:
  static constexpr size_t kHandleBytes = 16;
  using Handle = std::array<std::byte, kHandleBytes>;

  struct Limits {
    size_t all = 4096;
    size_t of_principal = 256;  // of one principal at one address
    size_t incomplete = 64;     // not established, of all peers
  };

  explicit ContextTable(Limits limits) : limits_(limits) {}
  ContextTable() : ContextTable(Limits{}) {}

  // Adds a context, established or not. Other contexts may go for it.
  Handle add(ContextPtr context);
  // Must be called when a context of the table has become established.
  void established(const Handle& handle);
  // The context, which counts as used now; null: there is none (any more). Contexts that are not established
  // are found, too.
  ContextPtr find(ConstBytes handle);
  void remove(ConstBytes handle);
  // Removes the established contexts whose tickets have ended.
  void remove_ended(TimePoint now);
  void clear();

  size_t size() const { return entries_.size(); }

 private:
  // An address; with a principal's name, or "" for contexts that are not established.
  using Owner = std::pair<std::string, std::string>;
  struct Entry {
    Handle handle{};
    ContextPtr context{};
    Owner owner{};
  };
  using Entries = std::list<Entry>;  // in order of their last use, the latest first

  static std::optional<Handle> handle_of(ConstBytes bytes);
  void count(const Entry& entry, bool more);
  void remove(Entries::iterator entry);
  // Removes the context unused for longest for which `goes` is true.
  template <class Goes>
  void remove_oldest(Goes goes);
  void make_room_for(const Owner& owner);
  const std::string& fullest_address() const;

  const Limits limits_;
  Entries entries_;
  std::map<Handle, Entries::iterator> by_handle_;
  std::map<Owner, size_t> of_owner_;
  std::map<std::string, size_t> of_address_;
  size_t incomplete_ = 0;
};

}  // namespace nfsrdma::filer::security
