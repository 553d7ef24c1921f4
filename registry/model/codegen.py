"""Functions compiled from source that is generated for one declaration."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

_numbers = count(1)


def compile_function(name: str, source: str, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of this name that the source defines.

    source: generated from declared names alone, never from text of a client. namespace: the objects
    that it uses, by name. Tracebacks show its lines.
    """
    file = f"<generated {name} {next(_numbers)}>"
    scope = dict(namespace)
    exec(compile(source, file, "exec"), scope)  # noqa: S102 - no text of a client is in it
    # An entry without a modification time is never checked against a file, nor discarded.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    function: Callable[..., Any] = scope[name]
    return function
