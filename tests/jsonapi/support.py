"""Values of requests, and the errors that they are refused with."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from registry.jsonapi.error_objects import ApiError, ApiErrors

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
JSON = st.recursive(
    SCALARS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def errors_of(call: Callable[[], object]) -> Sequence[ApiError]:
    """Return the errors that a call raises; none if it succeeds."""
    try:
        call()
    except ApiError as error:
        return [error]
    except ApiErrors as several:
        return several.errors
    return []
