# SPDX-License-Identifier: Apache-2.0
"""A second, minimal NFSv4.1 client for the tests: one connection, one slot, no recovery.

It is the other client: it holds locks, or tries to steal them while the client under test recovers; it shows what a server really did, and
checks the harness itself. Written from RFC 8881 and 5662; it shares no code with the client under test.
"""

import os
import socket
import struct

OPS = {"ACCESS": 3, "CLOSE": 4, "COMMIT": 5, "CREATE": 6, "GETATTR": 9, "GETFH": 10, "LOCK": 12, "LOCKT": 13, "LOCKU": 14,
       "LOOKUP": 15, "OPEN": 18, "PUTFH": 22, "PUTROOTFH": 24, "READ": 25, "REMOVE": 28, "RENAME": 29, "SAVEFH": 32,
       "SETATTR": 34, "WRITE": 38, "EXCHANGE_ID": 42, "CREATE_SESSION": 43, "DESTROY_SESSION": 44, "SEQUENCE": 53,
       "DESTROY_CLIENTID": 57, "RECLAIM_COMPLETE": 58}
STATUS = {0: "NFS4_OK", 2: "NOENT", 13: "ACCESS", 17: "EXIST", 10008: "DELAY", 10010: "DENIED", 10013: "GRACE",
          10022: "STALE_CLIENTID", 10023: "STALE_STATEID", 10025: "BAD_STATEID", 10033: "NO_GRACE",
          10052: "BADSESSION", 10063: "SEQ_MISORDERED", 10078: "DEADSESSION", 10015: "SHARE_DENIED",
          10047: "ADMIN_REVOKED", 10011: "EXPIRED"}


class Status(Exception):
    def __init__(self, operation, code):
        super().__init__(f"{operation}: {STATUS.get(code, code)}")
        self.operation, self.code, self.name = operation, code, STATUS.get(code, str(code))


def u32(*values):
    return struct.pack(f">{len(values)}I", *values)


def u64(value):
    return struct.pack(">Q", value)


def opaque(data):
    if isinstance(data, str):
        data = data.encode()
    return u32(len(data)) + data + b"\0" * (-len(data) % 4)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        part = self.data[self.at:self.at + count]
        if len(part) != count:
            raise EOFError("short reply")
        self.at += count
        return part

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def opaque(self):
        length = self.u32()
        data = self.take(length)
        self.take(-length % 4)
        return data

    def bitmap(self):
        return [self.u32() for _ in range(self.u32())]


class Client:
    """Connects, gets a client ID and a session, and sends RECLAIM_COMPLETE unless `reclaim` is set."""

    def __init__(self, port, owner=None, verifier=None, uid=0, gid=0, reclaim=False, timeout=30):
        self.port, self.uid, self.gid, self.timeout = port, uid, gid, timeout
        self.owner = owner or f"nfs41.py {os.urandom(8).hex()}"
        self.verifier = verifier or os.urandom(8)
        self.xid = int.from_bytes(os.urandom(4), "big")
        self.socket = None
        self.connect()
        self.new_session()
        if not reclaim:
            self.reclaim_complete()

    def connect(self):
        self.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), self.timeout)

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def new_session(self):
        self.exchange_id()
        self.create_session()

    # RPC

    def send(self, operations, minor=1):
        """operations: [(name, arguments)]; returns the XID."""
        self.xid = (self.xid + 1) & 0xffffffff
        credential = u32(0) + opaque("second") + u32(self.uid, self.gid, 0)
        call = u32(self.xid, 0, 2, 100003, 4, 1, 1) + opaque(credential) + u32(0, 0)
        call += opaque("") + u32(minor, len(operations)) + b"".join(u32(OPS[n]) + a for n, a in operations)
        self.socket.sendall(u32(0x80000000 | len(call)) + call)
        return self.xid

    def receive(self, xid):
        while True:
            record = self.record()
            reader = Reader(record)
            if reader.u32() == xid and reader.u32() == 1:
                break
        if reader.u32() != 0:
            raise RuntimeError("RPC denied")
        reader.u32()
        reader.opaque()
        if reader.u32() != 0:
            raise RuntimeError("RPC not accepted")
        reader.u32()
        reader.opaque()
        count = reader.u32()
        return reader, count

    def record(self):
        data, last = b"", False
        while not last:
            mark = struct.unpack(">I", self.exactly(4))[0]
            last = bool(mark & 0x80000000)
            data += self.exactly(mark & 0x7fffffff)
        return data

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("closed by the server")
            data += part
        return data

    def plain(self, *operations):
        """Sends a COMPOUND without SEQUENCE; returns the reader after the first operation's status."""
        reader, _ = self.receive(self.send(operations))
        return self.result(reader, operations[0][0])

    @staticmethod
    def result(reader, name):
        if reader.u32() != OPS[name]:
            raise RuntimeError("unexpected operation in the reply")
        status = reader.u32()
        if status != 0:
            raise Status(name, status)
        return reader

    def sequence_arguments(self, cache):
        return self.session + u32(self.sequence, 0, 0, 1 if cache else 0)

    def compound(self, *operations):
        """Sends SEQUENCE and the operations; returns a reader after SEQUENCE's result. The caller reads each operation's status."""
        self.sequence += 1
        cache = all(name != "READ" for name, _ in operations)  # a READ's reply is larger than the reply cache allows
        reader, _ = self.receive(self.send([("SEQUENCE", self.sequence_arguments(cache)), *operations]))
        try:
            self.result(reader, "SEQUENCE")
        except Status:
            self.sequence -= 1
            raise
        reader.take(16)
        reader.take(20)
        return reader

    # Session

    def exchange_id(self):
        reader = self.plain(("EXCHANGE_ID", self.verifier + opaque(self.owner) + u32(0x00010000, 0, 0)))
        self.client_id, self.create_sequence, self.flags = reader.u64(), reader.u32(), reader.u32()

    def create_session(self):
        fore = u32(0, 1049620, 1049480, 8192, 16, 16, 0)
        back = u32(0, 4096, 4096, 0, 2, 1, 0)
        reader = self.plain(("CREATE_SESSION", u64(self.client_id) + u32(self.create_sequence, 0) + fore + back +
                             u32(0x40000000, 1, 0)))
        self.session = reader.take(16)
        self.sequence = 0

    def reclaim_complete(self):
        self.result(self.compound(("RECLAIM_COMPLETE", u32(0))), "RECLAIM_COMPLETE")

    def destroy(self):
        self.plain(("DESTROY_SESSION", self.session))
        self.plain(("DESTROY_CLIENTID", u64(self.client_id)))
        self.close()

    # Files; paths are lists of names from the server's root

    def walk(self, path):
        return [("PUTROOTFH", b""), *(("LOOKUP", opaque(name)) for name in path)]

    def skip(self, reader, operations):
        for name, _ in operations:
            self.result(reader, name)
        return reader

    def open(self, path, create=False, access=3, deny=0, claim_handle=None, exclusive=None):
        """Returns (stateid, file handle). claim_handle: reclaims the open of that handle (CLAIM_PREVIOUS)."""
        how = u32(0)
        if create:
            how = u32(1, 0, 1, 0, 0) if exclusive is None else u32(1, 1, 1, 0, 0)
        owner = u64(self.client_id) + opaque("owner")
        if claim_handle is not None:
            before = [("PUTFH", opaque(claim_handle))]
            claim = u32(1, 0)
        else:
            before = self.walk(path[:-1])
            claim = u32(0) + opaque(path[-1])
        arguments = u32(0, access, deny) + owner + how + claim
        reader = self.skip(self.compound(*before, ("OPEN", arguments), ("GETFH", b"")), before)
        self.result(reader, "OPEN")
        stateid = reader.take(16)
        reader.take(20)
        reader.u32()
        reader.bitmap()
        if reader.u32() != 0:
            raise RuntimeError("a delegation was not expected")
        self.result(reader, "GETFH")
        return stateid, reader.opaque()

    def close_file(self, handle, stateid):
        reader = self.compound(("PUTFH", opaque(handle)), ("CLOSE", u32(0) + stateid))
        self.result(self.result(reader, "PUTFH"), "CLOSE")

    def lock(self, handle, stateid, offset=0, length=2 ** 64 - 1, write=True, reclaim=False, owner="lock owner"):
        """Locks with an open stateid; returns the lock stateid."""
        arguments = u32(2 if write else 1, 1 if reclaim else 0) + u64(offset) + u64(length)
        arguments += u32(1, 0) + stateid + u32(0) + u64(self.client_id) + opaque(owner)
        reader = self.compound(("PUTFH", opaque(handle)), ("LOCK", arguments))
        self.result(self.result(reader, "PUTFH"), "LOCK")
        return reader.take(16)

    def unlock(self, handle, stateid, offset=0, length=2 ** 64 - 1):
        reader = self.compound(("PUTFH", opaque(handle)), ("LOCKU", u32(2, 0) + stateid + u64(offset) + u64(length)))
        self.result(self.result(reader, "PUTFH"), "LOCKU")

    def read(self, handle, stateid, offset, count):
        reader = self.compound(("PUTFH", opaque(handle)), ("READ", stateid + u64(offset) + u32(count)))
        self.result(self.result(reader, "PUTFH"), "READ")
        reader.u32()
        return reader.opaque()

    def write(self, handle, stateid, offset, data, stable=2):
        reader = self.compound(("PUTFH", opaque(handle)), ("WRITE", stateid + u64(offset) + u32(stable) + opaque(data)))
        self.result(self.result(reader, "PUTFH"), "WRITE")
        return reader.u32()

    def rename(self, path, old, new):
        before = self.walk(path) + [("SAVEFH", b"")]
        reader = self.skip(self.compound(*before, ("RENAME", opaque(old) + opaque(new))), before)
        self.result(reader, "RENAME")

    def remove(self, path):
        before = self.walk(path[:-1])
        reader = self.skip(self.compound(*before, ("REMOVE", opaque(path[-1]))), before)
        self.result(reader, "REMOVE")
