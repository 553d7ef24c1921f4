"""A real OpenID Connect provider on the loopback address, whose private keys the tests know."""

import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from aiohttp import ClientSession
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from tests.programs import NODE, node_packages

AUDIENCE = "https://registry.example.com"

GENERATORS: dict[str, Callable[..., Key]] = {
    "RS256": RSAKey.generate_key,
    "ES256": ECKey.generate_key,
    "EdDSA": OKPKey.generate_key,
}

Keys = dict[str, Key]
"""Private keys, by the algorithm each is for."""


def generated(kid_prefix: str, *algorithms: str) -> Keys:
    """Return new keys, whose ids are such as `first-RS256`."""
    return {
        algorithm: GENERATORS[algorithm](
            parameters={"kid": f"{kid_prefix}-{algorithm}", "alg": algorithm, "use": "sig"}
        )
        for algorithm in algorithms
    }


class Provider:
    """An issuer, and the keys with which it signs."""

    def __init__(self, issuer: str, keys: Keys) -> None:
        self.issuer = issuer
        self.keys = keys

    async def token(self, algorithm: str) -> str:
        """Return an access token that the provider issues to the client `ci`."""
        form = {
            "grant_type": "client_credentials",
            "client_id": "ci",
            "client_secret": "secret",
            "resource": f"{AUDIENCE}/{algorithm}",
            "scope": "read persons:write billing",
        }
        async with (
            ClientSession() as session,
            session.post(f"{self.issuer}/token", data=form) as response,
        ):
            return str((await response.json())["access_token"])

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return valid claims with changes; None removes a claim."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ci", "iat": now, "exp": now + 600}
        changed = {**claims, "scope": "read", **changes}
        return {name: value for name, value in changed.items() if value is not None}

    def signed(
        self, algorithm: str = "ES256", header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """Return a token with changes of its header and claims, signed with a key of the provider.

        The signature is of the algorithm, whatever the header says.
        """
        key = self.keys[algorithm]
        changed = {"alg": algorithm, "kid": key.kid, **(header or {})}
        return sign(changed, orjson.dumps(self.claims(**claims)), algorithm, key)


def key_set(keys: Keys) -> dict[str, Any]:
    """Return the JSON Web Key Set with the private keys."""
    return {"keys": [key.as_dict(private=True) for key in keys.values()]}


def sign(header: Any, payload: bytes, algorithm: str, key: Key) -> str:
    """Return a JSON Web Token with this header, whatever it contains."""
    signed = f"{base64url(orjson.dumps(header))}.{base64url(payload)}"
    signature = JWSRegistry.algorithms[algorithm].sign(signed.encode(), key)
    return f"{signed}.{base64url(signature)}"


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def running_provider(keys: Keys) -> Iterator[Provider]:
    """Start a provider, and stop it at the end."""
    program = node_packages(Path(__file__).parent / "oidc-provider") / "provider.js"
    with subprocess.Popen(  # noqa: S603 - a program of the tests
        [NODE, program, orjson.dumps(key_set(keys))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        yield Provider(process.stdout.readline().strip(), keys)
        process.kill()
