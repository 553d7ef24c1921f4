"""Certificates of a test's own authority, in files."""

import ssl
from datetime import datetime
from pathlib import Path

import trustme


class Authority:
    """A certificate authority. home: the directory of its files."""

    def __init__(self, home: Path) -> None:
        self._ca = trustme.CA()
        self.home = home
        self.certificate = home / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.certificate))

    def issue(
        self,
        name: str,
        *hosts: str,
        expires: datetime | None = None,
        key_type: trustme.KeyType = trustme.KeyType.ECDSA,
    ) -> tuple[Path, Path, Path]:
        """Return the files of a certificate for these hosts, of its key, and of both."""
        files = [self.home / f"{name}.{kind}.pem" for kind in ("certificate", "key", "both")]
        names = hosts or ("localhost", "127.0.0.1")
        issued = self._ca.issue_cert(*names, not_after=expires, key_type=key_type)
        files[0].write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        files[1].write_bytes(issued.private_key_pem.bytes())
        files[2].write_bytes(files[1].read_bytes() + files[0].read_bytes())
        return files[0], files[1], files[2]

    def client_context(self) -> ssl.SSLContext:
        """Return a context that trusts this authority only."""
        return ssl.create_default_context(cafile=self.certificate)
