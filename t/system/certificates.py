"""
Makes certificates for tests of TLS with openssl, as an operator would, and TLS contexts of clients.
"""

import os
import ssl
import subprocess


def _openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdin=subprocess.DEVNULL, capture_output=True)


class Authority:
    """A CA in its own folder."""

    def __init__(self, folder, name="ca"):
        self.folder = str(folder)
        self.name = name
        self.cert = os.path.join(self.folder, name + ".pem")
        self.key = os.path.join(self.folder, name + ".key")
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "30", "-subj", "/CN=%s" % name, "-keyout", self.key, "-out", self.cert,
        )  # fmt: skip

    def issue(self, name, valid_for="DNS:localhost,IP:127.0.0.1"):
        """Returns the paths of a new certificate for these hosts, and of its key."""
        base = os.path.join(self.folder, "%s-%s" % (self.name, name))
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=%s" % name, "-keyout", base + ".key", "-out", base + ".csr",
        )  # fmt: skip
        with open(base + ".ext", "w") as f:
            f.write("subjectAltName=%s\n" % valid_for)
        _openssl(
            "x509", "-req", "-in", base + ".csr", "-CA", self.cert, "-CAkey", self.key,
            "-CAcreateserial", "-days", "30", "-extfile", base + ".ext", "-out", base + ".pem",
        )  # fmt: skip
        return base + ".pem", base + ".key"


def context(authority=None, shown=None, version=None):
    """
    A client's context. It trusts `authority` (None: any certificate), shows the certificate `shown`
    (a pair of paths), and speaks only `version` of TLS if that is given.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        made.load_verify_locations(authority.cert)
    else:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if shown:
        made.load_cert_chain(*shown)
    if version:
        made.minimum_version = made.maximum_version = version
    return made
