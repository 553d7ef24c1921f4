"""Which hosts requests may be sent to, and what a trusted proxy says of a request."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from ipaddress import ip_network
from unittest.mock import Mock

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from registry.http.addresses import Addresses
from registry.settings import Settings
from tests.http.conftest import StartApp, exchange, new_app
from tests.support import Client

SETTINGS = Settings(
    host="fleet.internal",
    public_url="https://Registry.example.com:8443",
    allowed_host=("inventory.example",),
)
TRUSTED = replace(SETTINGS, trusted_proxy=(ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8")))

Serve = Callable[[Settings], Awaitable[Client]]


@pytest.fixture
def serve(start_app: StartApp) -> Serve:
    """Serve what the service knows of a request: its origin, and the address of its client."""

    async def serve(settings: Settings) -> Client:
        addresses = Addresses(settings)

        async def handle(request: web.Request) -> web.Response:
            known = addresses.origin(request), addresses.client_address(request)
            return web.Response(text=" ".join(known))

        return await start_app(new_app(handle, settings=settings))

    return serve


async def respond(client: Client, *lines: str, target: str = "/", version: str = "1.1") -> bytes:
    """Send a request with these header lines; return the response."""
    head = "\r\n".join([f"GET {target} HTTP/{version}", *lines, "Connection: close", "", ""])
    return await exchange(client, head.encode())


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def body(response: bytes) -> str:
    return response.partition(b"\r\n\r\n")[2].decode()


ALLOWED = (
    *("localhost", "localhost:8080", "LocalHost.:1", "127.0.0.1:8080", "[::1]", "[::1]:8080"),
    *("192.0.2.7", "[2001:db8::7]:443", "fleet.internal:8080", "registry.example.com"),
    *("REGISTRY.example.com:8443", "inventory.example"),
)
OTHERS = (
    *("attacker.example", "attacker.example:8080", "localhost.attacker.example", "example.com"),
    *("127.0.0.1.attacker.example", "sub.registry.example.com", "127.1", "2130706433"),
    "0x7f000001",
)


async def test_a_host_of_the_service_is_allowed_with_any_port(serve: Serve) -> None:
    client = await serve(SETTINGS)
    for host in ALLOWED:
        response = await respond(client, f"Host: {host}")
        assert (status(response), body(response)) == (200, f"http://{host} 127.0.0.1")
    response = await respond(client, version="1.0")  # which needs none
    assert (status(response), body(response)) == (200, f"http://127.0.0.1:{client.port} 127.0.0.1")


async def test_a_request_for_another_host_gets_421(serve: Serve) -> None:
    client = await serve(SETTINGS)
    for host in OTHERS:
        response = await respond(client, f"Host: {host}")
        assert status(response) == 421, host
        (error,) = orjson.loads(body(response))["errors"]
        assert (error["status"], error["code"]) == ("421", "misdirected_request")
        assert f"`{host.partition(':')[0]}`" in error["detail"]
        assert "--allowed-host" in error["detail"]


LOCAL = "Host: localhost"

MALFORMED = [
    *[[], ["Host:"], [LOCAL, LOCAL], [LOCAL, "Host: attacker.example"]],
    ["Host: attacker.example", LOCAL],
    *(
        [f"Host: {host}"]
        for host in (
            *("a b", "localhost, localhost", "user@localhost", "localhost:http", "localhost/"),
            *("[::1", ".", ".:8080", "lo\N{LATIN SMALL LETTER O WITH DIAERESIS}calhost"),
        )
    ),
]


async def test_a_request_without_one_valid_host_gets_400(serve: Serve) -> None:
    client = await serve(SETTINGS)
    for lines in MALFORMED:
        response = await respond(client, *lines)
        assert status(response) == 400, lines


async def test_the_host_of_an_absolute_target_overrides_the_header(serve: Serve) -> None:
    client = await serve(SETTINGS)
    for target, host, expected in (
        ("http://inventory.example:81/", "attacker.example", 200),
        ("http://[::1]:81/", "attacker.example", 200),
        ("http://attacker.example/", "inventory.example", 421),
        ("http://localhost@attacker.example/", "localhost", 400),
    ):
        response = await respond(client, f"Host: {host}", target=target)
        assert status(response) == expected
        if expected == 200:
            assert body(response) == f"{target.rstrip('/')} 127.0.0.1"


async def test_the_last_headers_of_a_trusted_proxy_replace_origin_and_address(serve: Serve) -> None:
    client = await serve(TRUSTED)
    for lines, expected in (
        (FORWARDED, "https://registry.example.com 198.51.100.7"),
        (
            (
                *(LOCAL, "X-Forwarded-Proto: http, HTTPS", "X-Forwarded-Host: attacker.example"),
                "X-Forwarded-Host: attacker.example, inventory.example:81",
                *("X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.7"),
            ),
            "https://inventory.example:81 198.51.100.7",
        ),
        *(
            ((LOCAL, f"X-Forwarded-Proto: {scheme}"), "http://localhost 127.0.0.1")
            for scheme in ("ftp", "", "https://", "javascript")
        ),
    ):
        response = await respond(client, *lines)
        assert (status(response), body(response)) == (200, expected)
    for host, refused in (("attacker.example", 421), ("a b", 400)):
        assert status(await respond(client, LOCAL, f"X-Forwarded-Host: {host}")) == refused


async def test_the_last_untrusted_address_is_the_client(serve: Serve) -> None:
    client = await serve(TRUSTED)
    for forwarded, address in (
        ("198.51.100.7:4711", "198.51.100.7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("2001:DB8::7", "2001:db8::7"),
        ("::FFFF:198.51.100.7", "198.51.100.7"),
        ("::ffff:c633:6407", "198.51.100.7"),
        ("::ffff:0:198.51.100.7", "::ffff:0:c633:6407"),
        ("198.51.100.7, ::ffff:10.0.0.1", "198.51.100.7"),
        ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("198.51.100.7, unknown", "127.0.0.1"),
        ("198.51.100.7, unknown, 10.0.0.1", "10.0.0.1"),
        ("", "127.0.0.1"),
        ("," * 1_000, "127.0.0.1"),
    ):
        response = await respond(client, LOCAL, f"X-Forwarded-For: {forwarded}")
        assert body(response) == f"http://localhost {address}", forwarded


FORWARDED = (
    "Host: backend",
    "X-Forwarded-For: 203.0.113.9, 198.51.100.7, 10.1.2.3",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: registry.example.com",
)


async def test_the_headers_of_other_clients_are_ignored(serve: Serve) -> None:
    untrusting = replace(SETTINGS, trusted_proxy=(ip_network("192.0.2.0/24"),))
    for settings in (SETTINGS, untrusting):
        client = await serve(settings)
        assert status(await respond(client, *FORWARDED)) == 421
        response = await respond(client, "Host: localhost", *FORWARDED[1:])
        assert body(response) == "http://localhost 127.0.0.1"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8:0:1:2::7", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "127.0.0.1"),
    ],
)
def test_the_addresses_of_an_ipv6_network_are_one_client(address: str, network: str) -> None:
    transport = Mock(**{"get_extra_info.return_value": ("127.0.0.1", 4711)})
    request = make_mocked_request("GET", "/", {"X-Forwarded-For": address}, transport=transport)
    assert Addresses(TRUSTED).client_network(request) == network
