// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fabric/support/fake_device.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

namespace nfsrdma::test {
namespace {

FakeDevice* the_device = nullptr;
ibv_device the_ibv_device{};

int refused(int errnum) {
  errno = errnum;
  return -1;
}

// An event descriptor that becomes readable once for each event.
int make_events() {
  return ::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
}
void tell(int fd) {
  const uint64_t one = 1;
  (void)!::write(fd, &one, sizeof(one));
}

struct Channel : rdma_event_channel {
  std::deque<rdma_cm_event> events;
};

void tell(rdma_cm_id* id, rdma_cm_event_type type, rdma_cm_id* asked = nullptr) {
  auto* channel = static_cast<Channel*>(id->channel);
  rdma_cm_event e{};
  e.id = id;
  e.listen_id = asked;
  e.event = type;
  e.param.conn.responder_resources = e.param.conn.initiator_depth = 8;
  channel->events.push_back(e);
  tell(channel->fd);
}

struct Queue : ibv_cq {
  std::deque<ibv_wc> done;
  bool armed = false;
};

struct Pair : ibv_qp {
  std::deque<uint64_t> receives;
};

// The objects that the libraries' functions use.
rdma_cm_id* the_listener = nullptr;
Queue* the_queue = nullptr;
uint32_t the_keys = 0;

void put(Queue& queue, uint64_t id, ibv_wc_status status) {
  ibv_wc wc{};
  wc.wr_id = id;
  wc.status = status;
  queue.done.push_back(wc);
  if (std::exchange(queue.armed, false)) tell(queue.channel->fd);
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  ++the_device->windows;
  auto* window = new ibv_mw{};
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  window->rkey = ++the_keys << 8;
  return window;
}
int dealloc_mw(ibv_mw* window) {
  --the_device->windows;
  delete window;
  return 0;
}

int post_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    if (const int result = the_device->on_post_send(*wr)) {
      *bad = wr;
      return result;
    }
    the_device->posted.push_back(
        {wr->wr_id, wr->opcode, (wr->send_flags & IBV_SEND_SIGNALED) != 0, wr->sg_list != nullptr});
  }
  return 0;
}
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  *bad = wr;
  if (the_device->post_recv_returns != 0) return the_device->post_recv_returns;
  for (; wr != nullptr; wr = wr->next) static_cast<Pair*>(qp)->receives.push_back(wr->wr_id);
  return 0;
}
int poll_cq(ibv_cq* cq, int most, ibv_wc* to) {
  auto& done = static_cast<Queue*>(cq)->done;
  int n = 0;
  for (; n < most && !done.empty(); ++n) {
    to[n] = done.front();
    done.pop_front();
  }
  return n;
}
int req_notify_cq(ibv_cq* cq, int) {
  static_cast<Queue*>(cq)->armed = true;
  return 0;
}

void come_to_the_device(rdma_cm_id* id) {
  id->verbs = &the_device->context;
  id->port_num = 1;
}

}  // namespace

FakeDevice::FakeDevice() {
  the_device = this;
  std::strcpy(the_ibv_device.name, "fake0");
  the_ibv_device.transport_type = IBV_TRANSPORT_IB;
  context.device = &the_ibv_device;
  context.ops.alloc_mw = alloc_mw;
  context.ops.dealloc_mw = dealloc_mw;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = req_notify_cq;
  context.cmd_fd = make_events();
  context.async_fd = make_events();
  attributes.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attributes.max_mw = 1000;
  attributes.max_qp_wr = 1024;
  attributes.max_cqe = 4096;
  attributes.max_qp_rd_atom = attributes.max_qp_init_rd_atom = 16;
  attributes.max_mr_size = UINT64_MAX;
}

FakeDevice::~FakeDevice() {
  ::close(context.cmd_fd);
  ::close(context.async_fd);
  the_device = nullptr;
}

void FakeDevice::ask() {
  auto* id = new rdma_cm_id{};
  ++ids;
  id->channel = the_listener->channel;
  id->route.addr.src_addr.sa_family = id->route.addr.dst_addr.sa_family = AF_INET;
  come_to_the_device(id);
  tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, the_listener);
}

void FakeDevice::complete() {
  for (auto at = posted.rbegin(); at != posted.rend(); ++at) {
    if (at->signalled) return put(*the_queue, at->id, IBV_WC_SUCCESS);
  }
}

}  // namespace nfsrdma::test

// ---------------------------------------------------------------------------------------------------------
// The libraries' functions.

using namespace nfsrdma::test;

#undef ibv_reg_mr

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &the_ibv_device, nullptr };
}
void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}
const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}
int ibv_query_device(ibv_context*, ibv_device_attr* to) {
  *to = the_device->attributes;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  ++the_device->domains;
  auto* pd = new ibv_pd{};
  pd->context = context;
  return pd;
}
int ibv_dealloc_pd(ibv_pd* pd) {
  --the_device->domains;
  delete pd;
  return 0;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* at, size_t bytes, uint64_t, unsigned) {
  if (the_device->locked + bytes > the_device->may_lock) {
    errno = ENOMEM;
    return nullptr;
  }
  the_device->locked += bytes;
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = at;
  mr->length = bytes;
  mr->lkey = mr->rkey = ++the_keys;
  return mr;
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* at, size_t bytes, int access) {
  return ibv_reg_mr_iova2(pd, at, bytes, 0, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* mr) {
  the_device->locked -= mr->length;
  delete mr;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* channel = new ibv_comp_channel{};
  channel->context = context;
  channel->fd = make_events();
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int, void*, ibv_comp_channel* channel, int) {
  auto* queue = new Queue();
  queue->context = context;
  queue->channel = channel;
  return the_queue = queue;
}
int ibv_destroy_cq(ibv_cq* cq) {
  auto* queue = static_cast<Queue*>(cq);
  if (the_queue == queue) the_queue = nullptr;
  delete queue;
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context) {
  uint64_t one = 0;
  *cq = nullptr;
  *context = nullptr;
  return ::read(channel->fd, &one, sizeof(one)) == sizeof(one) ? 0 : -1;
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}

int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  return refused(EAGAIN);
}
void ibv_ack_async_event(ibv_async_event*) {}

int ibv_query_qp(ibv_qp*, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  attributes->qp_state = the_device->state_of_pairs;
  attributes->path_mtu = IBV_MTU_4096;
  return 0;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int) {
  if (attributes->qp_state != IBV_QPS_ERR) return 0;
  auto* pair = static_cast<Pair*>(qp);
  for (const uint64_t id : std::exchange(pair->receives, {}))
    put(*static_cast<Queue*>(pair->recv_cq), id, IBV_WC_WR_FLUSH_ERR);
  return 0;
}

rdma_event_channel* rdma_create_event_channel(void) {
  auto* channel = new Channel();
  channel->fd = make_events();
  return channel;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete static_cast<Channel*>(channel);
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  auto& events = static_cast<Channel*>(channel)->events;
  uint64_t one = 0;
  if (events.empty() || ::read(channel->fd, &one, sizeof(one)) != sizeof(one)) return refused(EAGAIN);
  *event = new rdma_cm_event(events.front());
  events.pop_front();
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  delete event;
  return 0;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space) {
  *id = new rdma_cm_id{};
  (*id)->channel = channel;
  (*id)->context = context;
  ++the_device->ids;
  return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
  the_device->on_destroy_id();
  if (the_listener == id) the_listener = nullptr;
  std::erase_if(static_cast<Channel*>(id->channel)->events, [id](const auto& e) { return e.id == id; });
  --the_device->ids;
  delete id;
  return 0;
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  nfsrdma::net::Endpoint e;
  e.length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&e.address, address, e.length);
  the_device->bound.push_back(e);
  if (const int errnum = the_device->on_bind(e)) return refused(errnum);
  std::memcpy(&id->route.addr.src_storage, address, e.length);
  come_to_the_device(id);
  return 0;
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr* to, int) {
  const size_t length = to->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&id->route.addr.dst_storage, to, length);
  id->route.addr.src_addr.sa_family = to->sa_family;
  come_to_the_device(id);
  tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}
int rdma_resolve_route(rdma_cm_id* id, int) {
  tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}
int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  auto* pair = new Pair();
  pair->context = pd->context;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  id->qp = pair;
  return 0;
}
void rdma_destroy_qp(rdma_cm_id* id) {
  delete static_cast<Pair*>(std::exchange(id->qp, nullptr));
}
int rdma_connect(rdma_cm_id* id, rdma_conn_param* p) {
  const auto* data = static_cast<const std::byte*>(p->private_data);
  the_device->said.emplace_back(data, data + p->private_data_len);
  tell(id, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}
int rdma_listen(rdma_cm_id* id, int) {
  the_listener = id;
  return 0;
}
int rdma_accept(rdma_cm_id* id, rdma_conn_param* p) {
  return the_device->peers_establish ? rdma_connect(id, p) : 0;
}
int rdma_reject(rdma_cm_id*, const void*, uint8_t) {
  return 0;
}
int rdma_disconnect(rdma_cm_id*) {
  return 0;
}

}  // extern "C"
