"""Other limits for reads by related resources, which only millions of records would reach."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from registry.storage.reads import plan, related


@contextmanager
def limited(**limits: int) -> Iterator[None]:
    """Replace limits, by name."""
    with ExitStack() as patches:
        for name, limit in limits.items():
            modules = [module for module in (plan, related) if hasattr(module, name)]
            assert modules, f"no module has a limit {name}"
            for module in modules:
                patches.enter_context(patch.object(module, name, limit))
        yield
