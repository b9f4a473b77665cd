# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP for a whole process. Linux stops its threads only when one of them has run with the signal; on busy processors the others serve
requests for some milliseconds more."""

import glob
import os
import signal
import time


def pause(pid, kill=os.kill):
    """Every thread of the process has stopped when this returns. Its connections stay open, and it answers nothing."""
    kill(pid, signal.SIGSTOP)
    while not all(_stopped(path) for path in glob.glob(f"/proc/{pid}/task/*/stat")):
        time.sleep(0.001)


def resume(pid, kill=os.kill):
    kill(pid, signal.SIGCONT)


def _stopped(path):
    try:
        with open(path) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return True  # that thread has ended
