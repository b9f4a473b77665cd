# SPDX-License-Identifier: Apache-2.0
"""An authority for one test class, which signs certificates of servers and machines with openssl(1).

(tests/unit/support/certificates.h is the same for unit tests.)
"""

import os
import subprocess


class Authority:
    """`file`: its certificate. Everything is in one directory."""

    def __init__(self, directory, name="Test Authority"):
        self.directory = directory
        self.count = 0
        os.makedirs(directory, exist_ok=True)
        self.file = self.path("authority.pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path("authority.key"),
                     "-out", self.file, "-days", "2", "-subj", f"/CN={name}")

    def path(self, name):
        return os.path.join(self.directory, name)

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stderr}")

    def issue(self, names="", into=None):
        """A certificate and its key in one file, whose path is returned. names: "DNS:localhost,IP:127.0.0.1"."""
        self.count += 1
        into = into or self.path(f"certificate{self.count}.pem")
        key, request, signed, extensions = (self.path(f"{self.count}.{kind}") for kind in ("key", "request", "signed", "extensions"))
        with open(extensions, "w") as file:
            file.write(f"subjectAltName={names}\n" if names else "keyUsage=digitalSignature\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                     "-subj", f"/CN=peer{self.count}")
        self.openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.path("authority.key"), "-CAcreateserial",
                     "-days", "1", "-extfile", extensions, "-out", signed)
        with open(into + ".new", "w") as whole:
            for part in (signed, key):
                with open(part) as file:
                    whole.write(file.read())
        os.rename(into + ".new", into)
        return into
