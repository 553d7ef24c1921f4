"""The signing keys of an OpenID Connect issuer, from its JSON Web Key Set (RFC 7517)."""

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

import orjson
from aiohttp import ClientError, ClientSession, DummyCookieJar
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import Key, import_key

from registry.access.principal import KeysUnavailable
from registry.access.urls import secure_url

_log = logging.getLogger("registry")

KEY_TYPES = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
"""The accepted signature algorithms (`alg`), and the type of key (`kty`) that each requires."""

KeyName = tuple[str, str]
"""The id of a key (`kid`) and its type (`kty`), which may share ids (RFC 7517, 4.5)."""


@dataclass(frozen=True, slots=True)
class JwksLimits:
    """Limits on the requests to an issuer and on the age of its keys.

    refresh_seconds: the keys are read again after this time, so that those that the issuer has
    removed are no longer accepted. pause_seconds: the minimum time between two attempts, however
    many unknown keys and errors there are. stale_seconds: how long the keys are used while they
    cannot be read again. read_seconds: the time an attempt may take. response_bytes: the maximum
    size of each response.
    """

    refresh_seconds: float = 300.0
    pause_seconds: float = 10.0
    stale_seconds: float = 3_600.0
    read_seconds: float = 5.0
    response_bytes: int = 2**18


class JwksClient:
    """Reads the signing keys of an issuer, and reads them again when they may have changed.

    on_change: called after keys were added, replaced or removed.
    """

    def __init__(self, issuer: str, on_change: Callable[[], object], limits: JwksLimits) -> None:
        self._issuer = issuer
        self._on_change = on_change
        self._limits = limits
        self._keys: dict[KeyName, Key] = {}
        self._attempt: asyncio.Task[None] | None = None
        self._attempted_at = self._read_at = -inf
        self._has_failed = False

    @asynccontextmanager
    async def refreshed(self) -> AsyncIterator[None]:
        """Refresh the keys, at once and periodically, until the context ends."""
        periodic = asyncio.create_task(self._refresh_periodically())
        try:
            yield
        finally:
            tasks = [task for task in (periodic, self._attempt) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def key(self, name: KeyName) -> Key | None:
        """Return a key, or None if the issuer does not have it.

        Raises KeysUnavailable if it is unknown and the keys cannot be read.
        """
        if name not in self._keys:
            await self._refresh()
        key = self._keys.get(name)
        if not key and self._has_failed:
            raise KeysUnavailable(self._seconds_to_attempt())
        return key

    async def _refresh_periodically(self) -> None:
        while True:
            await self._refresh()
            await asyncio.sleep(self._limits.refresh_seconds)

    async def _refresh(self) -> None:
        """Wait for the attempt under way, or for a new one unless the last was just before."""
        if not self._attempt or self._attempt.done():
            if self._seconds_to_attempt() > 0:
                return
            self._attempted_at = monotonic()
            self._attempt = asyncio.create_task(self._read())
        await asyncio.shield(self._attempt)  # from the disconnect of one of those that wait

    def _seconds_to_attempt(self) -> float:
        return self._attempted_at + self._limits.pause_seconds - monotonic()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(self._limits.read_seconds):
                keys = await self._fetch()
        except (ClientError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            _log.error("cannot read the keys of the issuer %s: %.300a", self._issuer, reason)
            self._has_failed = True
            is_stale = monotonic() - self._read_at > self._limits.stale_seconds
            keys = {} if is_stale else self._keys
        else:
            self._has_failed = False
            self._read_at = monotonic()
        if keys != self._keys:
            self._keys = keys
            self._on_change()

    async def _fetch(self) -> dict[KeyName, Key]:
        """Read the configuration and the keys it refers to (OpenID Connect Discovery 1.0, 4).

        Raises ClientError or ValueError.
        """
        async with ClientSession(cookie_jar=DummyCookieJar()) as session:
            url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
            configuration = await self._get(session, url)
            if configuration.get("issuer") != self._issuer:
                raise ValueError(f"{url} is the configuration of another issuer")
            document = await self._get(session, secure_url(str(configuration.get("jwks_uri"))))
        return _usable_keys(document)

    async def _get(self, session: ClientSession, url: str) -> dict[str, Any]:
        body = bytearray()
        # A redirect could lead to an address without TLS, or within the network of the service.
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ValueError(f"{url} responded with status {response.status}")
            async for part in response.content.iter_any():
                body += part
                if len(body) > self._limits.response_bytes:
                    raise ValueError(f"{url} has more than {self._limits.response_bytes} bytes")
        document = orjson.loads(body)
        if not isinstance(document, dict):
            raise ValueError(f"{url} is not a JSON object")  # noqa: TRY004 - it is invalid data
        return document


def _usable_keys(document: dict[str, Any]) -> dict[KeyName, Key]:
    """Return the keys that can be used; others are ignored, as RFC 7517, 5 requires."""
    members = document.get("keys")
    if not isinstance(members, list):
        raise ValueError("the key set has no array `keys`")  # noqa: TRY004 - it is invalid data
    named = [jwk for jwk in members if isinstance(jwk, dict) and isinstance(jwk.get("kid"), str)]
    keys = dict[KeyName, Key]()
    for jwk in named:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", SecurityWarning)  # RSA keys of less than 2048 bits
                keys[jwk["kid"], jwk["kty"]] = import_key(jwk)
        except (JoseError, SecurityWarning, KeyError, TypeError, ValueError):
            _log.warning("ignored the key %.100a of the issuer, which is not valid", jwk["kid"])
    return keys
