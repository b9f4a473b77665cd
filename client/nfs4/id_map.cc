// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/id_map.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <cerrno>
#include <charconv>

#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

constexpr size_t kMaxAnswers = 65536;
constexpr auto kAnswerLife = std::chrono::minutes(10);
// For failures that may go away, such as a directory service that does not answer.
constexpr auto kFailureLife = std::chrono::seconds(10);

std::optional<uint32_t> number_of(const std::string& name) {
  uint32_t id = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, id);
  if (error != std::errc() || stop != end || name.empty()) return std::nullopt;
  if (id == UINT32_MAX) return std::nullopt;  // chown(2) uses this value for "do not change": it is no owner
  return id;
}

}  // namespace

// The functions of libnfsidmap (nfsidmap.h). They are loaded by name, so that other mounts do not need the
// package.
struct IdMap::Library {
  void* handle = nullptr;
  int (*init)(char*) = nullptr;
  int (*owner_to_uid)(char*, uid_t*) = nullptr;
  int (*group_owner_to_gid)(char*, gid_t*) = nullptr;
  int (*uid_to_owner)(uid_t, char* domain, char*, size_t) = nullptr;
  int (*gid_to_group_owner)(gid_t, char* domain, char*, size_t) = nullptr;
  int (*get_default_domain)(char* server, char*, size_t) = nullptr;
  char domain[256] = "";

  template <class F>
  bool load(F& f, const char* symbol) {
    f = reinterpret_cast<F>(dlsym(handle, symbol));
    return f != nullptr;
  }
  bool open() {
    // RTLD_GLOBAL: its plug-ins (nsswitch.so) use the library's symbols and are not linked with it.
    handle = dlopen("libnfsidmap.so.1", RTLD_NOW | RTLD_GLOBAL);
    return handle != nullptr && load(init, "nfs4_init_name_mapping") &&
           load(owner_to_uid, "nfs4_owner_to_uid") && load(group_owner_to_gid, "nfs4_group_owner_to_gid") &&
           load(uid_to_owner, "nfs4_uid_to_owner") && load(gid_to_group_owner, "nfs4_gid_to_group_owner") &&
           load(get_default_domain, "nfs4_get_default_domain") && init(nullptr) == 0 &&
           get_default_domain(nullptr, domain, sizeof domain) == 0;
  }
};

IdMap::IdMap(IdMapping mode) : mode_(mode) {
  if (mode_ != IdMapping::kNfsidmap) return;
  library_ = std::make_unique<Library>();
  if (!library_->open()) {
    log::warn(
        "idmap=nfsidmap: libnfsidmap is not usable; owners that are not numbers show as {} (install "
        "libnfsidmap1)",
        kNobody);
    library_.reset();
    return;
  }
  thread_ = std::thread([this] { serve(); });
}

IdMap::~IdMap() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

std::optional<uint32_t> IdMap::known(Kind kind, const std::string& name) {
  if (auto number = number_of(name)) return number;
  if (!library_) return kNobody;
  MutexLock lock(mutex_);
  const auto it = answers_.find((kind == Kind::kUser ? 'u' : 'g') + name);
  if (it == answers_.end() || it->second.expires < Clock::now()) return std::nullopt;
  return it->second.id;
}

Task<uint32_t> IdMap::resolve(Kind kind, std::string name) {
  if (auto id = known(kind, name)) co_return *id;
  Completion<uint32_t> answer;
  ask({kind, std::move(name), 0, nullptr, &answer});
  co_return co_await answer.wait();
}

Task<std::string> IdMap::name_of(Kind kind, uint32_t id) {
  if (!library_) co_return std::to_string(id);
  Completion<std::string> answer;
  ask({kind, {}, id, &answer, nullptr});
  co_return co_await answer.wait();
}

void IdMap::ask(Question question) {
  {
    MutexLock lock(mutex_);
    questions_.push_back(std::move(question));
  }
  asked_.notify_one();
}

void IdMap::serve() {
  for (;;) {
    MutexLock lock(mutex_);
    while (!stop_ && questions_.empty()) asked_.wait(lock);
    if (questions_.empty()) return;
    Question q = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    const bool user = q.kind == Kind::kUser;
    if (q.text != nullptr) {
      char text[1024] = "";
      const int failed = user ? library_->uid_to_owner(q.id, library_->domain, text, sizeof text)
                              : library_->gid_to_group_owner(q.id, library_->domain, text, sizeof text);
      q.text->set(failed != 0 ? std::to_string(q.id) : std::string(text));
      continue;
    }
    uint32_t id = kNobody;
    const int failed =
        user ? library_->owner_to_uid(q.name.data(), &id) : library_->group_owner_to_gid(q.name.data(), &id);
    if (failed != 0) id = kNobody;
    lock.lock();
    if (answers_.size() >= kMaxAnswers) answers_.clear();
    const auto life = failed == 0 || failed == -ENOENT ? Duration(kAnswerLife) : Duration(kFailureLife);
    answers_[(user ? 'u' : 'g') + q.name] = {id, Clock::now() + life};
    lock.unlock();
    q.number->set(id);
  }
}

}  // namespace nfsrdma::client::nfs4
