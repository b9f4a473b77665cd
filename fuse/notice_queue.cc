// SPDX-License-Identifier: Apache-2.0
#include "fuse/notice_queue.h"

#include <utility>

namespace nfsrdma::fuse {

using client::Node;
using client::NodeRef;

std::vector<NoticeQueue::Notice> NoticeQueue::ask(NodeRef node, bool data, Done done) {
  if (everything_ && !done) {
    ++numbers_.merged;
    everything_has_data_ |= data;
    return {};
  }
  if (!put(std::move(node), data, std::move(done))) {
    ++numbers_.merged;
    return {};
  }
  if (everything_ || notices_.size() - waited_for_ <= most_) return {};
  return flood();
}

// False where a notice of this node waits already.
bool NoticeQueue::put(NodeRef node, bool data, Done done) {
  const Node* const key = node.get();
  const auto [it, inserted] = notices_.try_emplace(key);
  Notice& notice = it->second;
  notice.data |= data;
  if (done) {
    if (notice.waiting.empty()) ++waited_for_;
    notice.waiting.push_back(std::move(done));
  }
  if (!inserted) return false;
  notice.node = std::move(node);
  if (!telling_.contains(key)) order_.push_back(key);
  return true;
}

std::vector<NoticeQueue::Notice> NoticeQueue::flood() {
  ++numbers_.floods;
  everything_ = true;
  everything_has_data_ = false;
  std::vector<Notice> merged;
  std::erase_if(order_, [this](const Node* node) { return notices_.at(node).waiting.empty(); });
  for (auto it = notices_.begin(); it != notices_.end();) {
    if (!it->second.waiting.empty()) {
      ++it;
      continue;
    }
    everything_has_data_ |= it->second.data;
    merged.push_back(std::move(it->second));
    it = notices_.erase(it);
  }
  return merged;
}

std::optional<NoticeQueue::Notice> NoticeQueue::take() {
  // Queues one node of the flood for each notice that is taken, behind the waiting ones. So neither the flood
  // nor the other notices wait for the other's end.
  while (!rest_.empty()) {
    NodeRef next = std::move(rest_.back());
    rest_.pop_back();
    put(std::move(next), rest_has_data_, nullptr);
    if (!order_.empty()) break;
  }
  if (order_.empty()) return std::nullopt;
  const Node* const key = order_.front();
  order_.pop_front();
  auto taken = notices_.extract(key);
  telling_.insert(key);
  if (!taken.mapped().waiting.empty()) --waited_for_;
  ++numbers_.sent;
  return std::move(taken.mapped());
}

void NoticeQueue::told(const Node* node) {
  telling_.erase(node);
  const auto next = notices_.find(node);
  if (next != notices_.end()) order_.push_back(next->first);
}

bool NoticeQueue::take_flood() {
  if (!everything_ || gathering_ || !rest_.empty()) return false;
  everything_ = false;
  gathering_ = true;
  rest_has_data_ = everything_has_data_;
  return true;
}

void NoticeQueue::set_rest(std::vector<NodeRef> everything) {
  gathering_ = false;
  rest_ = std::move(everything);
}

std::vector<NoticeQueue::Notice> NoticeQueue::clear() {
  std::vector<Notice> left;
  for (auto& [node, notice] : notices_) left.push_back(std::move(notice));
  for (NodeRef& node : rest_) left.push_back({std::move(node), false, {}});
  notices_.clear();
  order_.clear();
  rest_.clear();
  waited_for_ = 0;
  everything_ = false;
  return left;
}

}  // namespace nfsrdma::fuse
