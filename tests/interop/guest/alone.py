# SPDX-License-Identifier: Apache-2.0
"""Imported first by what runs tests of tests/system in a guest: there is no steward as the harness finds in its own world, and
nothing is asked of it."""

import os
import socket

steward, _ = socket.socketpair()
os.environ.update(NFSRDMA_STEWARD=str(steward.fileno()), HOME="/run")
