"""The header `Prefer` (RFC 7240): to merge with what is stored, or to try a change only."""

import re
from dataclasses import dataclass

from aiohttp import web
from multidict import istr

from registry.protocol import MERGE, PREFER, PREFERENCE_APPLIED, ROLL_BACK

_PREFER = istr(PREFER)

_QUOTED = r'"(?:[^"\\]|\\.)*+'
# Up to a comma that is not quoted; a quote that does not end reaches to the end.
_ELEMENT = re.compile(rf'(?:{_QUOTED}\\?"?|[^",])++')
_PREFERENCE = re.compile(rf'\s*+([^\s=;"]++)\s*+(?:=\s*+({_QUOTED}"|[^\s;"]*+)\s*+)?+(?:;|\Z)')
"""A preference before its parameters, none of which is supported."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """The supported preferences of a request.

    merges: whether to update a resource that has the value of a unique attribute. rolls_back:
    whether to undo everything in the end.
    """

    merges: bool = False
    rolls_back: bool = False

    def acknowledge(self, response: web.StreamResponse) -> None:
        """Add the header that tells which preferences were applied, if any were."""
        named = {MERGE: self.merges, ROLL_BACK: self.rolls_back}
        if applied := ", ".join(text for text, is_applied in named.items() if is_applied):
            response.headers[PREFERENCE_APPLIED] = applied


def read_preferences(request: web.BaseRequest) -> Preferences:
    """Return the preferences of a request.

    Others are ignored, and so is what is malformed. Of several values, the first one counts.
    """
    if _PREFER not in request.headers:
        return Preferences()
    sent: dict[str, str] = {}
    for element in _ELEMENT.findall(",".join(request.headers.getall(_PREFER))):
        if match := _PREFERENCE.match(element):
            value = match[2] or ""
            if value.startswith('"'):
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            sent.setdefault(match[1].lower(), value)
    named = [f"{name}={value}" for name, value in sent.items()]
    return Preferences(MERGE in named, ROLL_BACK in named)
