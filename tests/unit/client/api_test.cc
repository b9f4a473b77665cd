// SPDX-License-Identifier: Apache-2.0
// The public face: a program that includes client/api, and transport/ for its loops and buffers, can mount,
// open, read into its own registered memory and close.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/api/make_filesystem.h"
#include "client/api/no_front_end.h"
#include "filer/server.h"
#include "tests/unit/transport/support/run_on.h"

namespace nfsrdma {
namespace {

struct Bytes {
  std::string text;
  bool in_own_memory = true;  // of the program's BufferPool
};

Task<Result<Bytes>> write_and_read(client::Filesystem& fs, client::NodeRef root, BufferPool& pool,
                                   std::string text) {
  client::RequestContext ctx;
  ctx.credential = std::make_shared<rpc::Credential>("embedding", 0, 0, std::vector<uint32_t>{});
  auto created = co_await fs.create(ctx, root, "f", 0644, O_RDWR);
  if (!created) co_return fail(std::move(created.error()));
  const client::OpenFileRef file = created->open.file;
  Slice data = pool.slice(text.size());
  std::memcpy(data.bytes.data(), text.data(), text.size());
  NFSRDMA_CO_TRY(co_await fs.write(ctx, file, 0, std::move(data)));
  NFSRDMA_CO_TRY(co_await fs.fsync(ctx, file, false));
  auto read = co_await fs.read(ctx, file, 0, text.size());
  if (!read) co_return fail(std::move(read.error()));
  Bytes bytes;
  for (BulkData& piece : read->data) {
    if (!piece.land()) co_return fail(system_error(EIO, "READ"));
    const auto all = as_string_view(piece.slice.bytes);
    bytes.text += all;
    bytes.in_own_memory = bytes.in_own_memory && static_cast<bool>(piece.slice.buffer);
  }
  NFSRDMA_CO_TRY(co_await fs.flush(ctx, file, 0));
  co_await fs.release(ctx, file);
  co_return bytes;
}

class PublicFace : public testing::TestWithParam<client::TransportKind> {};

TEST_P(PublicFace, OfTheClient_IsEnoughToMountReadAndClose) {
  filer::nfs::Options options;
  options.rdma.listen = true;
  auto server = filer::Server::start(std::move(options));
  ASSERT_TRUE(server) << describe(server.error());
  LoopPool loops{1};
  BufferPool pool;
  client::NoFrontEnd front_end;
  client::ClientOptions wanted;
  wanted.host = "127.0.0.1";
  wanted.transport = GetParam();
  wanted.port = GetParam() == client::TransportKind::kTcp ? (*server)->port() : (*server)->rdma_port();
  wanted.export_path = "/export";
  const auto fs = client::make_nfs4_filesystem(loops, pool, wanted);
  loops.start();
  const auto mounted = test::run_on(loops[0], fs->mount(&front_end));
  ASSERT_TRUE(mounted) << describe(mounted.error());
  const std::string text(300'000, 'x');
  const auto bytes = test::run_on(loops[0], write_and_read(*fs, mounted->node, pool, text));
  ASSERT_TRUE(bytes) << describe(bytes.error());
  EXPECT_EQ(bytes->text, text);
  EXPECT_TRUE(bytes->in_own_memory);
  EXPECT_TRUE(test::run_on(loops[0], fs->unmount(std::chrono::seconds(10))));
  loops.stop_and_join();
}

INSTANTIATE_TEST_SUITE_P(Transports, PublicFace,
                         testing::Values(client::TransportKind::kTcp, client::TransportKind::kSoftwareRdma));

}  // namespace
}  // namespace nfsrdma
