// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/security/realm.h"

#include <stdexcept>

namespace nfsrdma::gss {

namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  return *std::move(result);
}

void require(const Step& step) {
  if (step.error) throw std::runtime_error(describe(*step.error));
}

}  // namespace

std::unique_ptr<test::Kdc> Realm::kdc_;
std::string Realm::keytab_;

void Realm::SetUpTestSuite() {
  if (!test::Kdc::missing().empty()) return;
  kdc_ = std::make_unique<test::Kdc>();
  kdc_->add("alice");
  kdc_->add("bob");
  keytab_ = kdc_->keytab({"nfs/localhost"});
}

void Realm::TearDownTestSuite() {
  kdc_.reset();
}

void Realm::SetUp() {
  if (const std::string missing = test::Kdc::missing(); !missing.empty()) GTEST_SKIP() << missing;
}

std::shared_ptr<const Name> Realm::server(const std::string& service, const std::string& host) {
  return std::make_shared<const Name>(value_of(Name::service(service, host)));
}

std::shared_ptr<const Credential> Realm::user(const std::string& ccache) {
  return std::make_shared<const Credential>(value_of(Credential::from_ccache(ccache)));
}

std::shared_ptr<const Credential> Realm::service(const Credential::Accepting& options) {
  return std::make_shared<const Credential>(value_of(Credential::accepting(options)));
}

ByteVector Realm::first_token(const std::string& ccache) {
  Initiator initiator(user(ccache), server());
  const Step step = initiator.step({});
  require(step);
  return step.token;
}

Ends Realm::establish(const std::string& ccache) {
  return establish(Initiator(user(ccache), server()), Acceptor(service()));
}

Ends Realm::establish(Initiator initiator, Acceptor acceptor) {
  ByteVector token;
  for (int exchanges = 0; exchanges < 4 && !(initiator.done() && acceptor.done()); ++exchanges) {
    const Step asked = initiator.step(token);
    require(asked);
    if (asked.token.empty()) break;
    const Step answered = acceptor.step(asked.token);
    require(answered);
    token = answered.token;
  }
  return {value_of(initiator.take()), value_of(acceptor.take())};
}

}  // namespace nfsrdma::gss
