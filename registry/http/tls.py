"""TLS: the certificate of the service, which can be replaced while it runs."""

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from cryptography import x509

from registry.settings import Settings, flag
from registry.start_error import StartError

_log = logging.getLogger("registry")


class Certificate:
    """The certificate and private key in the files of the settings.

    context: for new connections; TLS 1.2 and later.
    """

    def __init__(self, settings: Settings) -> None:
        """Load the files. Raises StartError with the flag of the one that is not usable."""
        assert settings.tls_certificate and settings.tls_key  # noqa: S101, PT018 - set together
        self._certificate, self._key = settings.tls_certificate, settings.tls_key
        self.context = self._load()

    def reload(self) -> None:
        """Use what the files contain now for new connections; log the result.

        If they are not usable, the previous certificate remains in use.
        """
        try:
            self._load()  # an error in the living context would leave it with half of the files
            self.context.load_cert_chain(self._certificate, self._key, _refuse)
        except (StartError, OSError) as error:
            _log.error("The previous TLS certificate remains in use: %s", error)
        else:
            _log.info("The TLS certificate was reloaded")

    def _load(self) -> ssl.SSLContext:
        _check_certificate(self._certificate)
        _read(self._key, "tls_key")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, _refuse)
        except ssl.SSLError as error:
            is_other = error.reason == "KEY_VALUES_MISMATCH"
            reason = (
                "does not belong to the certificate" if is_other else "has no private key (PEM)"
            )
            raise StartError(f"{flag('tls_key')}: {self._key} {reason}") from error
        return context


def _check_certificate(path: Path) -> None:
    """Raise StartError if the file has no certificate; log if it is not valid at this time."""
    name = flag("tls_certificate")
    try:
        certificate, *_ = x509.load_pem_x509_certificates(_read(path, "tls_certificate"))
    except ValueError as error:
        raise StartError(f"{name}: {path} has no valid certificate (PEM)") from error
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= datetime.now(UTC) <= end:
        _log.warning("%s: %s is valid only from %s to %s", name, path, begin, end)


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartError(f"{flag(setting)}: cannot read {path} ({error.strerror})") from error


def _refuse() -> NoReturn:
    """Refuse a key with a passphrase, for which OpenSSL would ask on the terminal."""
    raise StartError(f"{flag('tls_key')}: the private key is encrypted; remove its passphrase")
