// SPDX-License-Identifier: Apache-2.0
// Box<T>: a value that is absent most of the time. It is kept on the heap, so an absent value takes one
// pointer.
//
// Copying copies the value. Reading an absent value gives a T{}, so readers need no check; edit() creates it.
// Boxes are equal if the values read from them are equal. The owner uses it alone; there is no lock.
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
