// SPDX-License-Identifier: Apache-2.0
// AnyValue: a value of any wire type behind one interface, so that a property is compiled once and not for
// each type.
#pragma once

#include <memory>
#include <vector>

#include "tests/property/generator.h"

namespace nfsrdma::property {

class AnyValue {
 public:
  virtual ~AnyValue() = default;

  virtual std::unique_ptr<AnyValue> another() const = 0;  // a default value of the same type
  virtual bool generate(Generator& x) = 0;
  virtual bool encode(xdr::Encoder& x) const = 0;
  virtual void size(xdr::Sizer& x) const = 0;
  virtual bool decode(xdr::Decoder& x) = 0;
  virtual bool equals(const AnyValue& other) const = 0;  // of the same type
};

template <class T>
class ValueOf final : public AnyValue {
 public:
  std::unique_ptr<AnyValue> another() const override { return std::make_unique<ValueOf>(); }
  bool generate(Generator& x) override { return x(value_); }
  bool encode(xdr::Encoder& x) const override { return x(value_); }
  void size(xdr::Sizer& x) const override { x(value_); }
  bool decode(xdr::Decoder& x) override { return x(value_); }
  bool equals(const AnyValue& other) const override {
    return value_ == static_cast<const ValueOf&>(other).value_;
  }

 private:
  T value_{};
};

struct WireType {
  const char* name = "";
  std::unique_ptr<AnyValue> value;
};

// The wire types of each family; each list is in its own file.
std::vector<WireType> argument_types();
std::vector<WireType> result_types();
std::vector<WireType> callback_types();
std::vector<WireType> compound_types();

}  // namespace nfsrdma::property
