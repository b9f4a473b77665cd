# SPDX-License-Identifier: Apache-2.0
"""For tests that run `cmake --install`: its notes lie in the build directory, and the target `uninstall` reads them."""

import contextlib
import os


@contextlib.contextmanager
def kept(build):
    """What a person installed from `build` stays noted, and nothing of what is installed meanwhile, perhaps by root."""
    with contextlib.ExitStack() as stack:
        for name in ("install_manifest.txt", "install_placed.txt"):
            path = os.path.join(build, name)
            if os.path.exists(path):
                os.rename(path, path + ".kept")
                stack.callback(os.rename, path + ".kept", path)
            else:
                stack.callback(lambda path=path: os.path.exists(path) and os.remove(path))
        yield
