# SPDX-License-Identifier: Apache-2.0
"""POSIX ACLs in Linux' format (system.posix_acl_access): version 2, then tag, permissions and ID of each entry."""

import struct

OWNER, USER, GROUP, MASK, OTHERS = 1, 2, 4, 16, 32
UNNAMED = 0xffffffff


def shutting_out(uid):
    """rwxr-xr-x, and no permission for one user."""
    entries = ((OWNER, 7, UNNAMED), (USER, 0, uid), (GROUP, 5, UNNAMED), (MASK, 5, UNNAMED), (OTHERS, 5, UNNAMED))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def letting_in(uid):
    """The mode shows rw-rw----, but one user has the permissions shown for the group, and the group has none."""
    entries = ((OWNER, 6, UNNAMED), (USER, 6, uid), (GROUP, 0, UNNAMED), (MASK, 6, UNNAMED), (OTHERS, 0, UNNAMED))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
