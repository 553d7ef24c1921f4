"""The kinds of attributes that types are declared with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from email_validator import SPECIAL_USE_DOMAIN_NAMES, EmailNotValidError, validate_email
from marshmallow import ValidationError, fields, validate

# Domains such as `fleet.local` and `lab.test` are in use inside of companies.
SPECIAL_USE_DOMAIN_NAMES.clear()

_LONGEST_TEXT, _LONGEST_EMAIL = 255, 254

# Shorter than any part of an address may be. For the library it is one more of many cases, and
# takes a fifth of the time of a creation.
_PLAIN_EMAIL = re.compile(
    r"(?=.{5,64}\Z)[a-z0-9_]+(?:[.+-][a-z0-9_]+)*@(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}",
    re.ASCII | re.IGNORECASE,
)


class PlainText(fields.String):
    """A text that is stored as it is sent, with a short way to see that nothing is wrong with it.

    Its default, if it has one, is a constant.
    """

    def is_trivially_valid(self, value: Any) -> bool:
        """Whether the value is plainly right; False leaves it to marshmallow to look closely."""
        raise NotImplementedError


class ShortText(PlainText):
    """A string of 1 to 255 characters, kept as sent."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(validate=validate.Length(min=1, max=_LONGEST_TEXT), **kwargs)

    def is_trivially_valid(self, value: Any) -> bool:
        """Accept texts of such a length."""
        return isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT


class JoinedText(fields.Field[str]):
    """A read-only string: other attributes of the record, joined by one space.

    It is stored beside them, so that an index can serve its order.
    """

    def __init__(self, *parts: str, **kwargs: Any) -> None:
        super().__init__(dump_only=True, **kwargs)
        self.parts = parts

    def serialize(self, attr: str, obj: Any, *_: Any, **__: Any) -> str:  # noqa: ARG002 - marshmallow's
        """Join the parts as they are in the record, whatever is stored beside them."""
        return self.join(obj)

    def join(self, record: Mapping[str, Any]) -> str:
        """Return the text of a record; a part that is missing is empty."""
        return " ".join(str(record.get(part, "")) for part in self.parts)


class EmailAddress(PlainText):
    """An e-mail address of at most 254 characters, kept as sent; its domain has a dot."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(validate=[validate.Length(max=_LONGEST_EMAIL), _check_email], **kwargs)

    def is_trivially_valid(self, value: Any) -> bool:
        """Accept what nearly all addresses look like."""
        return isinstance(value, str) and _PLAIN_EMAIL.fullmatch(value) is not None


def _check_email(value: str) -> None:
    if len(value) > _LONGEST_EMAIL:
        return  # refused for that, and what follows takes long on a long text
    try:
        validate_email(value, check_deliverability=False, strict=True)
    except EmailNotValidError as error:
        raise ValidationError(f"Not a valid e-mail address. {error}") from error
