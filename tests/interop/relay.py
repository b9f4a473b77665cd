# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that records the traffic, as a pcap or message by message. chaosproxy (tests/system) is the one that breaks connections.

The pcap contains the bytes that the endpoints wrote to their sockets. IP and TCP headers are made here, with a segment for each MPA frame
(RFC 5044 section 5.1 wants that). This needs no privilege.
"""

import selectors
import socket
import struct
import threading

CLIENT, SERVER = 0, 1


class Connection:
    """One relayed connection. `record`: [(CLIENT or SERVER, bytes)] by sender, in the order of arrival."""

    def __init__(self, client, server):
        self.sockets = (client, server)
        self.record = []

    def stream(self, sender):
        return b"".join(data for who, data in self.record if who == sender)


class Relay:
    """Listens at 127.0.0.1:`port` until close()."""

    def __init__(self, host, port):
        self.target = (host, port)
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.closed = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.closed:
            for key, _ in self.selector.select(0.1):
                if key.data is None:
                    self.accept()
                else:
                    self.forward(*key.data)

    def accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(self.target, 5)
        except OSError:
            client.close()
            return
        connection = Connection(client, server)
        self.connections.append(connection)
        for sender, sock in enumerate(connection.sockets):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(sock, selectors.EVENT_READ, (connection, sender))

    def forward(self, connection, sender):
        try:
            data = connection.sockets[sender].recv(1 << 18)
            if data:
                connection.record.append((sender, data))
                connection.sockets[1 - sender].sendall(data)
                return
        except OSError:
            pass
        self.end(connection)

    def end(self, connection):
        for sock in connection.sockets:
            if sock.fileno() >= 0:
                self.selector.unregister(sock)
                sock.close()

    def close(self):
        self.closed = True
        self.thread.join()
        for connection in self.connections:
            self.end(connection)
        self.listener.close()
        self.selector.close()


def frame_end(stream, at):
    """The end of the MPA frame that begins at `at`; None when the frame is not complete.

    RFC 5044 section 7.1.1: 16 bytes of key, flags, revision, length, private data. Section 4: length, ULPDU, pad to four bytes, CRC."""
    startup = at == 0
    if len(stream) < at + (20 if startup else 2):
        return None
    length, = struct.unpack_from(">H", stream, at + (18 if startup else 0))
    end = at + (20 + length if startup else (2 + length + 3) // 4 * 4 + 4)
    return end if end <= len(stream) else None


def messages(stream):
    """RDMAP Sends of one side of a connection: [payload, ...]. RFC 5041 section 4: T, L; an untagged header has 18 bytes."""
    found, parts = [], []
    at = frame_end(stream, 0)
    while at is not None and (end := frame_end(stream, at)) is not None:
        length, control, operation = struct.unpack_from(">HBB", stream, at)
        if not control & 0x80 and operation & 0x0f in (3, 4, 5, 6):
            parts.append(stream[at + 20:at + 2 + length])
            if control & 0x40:
                found.append(b"".join(parts))
                parts = []
        at = end
    return found


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


LONGEST = 65535 - 40  # bytes of TCP data in one packet


def segments(connection, ports):
    """The IP packets of one connection: its start, and each frame with the acknowledgement of the data before it."""
    addresses = (b"\x0a\0\0\x01", b"\x0a\0\0\x02")
    sent = [1, 1]

    def packet(sender, flags, data=b"", sequence=None):
        tcp = struct.pack(">HHIIBBHHH", ports[sender], ports[1 - sender], sent[sender] if sequence is None else sequence,
                          sent[1 - sender] if flags & 0x10 else 0, 5 << 4, flags, 65535, 0, 0)
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0, addresses[sender], addresses[1 - sender])
        return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + tcp + data

    yield packet(CLIENT, 0x02, sequence=0)
    yield packet(SERVER, 0x12, sequence=0)
    yield packet(CLIENT, 0x10)
    streams = (bytearray(), bytearray())
    for sender, data in connection.record:
        streams[sender].extend(data)
        while (end := frame_end(streams[sender], sent[sender] - 1)) is not None:
            while sent[sender] <= end:  # the longest frame needs more than one IP packet
                piece = bytes(streams[sender][sent[sender] - 1:min(end, sent[sender] - 1 + LONGEST)])
                yield packet(sender, 0x18, piece)
                sent[sender] += len(piece)


def write_pcap(path, connections, port=20049):
    """Writes all connections, one after the other, as connections to this port."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 101))  # LINKTYPE_RAW
        number = 0
        for index, connection in enumerate(connections):
            for data in segments(connection, (40000 + index, port)):
                file.write(struct.pack("<IIII", 1, number, len(data), len(data)) + data)
                number += 1
