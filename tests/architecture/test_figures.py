"""The size and naming of the code base stay within the limits of CONTRIBUTING.md."""

from __future__ import annotations

from functools import cache
from typing import Any

from architecture.package import load_tool

MOST_MODULES = 420
MOST_LINES = 122_000
"""The consolidated code had 82,263 lines; the rest is for features added since."""
MOST_HEADER_PERCENT = 9.0
MOST_SMALL_MODULES = 25
ALLOWED_SMALL_MODULES: dict[str, str] = {
    "weft.backends.bundle": "the file that weft copies to hosts, a concept of its own",
    "weft.backends.runner.runner": "entry point of the runner process, which must import little",
    "weft.backends.slurm.login_node": "the engine's side of a cluster behind a login node; it must not load on the cluster",
    "weft.backends.ssh.host": "settings and errors of ssh hosts for modules that must not load asyncssh",
    "weft.platform.local": "detection of this computer, imported only for `--on local`",
    "weft.reports.paper_charts": "charts of reproductions, imported only by `weft reproduce`",
    "weft.repository.group_commit": "a thread and its rule for failed syncs, apart from the SQL of the database",
    "weft.search.annealing": "entry of the registry of optimisers",
}
"""Modules below 120 lines with one importer, each with the reason why it is a file of its own."""


@cache
def figures() -> dict[str, Any]:
    """Return the figures that `.ci/figures.py` computes."""
    return load_tool("figures").figures()


def test_number_of_modules_stays_below_the_limit() -> None:
    assert figures()["modules"] <= MOST_MODULES


def test_small_modules_with_one_importer_are_listed_with_a_reason() -> None:
    assert set(figures()["small_modules_with_one_importer"]) <= set(ALLOWED_SMALL_MODULES)
    assert len(ALLOWED_SMALL_MODULES) <= MOST_SMALL_MODULES


def test_every_class_name_is_unique_without_a_leading_underscore() -> None:
    assert figures()["class_names_twice"] == []


def test_no_comment_refers_to_a_document_outside_the_repository() -> None:
    assert figures()["references_outside"] == []


def test_headers_are_a_small_part_of_the_source() -> None:
    assert figures()["header_percent"] <= MOST_HEADER_PERCENT


def test_number_of_source_lines_stays_below_the_limit() -> None:
    assert figures()["lines"] <= MOST_LINES
