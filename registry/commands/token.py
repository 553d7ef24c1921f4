"""The command `token`: creates, lists and revokes access tokens."""

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from registry.access.token_form import check_name, check_scopes, digest_of, new_token
from registry.commands.database import database_options, open_database, run, settings_of
from registry.commands.output import note, output, require_output
from registry.installation import program
from registry.resources import RESOURCES
from registry.settings import Parser, Settings
from registry.start_error import StartError
from registry.storage import Token, TokenNameTaken, TokenNotFound, Tokens

_HOURS = {"h": 1, "d": 24}

_COLUMNS = ("NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    token = _token(parser, parsed) if parsed.command == "create" else None
    if parsed.command == "revoke":
        parser.parse_value("NAME", parsed.name, check_name)
    run(_run(parsed, token, settings_of(parsed)))


def _parser() -> Parser:
    parser = Parser(
        prog=f"{program()} token",
        description="Create, list and revoke access tokens, also while the service runs.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command = partial(commands.add_parser, parents=[database_options()], allow_abbrev=False)
    create = add_command(
        "create",
        usage="%(prog)s --name NAME --scope SCOPES [OPTIONS]",
        help="print a new token, which is shown only once",
    )
    create.add_argument("--name", required=True, help="name of the token in lists and logs")
    create.add_argument(
        "--scope",
        required=True,
        action="append",
        dest="scopes",
        help="read, write (implies read), or for one collection: persons:read; repeatable",
    )
    create.add_argument(
        "--expires", metavar="TIME", help="such as 12h or 90d from now [default: never]"
    )
    usage = "%(prog)s [OPTIONS]"
    add_command("list", usage=usage, help="list all tokens, without the secrets")
    revoke = add_command("revoke", usage=f"{usage} NAME", help="revoke a token")
    revoke.add_argument("name", metavar="NAME", help="the name of the token")
    return parser


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
    async with open_database(settings, creates=token is not None) as database:
        with _reported_errors():
            await _perform(arguments, token, Tokens(database))


async def _perform(arguments: argparse.Namespace, token: Token | None, tokens: Tokens) -> None:
    if token is not None:
        require_output()  # before a token is stored that nobody sees
        text = new_token()
        await tokens.create(token, digest_of(text))
        output(text)
        note(f"The token {token.name} is not shown again; {_expiry(token)}.")
    elif arguments.command == "list":
        found, malformed = await tokens.find_all()
        for line in _table(found):
            output(line)
        if malformed:
            note(f"Not listed: malformed tokens, which services refuse: {malformed:,}")
    else:
        await tokens.revoke(arguments.name)
        note(f"The token {arguments.name} is revoked: services refuse it within a second.")


@contextmanager
def _reported_errors() -> Iterator[None]:
    try:
        yield
    except TokenNameTaken as error:
        reason = f"there is a token {error} already: revoke it or choose another name"
        raise StartError(reason) from error
    except TokenNotFound as error:
        raise StartError(f"there is no token {error} to revoke") from error


def _expiry(token: Token) -> str:
    return "it does not expire" if token.expires is None else f"it expires {_time(token.expires)}"


def _table(tokens: list[Token]) -> list[str]:
    rows = [_COLUMNS, *map(_row, tokens)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return ["  ".join(row).rstrip() for row in padded]


def _row(token: Token) -> tuple[str, ...]:
    created = "unknown" if token.created is None else _time(token.created)
    times = created, _time(token.expires), _time(token.last_used)
    return token.name, ",".join(sorted(token.scopes)), *times, token.state


def _time(time: datetime | None) -> str:
    return "never" if time is None else f"{time:%Y-%m-%dT%H:%MZ}"
