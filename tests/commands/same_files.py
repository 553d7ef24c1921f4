"""Files of computers, which every client imports with the same result."""

from dataclasses import dataclass, field

HEADER = "serial,owner.email,owner.first_name,owner.last_name\n"
ADA = "ada@x.org,Ada,King"


@dataclass(frozen=True)
class Case:
    """A file of computers. serials: stored then. invalid: lines; None if the file is refused."""

    file: str | bytes
    serials: list[str] = field(default_factory=list)
    invalid: list[int] | None = field(default_factory=list)
    charset: str = "utf-8"
    key: str = "serial"

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return self.file.encode() if isinstance(self.file, str) else self.file


FILES = {
    "semicolons": Case(f"{HEADER}A,{ADA}\n".replace(",", ";"), ["A"]),
    "byte order mark": Case(f"\ufeff{HEADER}A,{ADA}\n", ["A"]),
    "quoted line breaks": Case('serial\n"A\nB"\nC\n,x\n', ["A\nB", "C"], [5]),
    "mixed case": Case(f"{HEADER}A,{ADA}\nB,Ada@X.org,Ada,King\n", ["A", "B"]),
    "duplicate keys": Case("serial\nA\nB\nA\n", ["A", "B"], [4]),
    "two owners of one name": Case(f"{HEADER}A,a@x.org,Ada,King\nB,b@x.org,Ada,King\n", ["A", "B"]),
    "windows-1252": Case(f"{HEADER}Ä,{ADA}\n".encode("cp1252"), ["Ä"], charset="windows-1252"),
    "utf-16": Case(f"{HEADER}Ä,{ADA}\n".encode("utf-16"), ["Ä"], charset="utf-16"),
    "not utf-8": Case(f"{HEADER}Ä,{ADA}\n".encode("cp1252"), invalid=None),
    "empty rows": Case(f"{HEADER}\n,,,\nA,{ADA}\n  \n,,,\n", ["A"]),
    "100 kB in a cell": Case(f"serial\n{'x' * 100_000}\nB\n", ["B"], [2]),
    "no newline at the end": Case("serial\nA\nB", ["A", "B"]),
    "header only": Case("serial\n", invalid=None),
    "empty": Case("", invalid=None),
    "unknown column": Case("serial,colour\nA,red\n", invalid=None),
    "column twice": Case("serial,serial\nA,B\n", invalid=None),
    "10,000 columns": Case(f"serial{',x' * 10_000}\nA{',' * 10_000}\n", invalid=None),
    "formulas": Case("serial\n'=1+1\n'-5\n", ["-5", "=1+1"]),
    "tabs": Case(f"sep=\t\n{HEADER}A,{ADA}\n".replace(",", "\t"), ["A"]),
    "lone surrogate": Case(b"serial\nA\n" + b"\xed\xa0\x80\n", ["A"], [3]),
    "cells": Case(f"{HEADER}A,{ADA}\nB,{ADA},x\nC\n", ["A"], [3, 4]),
    "unterminated quote": Case('serial\nA\n"B\nC\n', ["A"], [3]),
}
