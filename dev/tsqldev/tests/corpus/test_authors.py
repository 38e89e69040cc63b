"""A batch of a test process is a test's or the product's, whoever passes its text on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tsqldev.authors import Authors

_PRODUCT = """
def send(cursor, text):
    return cursor.execute(text)

def send_all(cursor, *texts):
    for text in texts:
        cursor.execute(text)

def own(cursor, send=send):
    send(cursor, "SELECT own")

def calling(work):
    work()

def built(cursor, name):
    send(cursor, f"SELECT {name}")
"""
_TEST = """
class Watched:
    def __init__(self, cursor):
        self.cursor = cursor

    def execute(self, operation, *parameters):
        return self.cursor.execute(operation, *parameters)

def own(cursor, send):
    send(cursor, "SELECT test")

def callback(cursor, calling, send):
    calling(lambda: send(cursor, "SELECT test"))

def given(text, cursor, send):
    send(cursor, text)
"""


class _Cursor:
    """A cursor of the driver, watched."""

    def __init__(self, authors: Authors) -> None:
        self._execute = authors.noting(lambda _cursor, _text, *_arguments: None)

    def execute(self, *arguments: Any) -> None:
        self._execute(self, *arguments)


class _Checkout:
    def __init__(self, root: Path) -> None:
        self.authors = Authors(root, [root / "tests"])
        self.cursor = _Cursor(self.authors)
        self.product = self._module(root / "product.py", _PRODUCT)
        self.test = self._module(root / "tests" / "test_one.py", _TEST)

    def _module(self, file: Path, text: str) -> dict[str, Callable[..., Any]]:
        names: dict[str, Any] = {}
        exec(compile(text, file, "exec"), names)  # the two texts above
        return names

    def texts(self) -> tuple[list[str], list[str]]:
        return sorted(self.authors.written_by_tests()), sorted(self.authors.written_by_others())


@pytest.fixture
def checkout(tmp_path: Path) -> _Checkout:
    return _Checkout(tmp_path)


def test_what_a_test_holds_is_its_own_through_functions_of_the_product(checkout: _Checkout) -> None:
    product, test = checkout.product, checkout.test
    test["own"](checkout.cursor, product["send"])
    assert checkout.texts() == (["SELECT test"], [])
    test["callback"](checkout.cursor, product["calling"], product["send_all"])
    # As a case of `parametrize` comes from pytest.
    test["given"]("SELECT case", checkout.cursor, product["send"])
    assert checkout.texts() == (["SELECT case", "SELECT test"], [])


def test_what_the_product_holds_or_builds_is_its_own_through_objects_of_a_test(checkout: _Checkout) -> None:
    product, test = checkout.product, checkout.test
    product["own"](test["Watched"](checkout.cursor))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(product["built"], checkout.cursor, "name").result()
    assert checkout.texts() == ([], ["SELECT name", "SELECT own"])


def test_what_both_write_is_the_products(checkout: _Checkout) -> None:
    for _ in range(2):
        checkout.test["given"]("SELECT own", checkout.cursor, checkout.product["send"])
        checkout.product["own"](checkout.cursor)
    assert checkout.texts() == ([], ["SELECT own"])


def test_the_driver_is_watched_for_as_long_as_the_block_lasts(tmp_path: Path) -> None:
    from mssql_python.cursor import Cursor

    before = Cursor.execute, Cursor.executemany
    authors = Authors(tmp_path, [tmp_path])
    with authors.watching():
        assert before[0] is not Cursor.execute
        with pytest.raises(AttributeError):
            Cursor.execute(None, "SELECT 1")
    assert (Cursor.execute, Cursor.executemany) == before
    # Nobody of that checkout sent it.
    assert list(authors.written_by_others()) == ["SELECT 1"]
