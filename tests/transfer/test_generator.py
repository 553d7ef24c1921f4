"""Generated data."""

from __future__ import annotations

from itertools import islice

from registry.transfer.generator import Generator, GeneratorOptions


def test_a_seed_produces_the_same_data_in_every_version() -> None:
    generator = Generator(GeneratorOptions(persons=1_000, computers=3_000, seed=1))
    assert next(persons := generator.persons()) == {
        "first_name": "Dennis",
        "last_name": "Boone",
        "email": "dennis.boone@example.com",
    }
    assert len(list(persons)) == 999
    computers = generator.computers([str(number) for number in range(1_000)])
    assert [(each["serial"], owner) for each, owner in islice(computers, 3)] == [
        ("C02210200001", "244"),
        ("PF241100002", "0"),
        ("C02184200003", "561"),
    ]


def test_some_values_are_missing_and_no_address_occurs_twice() -> None:
    generator = Generator(GeneratorOptions(persons=1_000, computers=1_000, seed=2))
    emails = [person.get("email") for person in generator.persons()]
    owners = [owner for _, owner in generator.computers(["1"])]
    assert 50 < emails.count(None) < 150
    assert len(set(emails)) == 1_001 - emails.count(None)
    assert 50 < owners.count(None) < 150


def test_computers_without_persons_have_no_owner() -> None:
    generator = Generator(GeneratorOptions(persons=0, computers=3, seed=1))
    assert [owner for _, owner in generator.computers([])] == [None] * 3
