"""Compilation of generated source."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

_numbers = count(1)


def compile_function(name: str, source: str, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of this name that the source defines. Tracebacks show its lines.

    source: generated from declared names only, never from a request. namespace: its globals.
    """
    file = f"<generated {name} {next(_numbers)}>"
    scope = dict(namespace)
    exec(compile(source, file, "exec"), scope)  # noqa: S102 - contains nothing from requests
    # `linecache` keeps entries without a modification time.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    function: Callable[..., Any] = scope[name]
    return function
