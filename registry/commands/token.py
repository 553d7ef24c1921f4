"""The command `token`: creates, lists and revokes access tokens."""

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from registry.access.principal import check_name, check_scopes, digest_of, new_token
from registry.commands.arguments import (
    DatabaseParser,
    add_database,
    checked,
    command_parser,
    declared_graph,
)
from registry.commands.database import open_database, place_of, run
from registry.commands.output import output, require_output
from registry.model.graph import Graph
from registry.program import StartError, note
from registry.settings import Parser, Settings
from registry.storage import Token, TokenNameTaken, TokenNotFound, Tokens

_HOURS = {"h": 1, "d": 24}

_COLUMNS = ("NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = _parser(declared_graph(arguments))
    parsed = parser.parse_args(arguments)
    run(_run(parsed, parser.settings(parsed)))


def _parser(graph: Graph) -> Parser:
    parser = command_parser(
        "token",
        "Create, list and revoke access tokens, even while the service runs.",
        kind=DatabaseParser,
    )
    commands = parser.add_subparsers(
        prog=parser.prog, dest="command", required=True, metavar="COMMAND"
    )
    add_command = partial(commands.add_parser, allow_abbrev=False)
    create = add_command(
        "create",
        usage="%(prog)s --name NAME --scope SCOPE [OPTIONS]",
        help="Print a new token, which is shown only once.",
    )
    name_help = "Show this name of the token in lists and logs."
    create.add_argument("--name", required=True, type=checked(check_name), help=name_help)
    create.add_argument(
        "--scope",
        required=True,
        action="append",
        dest="scopes",
        metavar="SCOPE",
        type=checked(lambda scope: check_scopes([scope], graph.writable)),
        help="Allow read or write (which implies read), or persons:read only (repeatable).",
    )
    expires_help = "Refuse the token from then on, such as 12h or 90d from now. [default: never]"
    create.add_argument("--expires", metavar="TIME", type=checked(_duration), help=expires_help)
    usage = "%(prog)s [OPTIONS]"
    listing = add_command("list", usage=usage, help="List all tokens, without the secrets.")
    revoke = add_command("revoke", usage=f"{usage} NAME", help="Refuse a token from now on.")
    name_help = "The name of the token."
    revoke.add_argument("name", metavar="NAME", type=checked(check_name), help=name_help)
    for command in (create, listing, revoke):
        add_database(command)
    return parser


def _duration(text: str) -> timedelta:
    if not re.fullmatch(r"[1-9][0-9]{0,3}[hd]", text):
        raise ValueError(f"{text!r} is not a time such as 12h or 90d")
    return timedelta(hours=int(text[:-1]) * _HOURS[text[-1]])


async def _run(parsed: argparse.Namespace, settings: Settings) -> None:
    async with open_database(settings, creates=parsed.command == "create") as database:
        try:
            await _COMMANDS[parsed.command](parsed, Tokens(database), place_of(settings))
        except TokenNameTaken as error:
            reason = f"there is a token {error} already: revoke it or choose another name"
            raise StartError(reason) from error
        except TokenNotFound as error:
            raise StartError(f"there is no token {error} to revoke") from error


async def _create(parsed: argparse.Namespace, tokens: Tokens, place: str) -> None:
    require_output()  # before a token is stored that nobody sees
    now, text = datetime.now(UTC), new_token()
    expires = now + parsed.expires if parsed.expires else None
    scopes = frozenset[str]().union(*parsed.scopes)
    await tokens.create(Token(parsed.name, scopes, now, expires), digest_of(text))
    output(text)
    expiry = f"it expires {_time(expires)}" if expires else "it does not expire"
    note(f"The token {parsed.name} is not shown again; {expiry}. Stored in {place}")


async def _list(_: argparse.Namespace, tokens: Tokens, place: str) -> None:
    found = await tokens.find_all()
    for line in _table(found):
        output(line)
    note(f"Listed {len(found):,} token{'s' * (len(found) != 1)} of {place}")


async def _revoke(parsed: argparse.Namespace, tokens: Tokens, place: str) -> None:
    await tokens.revoke(parsed.name)
    note(f"Revoked {parsed.name}, which services refuse within a second, in {place}")


_COMMANDS = {"create": _create, "list": _list, "revoke": _revoke}


def _table(tokens: list[Token]) -> list[str]:
    rows = [_COLUMNS, *map(_row, tokens)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return ["  ".join(row).rstrip() for row in padded]


def _row(token: Token) -> tuple[str, ...]:
    times = _time(token.created), _time(token.expires), _time(token.last_used)
    return token.name, ",".join(sorted(token.scopes)), *times, token.state


def _time(time: datetime | None) -> str:
    return "never" if time is None else f"{time:%Y-%m-%dT%H:%MZ}"
