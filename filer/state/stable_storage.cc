// SPDX-License-Identifier: Apache-2.0
#include "filer/state/stable_storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "transport/runtime/log.h"

namespace nfsrdma::filer::state {

namespace {

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
    hex.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
  }
  return hex;
}

std::string create_line(std::string_view handle, std::string_view verifier) {
  return to_hex(verifier) + ' ' + to_hex(handle) + '\n';
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Appends the bytes to `bytes`. Returns false if `hex` is not hexadecimal.
bool from_hex(std::string_view hex, std::string& bytes) {
  if (hex.size() % 2 != 0) return false;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit_of(hex[i]);
    const int low = digit_of(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<StableStorage>> StableStorage::open(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(system_error(errno, "state directory", directory));
  Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail(system_error(errno, "state directory", directory));
  std::unique_ptr<StableStorage> storage(new StableStorage(std::move(fd)));
  NFSRDMA_TRY(storage->lock());
  NFSRDMA_TRY(storage->load_key());
  NFSRDMA_TRY(storage->load_clients());
  NFSRDMA_TRY(storage->load_creates());
  return storage;
}

Result<> StableStorage::lock() {
  lock_ = Fd(openat(directory_.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return fail(system_error(errno, "state directory", "lock"));
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(system_error(EBUSY, "state directory", "another server uses it"));
  return {};
}

Result<std::string> StableStorage::read(const char* name) const {
  const Fd fd(openat(directory_.get(), name, O_RDONLY | O_CLOEXEC));
  std::string content;
  if (!fd && errno == ENOENT) return content;
  if (!fd) return fail(system_error(errno, "state directory", name));
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd.get(), buffer, sizeof(buffer))) > 0) content.append(buffer, static_cast<size_t>(n));
  if (n < 0) return fail(system_error(errno, "state directory", name));
  return content;
}

Result<> StableStorage::replace(const char* name, const std::string& content) const {
  const std::string next = std::string(name) + ".new";
  const Fd fd(openat(directory_.get(), next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return fail(system_error(errno, "state directory", next));
  for (size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(fd.get(), content.data() + done, content.size() - done);
    if (n < 0) return fail(system_error(errno, "state directory", next));
    done += static_cast<size_t>(n);
  }
  if (fsync(fd.get()) != 0 || renameat(directory_.get(), next.c_str(), directory_.get(), name) != 0 ||
      fsync(directory_.get()) != 0)
    return fail(system_error(errno, "state directory", name));
  return {};
}

Result<> StableStorage::load_key() {
  Result<std::string> content = read("key");
  if (!content) return fail(std::move(content).error());
  if (content->size() == sizeof(key_)) {
    std::memcpy(key_.data(), content->data(), sizeof(key_));
    return {};
  }
  if (!content->empty()) return fail(system_error(EINVAL, "state directory", "key has not 16 bytes"));
  std::random_device random;
  for (uint64_t& word : key_) word = uint64_t{random()} << 32 | random();
  return replace("key", std::string(reinterpret_cast<const char*>(key_.data()), sizeof(key_)));
}

Result<> StableStorage::load_clients() {
  const Result<std::string> content = read("clients");
  if (!content) return fail(content.error());
  std::string_view rest = *content;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::string owner;
    if (!from_hex(line, owner)) return fail(system_error(EINVAL, "state directory", "clients is damaged"));
    clients_.insert(std::move(owner));
  }
  return {};
}

bool StableStorage::save(std::set<std::string> clients) {
  if (clients == clients_) return true;
  std::string content;
  for (const std::string& owner : clients) content += to_hex(owner) + '\n';
  const Result<> done = replace("clients", content);
  if (!done) {
    log::error("filer: the list of clients is not saved: {}", describe(done.error()));
    return false;
  }
  clients_ = std::move(clients);
  return true;
}

// The last line may be incomplete if the server ended while it was written.
Result<> StableStorage::load_creates() {
  const Result<std::string> content = read("creates");
  if (!content) return fail(content.error());
  std::string_view rest = *content;
  for (size_t end = 0; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    const size_t space = line.find(' ');
    std::string verifier, handle;
    if (space == line.npos || !from_hex(line.substr(0, space), verifier) ||
        !from_hex(line.substr(space + 1), handle))
      return fail(system_error(EINVAL, "state directory", "creates is damaged"));
    remember_create(std::move(handle), std::move(verifier));
  }
  return write_creates();
}

void StableStorage::remember_create(std::string handle, std::string verifier) {
  if (verifiers_.insert_or_assign(handle, std::move(verifier)).second) created_.push_back(std::move(handle));
  if (created_.size() <= kCreates) return;
  verifiers_.erase(created_.front());
  created_.pop_front();
}

Result<> StableStorage::write_creates() {
  std::string content;
  for (const std::string& handle : created_) content += create_line(handle, verifiers_.at(handle));
  NFSRDMA_TRY(replace("creates", content));
  creates_ = Fd(openat(directory_.get(), "creates", O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!creates_) return fail(system_error(errno, "state directory", "creates"));
  appended_ = 0;
  return {};
}

void StableStorage::note_create(std::string_view handle, std::string_view verifier) {
  remember_create(std::string(handle), std::string(verifier));
  if (++appended_ > kCreates) {
    if (const Result<> done = write_creates(); !done)
      log::error("filer: exclusive creates are not remembered: {}", describe(done.error()));
    return;
  }
  const std::string line = create_line(handle, verifier);
  if (::write(creates_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  log::error("filer: an exclusive create is not remembered: {}", std::strerror(errno));
  // A part of the line may have been written, so the file must be rewritten before the next line.
  appended_ = kCreates;
}

bool StableStorage::was_created_by(std::string_view handle, std::string_view verifier) const {
  const auto at = verifiers_.find(std::string(handle));
  return at != verifiers_.end() && at->second == verifier;
}

}  // namespace nfsrdma::filer::state
