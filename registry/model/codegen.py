"""Functions that are made once for what is declared, where a general one would take longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled(source: str, **known: Any) -> Callable[..., Any]:
    """Return the function of this name, `made`, that the source defines.

    source: Python, put together of declared names alone. known: what it speaks of by name.
    """
    exec(source, known)  # noqa: S102 - nothing of a client is in it
    made: Callable[..., Any] = known["made"]
    return made
