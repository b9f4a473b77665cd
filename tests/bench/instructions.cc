// SPDX-License-Identifier: Apache-2.0
// Counts the user-space instructions of a guest by page: a plugin of QEMU's emulated processor, which has no
// performance counters. lab_costs.py finds the pages of a process in its /proc/PID/maps. Programs are at
// random addresses, so no two share a page.
//
// usage: qemu-system-x86_64 -plugin libinstructions.so,counts=FILE
//
// FILE has kSlots pairs of 64-bit numbers in the host's byte order: page (address / 4096), and instructions
// executed there. It is a hash table: the pair of a page is at or behind the place that slot_of() computes;
// an empty pair ends the search. FILE may be read at any time. It is sparse and takes as much space as there
// are pages. The first pair counts instructions that found no free pair. The kernel's instructions are not
// counted. A block of instructions counts when it begins, and again from where a page fault interrupted it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

// QEMU's plugin API (qemu-plugin.h), for which Debian has no package. Version 1 (Debian 12's QEMU 7.2) can
// add to a counter inside the translated code. Version 2 (QEMU 9) no longer has that; with Debian 13's QEMU a
// callback is used.
extern "C" {
using qemu_plugin_id_t = uint64_t;
struct qemu_info_t;
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* tb);
uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb* tb);
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
[[gnu::weak]] void qemu_plugin_register_vcpu_tb_exec_inline(qemu_plugin_tb* tb, qemu_plugin_op op, void* ptr,
                                                            uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb* tb, void (*executed)(unsigned vcpu, void* data),
                                          qemu_plugin_cb_flags flags, void* data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*translated)(qemu_plugin_id_t id, qemu_plugin_tb* tb));
[[gnu::visibility("default")]] extern int qemu_plugin_version;
// QEMU reads this variable once the library is loaded.
int qemu_plugin_version = qemu_plugin_register_vcpu_tb_exec_inline != nullptr ? 1 : 2;
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                                       char** argv);
}

namespace {

struct Slot {
  uint64_t page = 0;
  uint64_t instructions = 0;
};
constexpr unsigned kBits = 24;  // with 20 the table was too small for the lab's five rounds with their builds
constexpr uint64_t kSlots = uint64_t{1} << kBits;
constexpr uint64_t kKernel = uint64_t{1} << 47;  // kernel addresses begin here
Slot* slots;

Slot& slot_of(uint64_t page) {
  uint64_t at = (page * 0x9e3779b97f4a7c15) >> (64 - kBits);
  for (unsigned tries = 0; tries < 1000; ++tries, at = (at + 1) % kSlots) {
    if (at == 0) continue;
    if (slots[at].page == 0) slots[at].page = page;
    if (slots[at].page == page) return slots[at];
  }
  return slots[0];
}

// `data` packs the block's slot and its number of instructions into a pointer.
void executed(unsigned /*vcpu*/, void* data) {
  const auto packed = reinterpret_cast<uintptr_t>(data);
  __atomic_fetch_add(&slots[packed % kSlots].instructions, packed / kSlots, __ATOMIC_RELAXED);
}

// Never runs concurrently: QEMU holds a lock.
void translated(qemu_plugin_id_t, qemu_plugin_tb* tb) {
  const uint64_t address = qemu_plugin_tb_vaddr(tb);
  if (address >= kKernel) return;
  Slot& slot = slot_of(address >> 12);
  const size_t count = qemu_plugin_tb_n_insns(tb);
  if (qemu_plugin_register_vcpu_tb_exec_inline != nullptr) {
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &slot.instructions, count);
  } else {
    const uintptr_t packed = count * kSlots + static_cast<uintptr_t>(&slot - slots);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, QEMU_PLUGIN_CB_NO_REGS,
                                         reinterpret_cast<void*>(packed));
  }
}

bool map_counts(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || ::ftruncate(fd, kSlots * sizeof(Slot)) != 0) return false;
  void* place = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  slots = static_cast<Slot*>(place);
  return place != MAP_FAILED;
}

}  // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int argc, char** argv) {
  constexpr char kCounts[] = "counts=";
  if (argc != 1 || std::strncmp(argv[0], kCounts, sizeof(kCounts) - 1) != 0 ||
      !map_counts(argv[0] + sizeof(kCounts) - 1)) {
    std::fprintf(stderr, "libinstructions: counts=FILE, and a file that can be made\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  return 0;
}
