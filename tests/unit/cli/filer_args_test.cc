// SPDX-License-Identifier: Apache-2.0
// The command line of nfsrdma-filer.
#include "cli/filer/filer_args.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace nfsrdma::cli {
namespace {

FilerCommand parsed(std::vector<std::string> arguments) {
  auto invocation = parse_filer_arguments(std::move(arguments));
  if (!invocation) {
    ADD_FAILURE() << invocation.error().text;
    return {};
  }
  return std::get<FilerCommand>(*std::move(invocation));
}

int refused(std::vector<std::string> arguments) {
  const auto invocation = parse_filer_arguments(std::move(arguments));
  return invocation ? 0 : invocation.error().exit_code;
}

TEST(FilerArguments, Memory_IsExportedWithASize) {
  const FilerCommand command =
      parsed({"--export", "memory:64M", "--export", "/other=memory", "-e", "/third=memory:1G"});
  EXPECT_EQ(command.options.exports, (std::vector<std::string>{"/memory", "/other", "/third"}));
  EXPECT_EQ(command.memory_bytes, (std::map<std::string, uint64_t>{{"/memory", uint64_t{64} << 20},
                                                                   {"/third", uint64_t{1} << 30}}));
  EXPECT_TRUE(command.options.state_directory.empty()) << "memory does not survive, so nothing else need";
  EXPECT_EQ(command.options.address, "127.0.0.1");
  EXPECT_EQ(command.options.port, 2049);
  EXPECT_FALSE(command.options.rdma.listen);
}

TEST(FilerArguments, ADirectory_IsFoundAtItsOwnPathOrAnother) {
  const std::string here = std::filesystem::temp_directory_path().string();
  FilerCommand command = parsed({"-e", here, "-e", "/data=" + here, "--read-only", "--state-dir", "/state"});
  ASSERT_EQ(command.options.directories.size(), 2u);
  EXPECT_EQ(command.options.directories[0].path, std::filesystem::canonical(here).string());
  EXPECT_EQ(command.options.directories[1].path, "/data");
  EXPECT_TRUE(command.options.directories[1].read_only);
  EXPECT_TRUE(command.options.directories[1].sync);
  EXPECT_EQ(command.options.directories[1].squash, filer::tree::Squash::kRoot);
  EXPECT_EQ(command.options.state_directory, "/state");
  command = parsed({"-e", "/data=" + here, "--async", "--no-root-squash", "--state-dir", "/state"});
  EXPECT_FALSE(command.options.directories[0].sync);
  EXPECT_EQ(command.options.directories[0].squash, filer::tree::Squash::kNone);
}

TEST(FilerArguments, Insecure_IsOffUntilItIsSaid) {
  EXPECT_FALSE(parsed({"-e", "memory"}).insecure);
  EXPECT_TRUE(parsed({"-e", "memory", "--insecure"}).insecure);
}

TEST(FilerArguments, Security_IsForAllExportsOrForOne) {
  using filer::tree::Flavor;
  using filer::tree::Flavors;
  FilerCommand command = parsed({"-e", "memory"});
  EXPECT_EQ(command.options.flavors, Flavors{Flavor::kSys});
  EXPECT_FALSE(command.options.kerberos);
  command = parsed({"-e", "memory", "--sec", "krb5p:krb5i:krb5:sys", "--keytab", "/k"});
  EXPECT_EQ(command.options.flavors, (Flavors{Flavor::kKrb5p, Flavor::kKrb5i, Flavor::kKrb5, Flavor::kSys}));
  EXPECT_TRUE(command.options.kerberos);
  EXPECT_EQ(command.options.keytab, "/k");
  EXPECT_TRUE(command.options.export_flavors.empty());

  const std::string here = std::filesystem::temp_directory_path().string();
  command = parsed({"-e", "memory:64M,sec=krb5", "-e", "/a=" + here + ",sec=krb5p:sys", "-e", "/b=memory",
                    "-e", here + ",sec=krb5i", "--state-dir", "/state"});
  EXPECT_EQ(command.options.export_flavors, (std::map<std::string, Flavors>{
                                                {"/memory", {Flavor::kKrb5}},
                                                {"/a", {Flavor::kKrb5p, Flavor::kSys}},
                                                {std::filesystem::canonical(here).string(), {Flavor::kKrb5i}},
                                            }));
  EXPECT_EQ(command.memory_bytes.at("/memory"), uint64_t{64} << 20);
  EXPECT_TRUE(command.options.kerberos);
  EXPECT_EQ(command.options.flavors, Flavors{Flavor::kSys});

  // The list of --sec is nobody's here, and no keytab is needed.
  EXPECT_FALSE(parsed({"-e", "memory,sec=sys", "--sec", "krb5"}).options.kerberos);
  EXPECT_TRUE(parsed({"-e", "memory,sec=sys", "-e", "/b=memory", "--sec", "krb5"}).options.kerberos);
}

// A directory may have such a name; it is meant then.
TEST(FilerArguments, DirectoryNamedLikeSecurity_IsADirectory) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("filer-args-" + std::to_string(getpid()) + ",sec=krb5");
  std::filesystem::create_directory(directory);
  const FilerCommand command = parsed({"-e", directory.string(), "--state-dir", "/state"});
  std::filesystem::remove(directory);
  ASSERT_EQ(command.options.directories.size(), 1u);
  EXPECT_EQ(command.options.directories[0].path, std::filesystem::path(directory).string());
  EXPECT_TRUE(command.options.export_flavors.empty());
}

TEST(FilerArguments, RdmaLimits_AreTheResponders) {
  const rdma::ResponderOptions usual = parsed({"-e", "memory"}).options.rdma.responder;
  EXPECT_EQ(usual.inline_bytes, 4096u);
  EXPECT_FALSE(usual.configuration_protocol);
  const rdma::ResponderOptions tuned =
      parsed({"-e", "memory", "--inline", "16500", "--credits", "7", "--ccp"}).options.rdma.responder;
  EXPECT_EQ(tuned.inline_bytes, 16384u);
  EXPECT_EQ(tuned.receive_bytes, 16384u);
  EXPECT_EQ(tuned.credits, 7u);
  EXPECT_TRUE(tuned.configuration_protocol);
  EXPECT_NE(refused({"-e", "memory", "--inline", "512"}), 0);
}

TEST(FilerArguments, AddressesAndVersions) {
  const FilerCommand command =
      parsed({"-e", "memory", "-l", "[::1]:0", "--rdma", "192.0.2.1", "--rdma-versions", "2"});
  EXPECT_EQ(command.options.address, "::1");
  EXPECT_EQ(command.options.port, 0);
  EXPECT_TRUE(command.options.rdma.listen);
  EXPECT_EQ(command.options.rdma.address, "192.0.2.1");
  EXPECT_EQ(command.options.rdma.port, 20049);
  EXPECT_FALSE(command.options.rdma.responder.version1);
  EXPECT_TRUE(command.options.rdma.responder.version2);
}

TEST(FilerArguments, WhatCannotBe_IsRefused) {
  const int usage = static_cast<int>(ToolExit::kUsage);
  EXPECT_EQ(refused({}), usage);
  EXPECT_EQ(refused({"-e", "memory:x"}), usage);
  EXPECT_EQ(refused({"-e", "memory:99999999T"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "-l", "host:70000"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--sec", "krb4"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--sec", "krb5:krb5"}), usage);
  EXPECT_EQ(refused({"-e", "memory,sec="}), usage);
  EXPECT_EQ(refused({"-e", "memory,sec=krb5,sys"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--keytab", "/k"}), usage) << "it would be used for nothing";
  EXPECT_EQ(refused({"-e", "memory", "-l", "[::1"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--rdma-versions", "1,3"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--rdma-fabrics", "tcp"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--fault", "reply: explode"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "--lease", "0"}), usage);
  EXPECT_EQ(refused({"-e", "memory", "more"}), usage);
  EXPECT_EQ(refused({"-e", "/a=" + std::string(5000, 'n') + ",sec=sys"}), static_cast<int>(ToolExit::kFailed))
      << "the host cannot say whether a name of that length exists";
  EXPECT_EQ(refused({"-e", "/no/such/directory"}), static_cast<int>(ToolExit::kFailed));
  EXPECT_EQ(refused({"-e", "/="}), static_cast<int>(ToolExit::kFailed));
}

TEST(FilerArguments, HelpAndVersion) {
  for (const char* flag : {"--help", "--version"}) {
    const auto invocation = parse_filer_arguments({flag});
    ASSERT_TRUE(invocation);
    EXPECT_NE(std::get<FilerText>(*invocation).text.find("nfsrdma-filer"), std::string::npos);
  }
}

}  // namespace
}  // namespace nfsrdma::cli
