# SPDX-License-Identifier: Apache-2.0
"""gdb commands for a stopped daemon (or filer), or its core: the suspended coroutines, and the Nodes.

usage: gdb -p PID -x scripts/gdb/nfsrdma.py
  nfsrdma coroutines        each chain of suspended coroutines, innermost first, as a backtrace would show a thread's calls
  nfsrdma nodes [COUNT]     the mount's Nodes (20 by default): references, kernel lookups, attributes, file handle

The program does not register its coroutines. Their frames are found by searching its memory for the pair of pointers with which each
frame begins (g++: resume function `.actor`, destroy function `.destroy`). Function names are enough for that, so it works on
every build with symbols. Nodes need types; CMake compiles kTypesFrom with full debug information for that in every preset.
"""

import re
import struct

import gdb

# Names of the program. Where the sources change them, change them here; tests/system/test_gdb.py notices.
NODE = "nfsrdma::client::CachedNode"
NODE_CLASSES = ("nfsrdma::client::nfs4::Nfs4Node", "nfsrdma::client::nfs3::Nfs3Node")
TYPES_FROM = "client/nfs4/state/node.cc"
# A Node's members that are shown where they are true, and how.
FLAGS = (("kernel.knows_", "known to the kernel"), ("contents.known", "contents known"), ("names_known.uncertain", "names uncertain"))

WORD = 8
# Frame: resume function, destroy function, promise. Each Task's promise begins with the frame that awaits it (transport/runtime/task.h).
CONTINUATION = 2 * WORD
CHUNK = 4 << 20


def mappings():
    """(begin, end, permissions, file) of the process, or of the core."""
    for line in gdb.execute("info proc mappings", to_string=True).splitlines():
        found = re.match(r"\s*0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x[0-9a-f]+\s+(?:([rwxsp-]{4})\s*)?(.*)$", line)
        if found:
            yield int(found[1], 16), int(found[2], 16), found[3] or "rw-p", found[4].strip()


def own_memory():
    """Memory that the program has written: its heap and what malloc has mapped, without files and devices."""
    for begin, end, permissions, name in mappings():
        if permissions.startswith("rw") and not name.startswith(("/", "[v", "[stack")):
            yield begin, end


def words(begin, end):
    """(address of the first word, [words]) of each piece that can be read and is not all zeros."""
    inferior = gdb.selected_inferior()
    for at in range(begin, end, CHUNK):
        try:
            piece = inferior.read_memory(at, min(CHUNK, end - at)).tobytes()
        except gdb.MemoryError:
            continue
        if piece.count(0) != len(piece):
            yield at, struct.unpack(f"<{len(piece) // WORD}Q", piece)


def word_at(address):
    try:
        return struct.unpack("<Q", gdb.selected_inferior().read_memory(address, WORD).tobytes())[0]
    except gdb.MemoryError:
        return None


class Functions:
    """The program's functions, by their first address."""

    def __init__(self):
        program = gdb.current_progspace().filename
        ranges = [(begin, end) for begin, end, permissions, name in mappings() if name.startswith(program) and "w" not in permissions]
        ranges = ranges or [(begin, end) for begin, end, _, name in mappings() if name.startswith(program)]  # gdb shows none of a core's
        self.begin, self.end = min(begin for begin, _ in ranges), max(end for _, end in ranges)
        self.names = {}

    def coroutine(self, resume):
        """The name of the coroutine that this function resumes, or None."""
        if resume not in self.names:
            symbol = gdb.execute(f"info symbol {resume:#x}", to_string=True)
            found = re.match(r"(.*?) \[clone \.(?:actor|resume)\](?: \[clone [^]]*\])* in section", symbol)
            self.names[resume] = brief(found[1]) if found else None
        return self.names[resume]


def brief(function):
    """`nfsrdma::client::Reader::read` of a demangled function: without parameters, template arguments and return type."""
    depth, out = 0, []
    for character in function.replace("(anonymous namespace)", "{anonymous}"):
        depth -= character in ")>"
        if depth == 0 and character not in ")>(<":
            out.append(character)
        depth += character in "(<"
    return re.sub(r"\s+(const|&)", "", "".join(out)).strip().split(" ")[-1]


def frames():
    """{address of a frame: its coroutine's name}: suspended, or running on a thread right now."""
    functions, found = Functions(), {}
    low, high = functions.begin, functions.end
    for begin, end in own_memory():
        for at, piece in words(begin, end):
            for index in [i for i, (one, next_) in enumerate(zip(piece, piece[1:])) if low <= one < high and low <= next_ < high]:
                name = functions.coroutine(piece[index])
                if name:
                    found[at + index * WORD] = name
    return found


def chains():
    """[[names]] of chains: the innermost coroutine first, then the one that awaits it. A frame that awaits no other frame is innermost."""
    there = frames()
    awaiting = {frame: word_at(frame + CONTINUATION) for frame in there}
    outer = set(awaiting.values())
    found = []
    for frame in there:
        if frame in outer:
            continue
        chain = {}  # an outermost frame has no such field: what lies there may be the address of an inner one
        while frame in there and frame not in chain:
            chain[frame] = there[frame]
            frame = awaiting[frame]
        found.append(list(chain.values()))
    return found


class Prefix(gdb.Command):
    """What a daemon of nfsrdma-fuse is doing: coroutines, nodes."""

    def __init__(self):
        super().__init__("nfsrdma", gdb.COMMAND_DATA, prefix=True)


class Coroutines(gdb.Command):
    """Each chain of suspended coroutines, innermost first; equal ones once, with their number."""

    def __init__(self):
        super().__init__("nfsrdma coroutines", gdb.COMMAND_STACK)

    def invoke(self, _argument, _from_tty):
        counts = {}
        for chain in chains():
            counts[tuple(chain)] = counts.get(tuple(chain), 0) + 1
        for chain, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
            print(f"{count} suspended:" if count > 1 else "suspended:")
            for depth, name in enumerate(chain):
                print(f"  #{depth} {name}")
        print(f"{sum(counts.values())} chains")


def table_of(candidate):
    """The CachedNodeTable to which the Node points, if the table contains it; None for a former Node."""
    try:
        table = candidate["table_"].referenced_value()
        return table if any(node == int(candidate.address) for node in nodes_of(table)) else None
    except (gdb.MemoryError, gdb.error):
        return None


def nodes_of(table):
    """Addresses of all Nodes of a table."""
    shards = table["shards_"]["_M_elems"]
    low, high = shards.type.strip_typedefs().range()
    for shard in range(low, high + 1):
        places = shards[shard]["nodes"]["places_"]["_M_impl"]
        place, end = places["_M_start"], places["_M_finish"]
        if int(end - place) > 1 << 26:
            raise gdb.error("no table")
        while place != end:
            if int(place["node"]):
                yield int(place["node"])
            place += 1


def tables():
    """All tables of Nodes: one per mount."""
    node = gdb.lookup_type(NODE)
    vtables = set()
    for name in NODE_CLASSES:
        try:
            vtables.add(int(gdb.parse_and_eval(f"&'vtable for {name}'")) + 2 * WORD)
        except gdb.error:
            pass
    found = {}
    for begin, end in own_memory():
        for at, piece in words(begin, end):
            for index in [i for i, word in enumerate(piece) if word in vtables]:
                candidate = gdb.Value(at + index * WORD).cast(node.pointer()).dereference()
                owner = word_at(int(candidate.address) + offset_of(node, "table_"))
                if owner in found:
                    continue
                table = table_of(candidate)
                if table is not None:
                    found[owner] = table
    return found.values()


def offset_of(type_, field):
    return next(f.bitpos // 8 for f in type_.fields() if f.name == field)


KINDS = {0o100000: "file", 0o040000: "directory", 0o120000: "link", 0o020000: "character device", 0o060000: "block device",
         0o010000: "FIFO", 0o140000: "socket"}


def member(value, path):
    for name in path.split("."):
        value = value[name]
    return value


def describe(address):
    node = gdb.Value(address).cast(gdb.lookup_type(NODE).pointer()).dereference()
    attributes = node["attributes"]["attributes_"]
    mode = int(attributes["mode"])
    handle = gdb.selected_inferior().read_memory(address + int(node["object_bytes_"]), int(node["handle_bytes_"])).tobytes()
    what = f"{KINDS.get(mode & 0o170000, 'type not known')} {mode & 0o7777:04o}, fileid {int(attributes['ino'])}, {int(attributes['size'])} bytes, " \
           f"change {int(attributes['change'])}" if int(node["attributes"]["arrived_"]) else "attributes not known"
    more = [said for path, said in FLAGS if member(node, path)]
    if int(node["attributes"]["promised_"]["__r"]):
        more.append("delegated")
    return (f"{address:#x}: {what}\n  {int(node['references_']['_M_i'])} references, {int(node['front_end_lookups']['_M_i'])} kernel lookups"
            f"{''.join(', ' + one for one in more)}\n  handle {handle.hex()}")


class Nodes(gdb.Command):
    """The Nodes of a mount: nfsrdma nodes [COUNT]"""

    def __init__(self):
        super().__init__("nfsrdma nodes", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        count = int(argument or 20)
        try:
            gdb.lookup_type(NODE)
        except gdb.error:
            raise gdb.GdbError(f"this build has no type {NODE}: {TYPES_FROM} was compiled without -g, or the program was stripped") from None
        for table in tables():
            there = list(nodes_of(table))
            for address in there[:count]:
                print(describe(address))
            print(f"{len(there)} Nodes" + (f", the first {count} shown" if len(there) > count else ""))


Prefix()
Coroutines()
Nodes()
