# SPDX-License-Identifier: Apache-2.0
"""Programs that run tests of tests/system in a guest import it first: in a guest there is no steward, which the harness would look for,
and nothing is asked of one.
"""

import os
import socket

steward, _ = socket.socketpair()
os.environ.update(NFSRDMA_STEWARD=str(steward.fileno()), HOME="/run")
