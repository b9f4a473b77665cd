# SPDX-License-Identifier: Apache-2.0
"""A hostile peer of nfsrdma-filer that runs as the ordinary user UID: attacker.py UID MODE PORT COUNT. Prints "ready" when
its attack is set up, and keeps its connections until it is killed.

idle     COUNT TCP connections that send nothing
mpa      COUNT connections to the port of software RDMA that never send their MPA request
chunks   COUNT software RDMA connections that each announce 4 calls with a megabyte in Read chunks, and answer no RDMA Read
calls    the same with 60 calls: more than an unknown client has credits for
records  COUNT TCP connections that announce a megabyte and send a tenth of it
clients  client IDs, each confirmed with a session, until the server refuses, or COUNT of them
"""

import os
import signal
import socket
import struct
import sys

from harness import nfs41


def u32(*values):
    return struct.pack(f">{len(values)}I", *values)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 20)


def frame(number, message):
    """An RDMAP Send (RFC 5040) as one MPA frame without CRC (RFC 5044): length, DDP's untagged header, payload, padding."""
    ulpdu = struct.pack(">BBIIII", 0x41, 0x43, 0, 0, number, 0) + message
    return struct.pack(">H", len(ulpdu)) + ulpdu + b"\0" * (-(len(ulpdu) + 2) % 4) + u32(0)


def announcement(xid):
    """RFC 8166: a call whose data, a megabyte, is in a Read chunk."""
    call = u32(xid, 0, 2, 100003, 4, 1, 0, 0, 0, 0)
    return u32(xid, 1, 64, 0) + u32(1, 40, 0x1234, 1 << 20, 0, 0, 0) + u32(0, 0) + call


def announce(port, calls):
    s = connect(port)
    s.sendall(b"MPA ID Req Frame" + struct.pack(">BBH", 0, 1, 0))
    reply = b""
    while len(reply) < 20:
        part = s.recv(20 - len(reply))
        if not part:
            return s  # the server closed it to make room for another connection
        reply += part
    try:
        s.sendall(b"".join(frame(n, announcement(n)) for n in range(1, calls + 1)))
    except OSError:
        pass
    return s


def begin_record(port):
    s = connect(port)
    s.sendall(u32(0x80000000 | 1 << 20) + bytes(100_000))
    return s


def make_clients(port, count):
    made = 0
    client = nfs41.Client(port, uid=os.getuid(), gid=os.getgid())
    try:
        while made < count:
            client.owner = f"attacker {os.getuid()} {made}"
            client.new_session()
            made += 1
    except nfs41.Status:
        pass
    return made, client


def main():
    uid, mode, port, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    kept = []
    if mode == "clients":
        made, client = make_clients(port, count)
        kept.append(client)
        print(made)
    else:
        begin = {"idle": connect, "mpa": connect, "chunks": lambda p: announce(p, 4), "calls": lambda p: announce(p, 60),
                 "records": begin_record}[mode]
        for _ in range(count):
            kept.append(begin(port))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
