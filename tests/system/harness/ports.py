# SPDX-License-Identifier: Apache-2.0
"""Ports for servers of tests."""

import random
import socket

# Below the ports that Linux gives to outgoing connections (ip_local_port_range: 32768 and above): none of those takes the port
# before the server listens.
PORTS = range(20000, 32000)
claims = {}


def free_port():
    """A TCP port of loopback that nobody listens on. No other call returns it while this process lives: an abstract Unix socket
    named after the port is the claim on it, and other test processes see that claim, too."""
    for port in random.sample(PORTS, len(PORTS)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0nfsrdma-test-port-{port}")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        claims[port] = claim
        return port
    raise RuntimeError("every port for tests is taken")
