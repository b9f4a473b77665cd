// SPDX-License-Identifier: Apache-2.0
// Box<T>: a value that is mostly absent, kept on the heap so that its absence costs one pointer.
//
// Copying copies the value. Reading an absent value reads a T{}, so readers need no check; edit() makes it
// present. Two boxes compare equal when what they read compares equal. Owned by whoever holds it; not shared,
// not locked.
#pragma once

#include <memory>

namespace nfsrdma {

template <class T>
class Box {
 public:
  Box() = default;
  Box(const Box& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Box(Box&&) noexcept = default;
  Box& operator=(const Box& other) {
    if (this != &other) value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
  }
  Box& operator=(Box&&) noexcept = default;
  ~Box() = default;

  T& edit() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
  }
  const T& operator*() const {
    static const T kAbsent{};
    return value_ ? *value_ : kAbsent;
  }
  const T* operator->() const { return &**this; }
  explicit operator bool() const { return value_ != nullptr; }
  void reset() { value_.reset(); }

  bool operator==(const Box& other) const { return **this == *other; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace nfsrdma
