"""Products are looked up by task, fingerprint and name, before and after the commit."""

from __future__ import annotations

import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal_writer import product
from weft.backends.file_record import FileRecord
from weft.repository.database import open_database
from weft.repository.products import ProductTable


@pytest.fixture
def database(tmp_path):
    with open_database(tmp_path / "weft.db", create=True) as opened:
        yield opened


def test_product_is_found_before_and_after_the_commit(database):
    products, made = ProductTable(database), product(3)
    products.add(made)
    for _ in range(2):
        assert (
            products.of(1, 0, 3)
            == products.find_by_fingerprint("f3")
            == products.find_by_name("wien2k", "t[3]")
            == made
        )
        database.commit()
    again = ProductTable(database)
    assert (
        again.of(1, 0, 3) == again.find_by_fingerprint("f3") == again.find_by_name("wien2k", "t[3]") == made
    )
    assert (again.of(1, 0, 4), again.find_by_fingerprint("f4"), again.find_by_name("wien2k", "t")) == (
        None,
        None,
        None,
    )


def test_unusual_product_names_are_read_back(database):
    odd = FileRecord(name="a\nb\udc80\x00'\"", size_bytes=2**50, digest="d", modified_ns=2**62)
    made = product(
        1, name="ä[\udcff]", directory="/a\udc80", files=(odd,), result={"x": float("inf"), "y": None}
    )
    products = ProductTable(database)
    products.add(made)
    database.commit()
    assert ProductTable(database).find_by_name("wien2k", "ä[\udcff]") == made


def test_moved_project_keeps_its_products(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    places = {1: f"{old}/.weft/sandbox/m/1/0", 2: f"{old}-out/1/0", 3: "/box/1/0", 4: ""}
    with open_database(old / ".weft" / "weft.db", create=True) as database:
        products = ProductTable(database)
        for number, directory in places.items():
            products.add(product(number, directory=directory))
        database.commit()
        assert [ProductTable(database).of(1, 0, number).directory for number in places] == list(
            places.values()
        )
    old.rename(new)
    with open_database(new / ".weft" / "weft.db", create=True) as database:
        products = ProductTable(database)
        moved = [products.of(1, 0, number).directory for number in places]
        assert moved == [f"{new}/.weft/sandbox/m/1/0", *list(places.values())[1:]]
        assert sorted(products.directories(1)) == sorted(moved)


def test_absolute_directories_of_products_are_kept(database):
    database.queue_insert(
        "INSERT INTO product VALUES (9, 1, 0, 9, 't', 'k', 'w', 0, 1, 'm', ?, 0, '{}', 'f', '{}', 0.0, '', '[]')",
        (str(database.path.parent / "box"),),
    )
    database.commit()
    assert ProductTable(database).of(1, 0, 9).directory == str(database.path.parent / "box")


def test_empty_fingerprint_never_matches(database):
    products = ProductTable(database)
    products.add(product(1, fingerprint=""))
    database.commit()
    assert products.find_by_fingerprint("") is None
    assert products.find_by_fingerprint("", besides=1) is None
    assert ProductTable(database).find_by_fingerprint("") is None


class ReferenceProducts:
    """Reference implementation of the same interface with a list."""

    def __init__(self):
        self.all = []

    def newest(self, **wanted):
        found = [each for each in self.all if all(getattr(each, key) == wanted[key] for key in wanted)]
        return found[-1] if found else None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "commit", "reopen"]), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)
    ),
    max_size=25,
)


@given(steps=STEPS, kept=st.integers(0, 3))
def test_queries_for_products_equal_those_of_a_reference_list(steps, kept, tmp_path_factory):
    """The newest product is returned, whether it is in memory, on disk or dropped from memory."""
    reference, number = ReferenceProducts(), 0
    with open_database(tmp_path_factory.mktemp("products") / "weft.db", create=True) as database:
        products = ProductTable(database, kept=kept)
        for what, task, name, fingerprint in steps:
            if what == "add":
                number += 1
                facets = {
                    "task": task,
                    "name": f"n{name}",
                    "fingerprint": f"{fingerprint}" if fingerprint else "",
                }
                made = product(number, **facets)
                products.add(made)
                reference.all.append(made)
            else:
                database.commit()
            if what == "reopen":
                products = ProductTable(database, kept=kept)
            assert products.of(1, 0, task) == reference.newest(execution=1, run=0, task=task)
            assert products.find_by_name("wien2k", f"n{name}") == reference.newest(name=f"n{name}")
            assert products.find_by_fingerprint("1") == reference.newest(fingerprint="1")


def test_product_and_files_are_written_by_one_commit(database, monkeypatch):
    """Another thread commits after every row; no product is visible without its files."""
    products, keep, seen, threads = ProductTable(database), database.queue_insert, [], []
    count = "SELECT (SELECT count(*) FROM product), (SELECT count(*) FROM made_file)"

    def commit():
        database.commit()
        seen.append(database.row(count))

    def insert(statement, row):
        keep(statement, row)
        threads.append(threading.Thread(target=commit))
        threads[-1].start()
        threads[-1].join(0.05)

    monkeypatch.setattr(database, "queue_insert", insert)
    products.add(product(1))
    products.add(product(2))
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert set(seen) <= {(0, 0), (1, 2), (2, 4)}
    assert database.row(count) == (2, 4)


def test_number_of_products_in_memory_is_bounded(database):
    """Committed products are dropped from memory: four times as many products need no more memory."""
    products = ProductTable(database, kept=200)

    def fill(first, last):
        for number in range(first, last):
            products.add(product(number))
            if number % 50 == 0:
                database.commit()

    tracemalloc.start()
    try:
        fill(0, 400)
        before, _ = tracemalloc.get_traced_memory()
        fill(400, 1600)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after < 1.5 * before
    assert products.of(1, 0, 5) == product(5)


def test_products_of_other_executions_can_be_ignored(database):
    products = ProductTable(database)
    first, own = product(1, execution=1, fingerprint="same"), product(2, execution=2, fingerprint="same")
    for each in (first, own):
        products.add(each)
    database.commit()
    products = ProductTable(database)  # as an engine that starts after another one
    assert products.find_by_fingerprint("same") == own
    assert products.find_by_fingerprint("same", besides=2) == first
    assert products.find_by_fingerprint("same", besides=1) == own
    fresh = ProductTable(database, only=2)
    assert (fresh.find_by_fingerprint("same"), fresh.find_by_fingerprint("same", besides=2)) == (own, None)
    assert ProductTable(database, only=3).find_by_fingerprint("same") is None


def test_products_of_an_iteration_are_found_by_all_counters(database):
    products = ProductTable(database)
    facets = {"name": "t", "fingerprint": ""}
    loops = [(), (2,), (1, 1), (1, 2), (2, 1), (1, 2)]
    made = [
        product(number, counters=counters, iteration=(*counters, 1)[len(counters) - 1], **facets)
        for number, counters in enumerate(loops)
    ]
    for each in made:
        products.add(each)
    products.add(product(9, execution=2, counters=(2, 1), iteration=1, **facets))
    database.commit()
    products = ProductTable(database)  # as an engine that starts after another one

    def find(*counters, besides=2):
        return products.find_by_iteration("wien2k", "t", counters, besides)

    assert [find(1), find(2), find(1, 1), find(1, 2), find(2, 1)] == [made[n] for n in (0, 1, 2, 5, 4)]
    assert [find(3), find(2, 2), find(1, 1, 1), find(1, 2, besides=1)] == [None] * 4
    assert find(2, 1, besides=1) is not None
    assert ProductTable(database, only=2).find_by_iteration("wien2k", "t", (2,), 3) is None
