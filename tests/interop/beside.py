# SPDX-License-Identifier: Apache-2.0
"""Tests with another client on the same file: it writes while ours has read ahead."""

SIZE = 4 << 20
PIECE = 128 << 10


def read_all(file):
    return b"".join(iter(lambda: file.read(PIECE), b""))


def overtaken_in_what_was_read_ahead(case, mounted, name, fill):
    """`name` in our mount is a file of SIZE times "1" without a delegation. `fill(byte)` makes the other client fill it with other bytes
    and close it."""
    mounted.keep_kernel_from_reading_ahead()
    before = mounted.stats()

    # Linux' server grants none while the other client's last descriptor, which is closed, is still being put away.
    def granted():
        with open(name, "rb"):
            return mounted.stats()["delegations"]["granted"] > before["delegations"]["granted"]

    case.wait_until(granted, "the server grants a delegation")
    with open(name, "rb", buffering=0) as kept:
        case.assertEqual(b"".join(kept.read(PIECE) for _ in range(6)), b"1" * 6 * PIECE)
        case.wait_until(lambda: mounted.stats()["cache"]["data_bytes"] > PIECE, "something is there that nobody has asked for yet")
        known = mounted.stats()
        case.assertGreater(known["cache"]["ahead_bytes"], before["cache"]["ahead_bytes"])
        fill("2")  # of the same size, so the size does not reveal the change
        with open(name, "rb", buffering=0) as file:
            case.assertTrue(read_all(file) == b"2" * SIZE, "an open after its close sees what it wrote")
        case.assertTrue(kept.read(SIZE // 2) == b"2" * (SIZE // 2), "and so does who had it open")
    numbers = mounted.stats()["delegations"]
    case.assertGreater(numbers["recalled"], before["delegations"]["recalled"], numbers)
    case.assertEqual(numbers["revoked"], 0, numbers)
