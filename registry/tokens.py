"""The command line for access tokens: `python -m registry.tokens --help` describes it."""

import argparse
import asyncio
import os
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain

from registry.access.tokens import check_name, check_scopes, digest_of, new_token
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Parser, Settings, StartError, flag
from registry.storage.client import connect
from registry.storage.errors import TokenNameTaken, TokenNotFound
from registry.storage.mongod.embedded import running_uri
from registry.storage.tokens import Token, Tokens

_DATABASE_SETTINGS = ("mongodb_uri", "database", "data_dir", "mongod")

_HOURS = {"h": 1, "d": 24}

_COLUMNS = ("NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")


def main() -> None:
    """Run a command; exit with status 1 if it fails, with 2 and one line if arguments are wrong."""
    parser = _parser()
    arguments = parser.parse_args()
    settings = _settings(arguments)
    token = _token(parser, arguments) if arguments.command == "create" else None
    if arguments.command == "revoke":
        parser.parse_value("NAME", arguments.name, check_name)
    try:
        asyncio.run(_run(arguments, token, settings))
    except KeyboardInterrupt:
        sys.exit(130)
    except StartError as error:
        sys.exit(f"registry: {error}")
    except TokenNameTaken as error:
        sys.exit(f"registry: there is a token {error} already: revoke it or choose another name")
    except TokenNotFound as error:
        sys.exit(f"registry: there is no token {error} to revoke")


def _parser() -> Parser:
    database = Parser(add_help=False)
    for name in _DATABASE_SETTINGS:
        database.add_argument(flag(name), metavar="VALUE", help="the same as for the service")
    parser = Parser(
        prog="python -m registry.tokens",
        description="Create, list and revoke access tokens, also while the service runs.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command = partial(commands.add_parser, parents=[database], allow_abbrev=False)
    create = add_command("create", help="print a new token, which is shown only once")
    create.add_argument("--name", required=True, help="what lists and logs call it")
    create.add_argument(
        "--scope",
        required=True,
        action="append",
        dest="scopes",
        help="read, write (implies read), or for one collection: persons:read; may be repeated",
    )
    create.add_argument("--expires", metavar="TIME", help="12h or 90d from now; default: never")
    add_command("list", help="list all tokens, without the secrets")
    add_command("revoke", help="end the validity of a token").add_argument("name", metavar="NAME")
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    flags = {flag(name): getattr(arguments, name) for name in _DATABASE_SETTINGS}
    given = {name: value for name, value in flags.items() if value is not None}
    return Settings.parse(list(chain(*given.items())), os.environ)


def _token(parser: Parser, arguments: argparse.Namespace) -> Token:
    name = parser.parse_value("--name", arguments.name, check_name)
    scopes = frozenset[str]()
    for scope in arguments.scopes:
        scopes |= parser.parse_value("--scope", scope, lambda one: check_scopes([one], RESOURCES))
    created, expires = datetime.now(UTC), None
    if arguments.expires is not None:
        expires = created + parser.parse_value("--expires", arguments.expires, _duration)
    return Token(name, scopes, created, expires)


def _duration(text: str) -> timedelta:
    if not re.fullmatch(r"[1-9][0-9]{0,3}[hd]", text):
        raise ValueError(f"{text!r} is not a time such as 12h or 90d")
    return timedelta(hours=int(text[:-1]) * _HOURS[text[-1]])


async def _run(arguments: argparse.Namespace, token: Token | None, settings: Settings) -> None:
    if settings.mongodb_uri is None:
        settings = replace(settings, mongodb_uri=running_uri(settings))
    async with connect(settings, Graph(RESOURCES)) as database:
        tokens = Tokens(database)
        if token is not None:
            text = new_token()
            await tokens.create(token, digest_of(text))
            print(text)  # noqa: T201 - the output of the command
            _note(f"The token {token.name} is shown only here; {_expiry(token)}.")
        elif arguments.command == "list":
            for line in _table(await tokens.find_all()):
                print(line)  # noqa: T201 - the output of the command
        else:
            await tokens.revoke(arguments.name)
            _note(f"The token {arguments.name} is revoked: services refuse it within a second.")


def _note(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - for the reader, not for a pipe


def _expiry(token: Token) -> str:
    return "it does not expire" if token.expires is None else f"it expires {_time(token.expires)}"


def _table(tokens: list[Token]) -> list[str]:
    rows = [_COLUMNS, *map(_row, tokens)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return ["  ".join(row).rstrip() for row in padded]


def _row(token: Token) -> tuple[str, ...]:
    times = map(_time, (token.created, token.expires, token.last_used))
    return token.name, ",".join(sorted(token.scopes)), *times, _state(token)


def _time(time: datetime | None) -> str:
    return "never" if time is None else f"{time:%Y-%m-%dT%H:%MZ}"


def _state(token: Token) -> str:
    if token.revoked:
        return "revoked"
    return "expired" if token.expires and token.expires <= datetime.now(UTC) else "valid"


if __name__ == "__main__":
    main()
