"""The text form of access tokens, and the names and scopes of tokens."""

import pytest

from registry.access.principal import (
    check_form,
    check_name,
    check_scopes,
    digest_of,
    new_token,
    redact,
)
from registry.jsonapi.error_types import InvalidToken
from registry.resources import RESOURCES


def test_new_tokens_are_well_formed_and_different() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    for token in tokens:
        check_form(token)
        assert token.startswith("reg_")
        assert token.isascii()
        assert len(token) == 53


def test_a_token_with_another_or_a_further_character_is_malformed() -> None:
    token = new_token()
    malformed = [f"{token}x", f"{token}\n", f" {token}"]
    for position, character in enumerate(token):
        other = "x" if character != "x" else "y"
        malformed.append(token[:position] + other + token[position + 1 :])
    for text in malformed:
        with pytest.raises(InvalidToken):
            check_form(text)


@pytest.mark.parametrize(
    "text", ["", "reg_", "reg_x", "x" * 100_000, "reg_" + "é" * 49, "reg_" + "\udcff" * 49]
)
def test_malformed_texts_are_refused_but_not_repeated(text: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        check_form(text)
    assert caught.value.detail == "The access token is malformed."


def test_the_digest_has_256_bits_and_is_defined_for_any_text_of_a_header() -> None:
    assert len(digest_of(new_token())) == 32
    assert digest_of("é") != digest_of("\udcff")


def test_tokens_are_removed_from_texts_for_the_log() -> None:
    token = new_token()
    assert redact(f"/persons/{token}/computers") == "/persons/.../computers"
    assert redact(f"/persons?access_token={token}&sort=id") == "/persons?access_token=...&sort=id"
    assert redact("/persons?access_token=eyJh.eyJz.c2ln") == "/persons?access_token=..."
    assert redact(f"/persons/{token.replace('_', '%5f')}") == "/persons/..."
    assert redact("/persons?sort=id&access%5Ftoken=x%20y") == "/persons?sort=id&access%5Ftoken=..."
    assert redact("/persons?filter[last_name]=reg_") == "/persons?filter[last_name]=reg_"


@pytest.mark.parametrize("name", ["ci", "CI-2", "a.b_c", "9", "x" * 64])
def test_a_name_of_letters_digits_and_some_signs_is_valid(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "-x", ".", "a b", "é", "x" * 65, "a\n", "a/b"])
def test_other_names_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid name"):
        check_name(name)


def test_scopes_of_all_types_and_of_declared_ones_are_valid() -> None:
    scopes = ["read", "write", "persons:read", "persons:write", "computers:read"]
    assert check_scopes(scopes, RESOURCES) == frozenset(scopes)


@pytest.mark.parametrize("scope", ["", "admin", "person:read", "persons", "persons:admin", ":read"])
def test_an_unknown_scope_is_rejected_with_the_available_ones(scope: str) -> None:
    with pytest.raises(ValueError, match=r"is not a scope; available: read, write, .*persons:read"):
        check_scopes(["read", scope], RESOURCES)
