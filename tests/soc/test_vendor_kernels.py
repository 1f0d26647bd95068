"""The table of what the vendor's kernels do names operators, each once."""

from __future__ import annotations

from jumar.operators import operator
from jumar.soc.support.data import table

FORMATS = {family: names.split() for family, names in table("vendor_kernels")["formats"].items()}


def test_every_name_is_an_operator() -> None:
    names = {name for listed in FORMATS.values() for name in listed} | set(table("vendor_kernels")["sparse"].split())
    assert {name for name in names if not operator(name).known} == set()


def test_an_operator_has_one_family() -> None:
    names = [name for listed in FORMATS.values() for name in listed]
    assert len(names) == len(set(names))


def test_names_are_sorted() -> None:
    assert all(names == sorted(names) for names in FORMATS.values())
