"""TLS: the certificate of the service, which can be replaced while it runs."""

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from cryptography import x509

from registry.program import InvalidSetting
from registry.settings import Settings, flag

_log = logging.getLogger("registry")

_MISMATCHES = {"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""What OpenSSL says of the key of another certificate; the second, if its type differs."""


class Certificate:
    """The certificate and private key in the files of the settings.

    context: for a server; TLS 1.2 and later. Each of its handshakes uses the certificate that was
    loaded last.
    """

    def __init__(self, settings: Settings) -> None:
        """Load the files. Raises InvalidSetting with the flag of the one that is not usable."""
        assert settings.tls_certificate and settings.tls_key  # noqa: S101, PT018 - set together
        self._certificate, self._key = settings.tls_certificate, settings.tls_key
        self._loaded = self.context = self._load()
        # Loaded into the same context, a certificate with another type of key would not replace the
        # previous one: each client would get the one that it prefers. OpenSSL calls this in every
        # handshake, also of clients that name no server.
        self.context.sni_callback = self._use_loaded

    def reload(self) -> None:
        """Use what the files contain now for new connections; log the result.

        If they are not usable, the previous certificate remains in use.
        """
        try:
            self._loaded = self._load()
        except (InvalidSetting, OSError) as error:
            _log.error("The previous TLS certificate remains in use: %s", error)
        else:
            _log.info("The TLS certificate was reloaded")

    def _use_loaded(self, handshake: ssl.SSLObject, *_: object) -> None:
        handshake.context = self._loaded

    def _load(self) -> ssl.SSLContext:
        _check_certificate(self._certificate)
        _read(self._key, "tls_key")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, _refuse)
        except ssl.SSLError as error:
            raise self._error(error.reason) from error
        return context

    def _error(self, reason: str | None) -> InvalidSetting:
        """Return the error for the reason that OpenSSL gives, None if it cannot read the key."""
        if reason is None:
            return InvalidSetting(f"{flag('tls_key')}: {self._key} has no private key (PEM)")
        if reason in _MISMATCHES:
            return InvalidSetting(
                f"{flag('tls_key')}: {self._key} does not belong to the certificate"
            )
        text = reason.lower().replace("_", " ")  # such as "ee key too small", of the end entity
        return InvalidSetting(f"{flag('tls_certificate')}: {self._certificate} is refused: {text}")


def _check_certificate(path: Path) -> None:
    """Raise InvalidSetting if the file has no certificate; log if it is not valid at this time."""
    name = flag("tls_certificate")
    try:
        certificate, *_ = x509.load_pem_x509_certificates(_read(path, "tls_certificate"))
    except ValueError as error:
        raise InvalidSetting(f"{name}: {path} has no valid certificate (PEM)") from error
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= datetime.now(UTC) <= end:
        _log.warning("%s: %s is valid only from %s to %s", name, path, begin, end)


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidSetting(f"{flag(setting)}: cannot read {path} ({error.strerror})") from error


def _refuse() -> NoReturn:
    """Refuse a key with a passphrase, for which OpenSSL would ask on the terminal."""
    raise InvalidSetting(f"{flag('tls_key')}: the private key is encrypted; remove its passphrase")
