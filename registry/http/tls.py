"""The certificate of the service."""

import logging
import ssl
from datetime import UTC, datetime
from typing import NoReturn

from cryptography import x509

from registry.program import InvalidSetting
from registry.settings import Settings, flag

_log = logging.getLogger("registry")


class Certificate:
    """The certificate and private key of the settings. context: uses those loaded last."""

    def __init__(self, settings: Settings) -> None:
        """Load the files. Raises InvalidSetting if they are not usable."""
        assert settings.tls_certificate and settings.tls_key  # noqa: S101, PT018 - set together
        self._files = settings.tls_certificate, settings.tls_key
        self._loaded = self.context = self._load()
        # Loaded into the same context, a certificate with another type of key would not replace the
        # previous one: each client would get the one that it prefers. OpenSSL calls this in every
        # handshake, also of clients that name no server.
        self.context.sni_callback = self._use_loaded

    def reload(self) -> None:
        """Use what the files contain now for new connections, if it is usable; log the result."""
        try:
            self._loaded = self._load()
        except (InvalidSetting, OSError) as error:
            _log.error("The previous TLS certificate remains in use: %s", error)
        else:
            _log.info("The TLS certificate was reloaded")

    def _use_loaded(self, handshake: ssl.SSLObject, *_: object) -> None:
        handshake.context = self._loaded

    def _load(self) -> ssl.SSLContext:
        names = flag("tls_certificate"), flag("tls_key")
        for name, path in zip(names, self._files, strict=True):
            try:
                path.read_bytes()
            except OSError as error:
                raise InvalidSetting(f"{name}: cannot read {path} ({error.strerror})") from error
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(*self._files, _refuse)
            certificate, *_ = x509.load_pem_x509_certificates(self._files[0].read_bytes())
        except (ssl.SSLError, ValueError) as error:
            # OpenSSL gives no reason if a file has none of them.
            reason = (getattr(error, "reason", None) or "no valid PEM").lower().replace("_", " ")
            raise InvalidSetting(f"{' and '.join(names)} are not usable: {reason}") from error
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begin <= datetime.now(UTC) <= end:
            _log.warning("%s is valid only from %s to %s", self._files[0], begin, end)
        return context


def _refuse() -> NoReturn:
    """Refuse a key with a passphrase, for which OpenSSL would ask on the terminal."""
    raise InvalidSetting(f"{flag('tls_key')}: the private key is encrypted; remove its passphrase")
