# SPDX-License-Identifier: Apache-2.0
"""For tests that run `cmake --install`, which notes the installed files in the build directory for the target `uninstall`."""

import contextlib
import os


@contextlib.contextmanager
def kept(build):
    """Keeps the notes of a person's installation from `build`, and removes those of installations meanwhile, which root may have made."""
    with contextlib.ExitStack() as stack:
        for name in ("install_manifest.txt", "install_placed.txt"):
            path = os.path.join(build, name)
            if os.path.exists(path):
                os.rename(path, path + ".kept")
                stack.callback(os.rename, path + ".kept", path)
            else:
                stack.callback(lambda path=path: os.path.exists(path) and os.remove(path))
        yield
