"""Values of requests, and the errors that they are refused with."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from registry.jsonapi.error_objects import ApiError, RequestError
from registry.resources.person import person

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
    except RequestError as error:
        return error.errors
    return []


NAMED = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "type": st.just("person") | JSON,
        "attributes": st.dictionaries(
            st.sampled_from([*person.attributes, "password", "x/~"]), JSON, max_size=4
        )
        | JSON,
        "relationships": st.fixed_dictionaries(
            {},
            optional={
                "computers": st.fixed_dictionaries(
                    {"data": st.lists(st.fixed_dictionaries({"type": JSON, "id": JSON})) | JSON}
                )
                | JSON,
                "x": JSON,
            },
        )
        | JSON,
    },
)


def check_pointers(document: Any, errors: Sequence[ApiError]) -> None:
    """Check that each pointer (RFC 6901) leads to a member of something in the document."""
    for error in errors:
        assert error.pointer is not None
        parent, part = error.pointer.rpartition("/")[0], document
        if not parent.endswith("/attributes"):
            for step in parent.split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                part = part[int(name)] if isinstance(part, list) else part[name]
