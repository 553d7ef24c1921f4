"""`filter[search]`: the resources in which each word is contained in a text attribute."""

from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.filtering import (
    MAX_CONDITIONS,
    MAX_PART_LENGTH,
    AllOf,
    AnyOf,
    Condition,
    Filter,
)
from registry.model.attributes import Operator
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType

SEARCH = "search"
"""The field that the parameter names. An attribute of this name has precedence."""


def searched_fields(resource: ResourceType) -> list[ResourceField]:
    """Return the text attributes; what is computed from them has no other words."""
    own = (each for each in resource.attributes.values() if each.is_own and not each.is_computed)
    return [each for each in own if Operator.CONTAINS in each.kind.operators]


def parse_search(parameter: str, text: str, resource: ResourceType) -> Filter:
    """Return the filter of a search; blanks separate words. Raises InvalidParameter."""
    fields, words = searched_fields(resource), dict.fromkeys(text.split())
    detail, most = "", MAX_CONDITIONS // max(1, len(fields))
    if not fields:
        detail = f"`{resource.type}` has no text attributes to search."
    elif not words:
        detail = "A search must have at least one word."
    elif len(text) > MAX_PART_LENGTH:
        detail = f"A search must have at most {MAX_PART_LENGTH} characters, not {len(text)}."
    elif len(words) > most:
        detail = f"A search of `{resource.type}` must have at most {most} words, not {len(words)}."
    elif text != text.encode(errors="ignore").decode():
        detail = "The value is not UTF-8."
    if detail:
        raise InvalidParameter(detail, parameter=parameter)
    names = [each.stored_name for each in fields]
    return AllOf(
        tuple(
            AnyOf(tuple(Condition(name, Operator.CONTAINS, word) for name in names))
            for word in words
        )
    )
