"""Whatever a task writes, a path or URL that contains it leads to the folder or host that the user stated."""

from __future__ import annotations

import posixpath
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from weft.backends.attempt.external_files import file_url_path
from weft.backends.attempt.inputs import refuse_redirection
from weft.backends.attempt.safe_paths import StagingProblem
from weft.urls import is_url, split_url
from weft.workflow.quantity import Sweep
from weft.workflow.task import Task
from weft.workflow.templates import fill_template

FOLDER = "/home/user/project"
TEMPLATES = {
    "{a}": FOLDER,
    "{a}{b}": FOLDER,
    "{a}/{b}": FOLDER,
    "data/{a}": f"{FOLDER}/data",
    "data/{a}{b}.csv": f"{FOLDER}/data",
    "data/{a}{b}/x": f"{FOLDER}/data",
    "data/{a}/../x": f"{FOLDER}/data",
    "{a}/../x{b}": FOLDER,
    "../shared/{a}": "/home/user/shared",
    "/data/{a}/{b}": "/data",
    "file:{a}{b}": FOLDER,
    "file:data/{a}": f"{FOLDER}/data",
    "file:data/{a}{b}/x": f"{FOLDER}/data",
    "file:///data/{a}/{b}": "/data",
    "file://localhost/data/{a}{b}": "/data",
    "http://host/{a}{b}": "http host",
    "https://host/data/{a}?{b}": "https host",
    "s3://bucket/{a}/{b}": "s3 bucket",
}
"""By template: the folder below which, or the scheme and host to which, it must lead."""
PIECES = [
    *"/\\.:@?#%~ x\n\t", "..", "../", "/../", "//", "file", "file:", "FILE:", "http://", "evil", "localhost", "::",
    "%2e", "%2E%2e", "%2f", "%5c", "%00", "%252e", "etc/passwd",
]  # fmt: skip
WORDS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
TASK = Task(name="t", sweep=Sweep(variables=(("a", ("x",)), ("b", ("x",))), grown=(("a", "f"), ("b", "f"))))


def destination(text: str) -> str:
    """Return where weft would read or write: a scheme and a host, or an absolute path."""
    path: str | None = text
    if is_url(text) and (path := file_url_path(text)) is None:
        parts = split_url(text)
        return f"{parts.scheme} {parts.netloc}"
    assert path is not None
    return posixpath.normpath(posixpath.join(FOLDER, path))


@given(template=st.sampled_from(sorted(TEMPLATES)), a=WORDS, b=WORDS)
def test_accepted_path_or_url_stays_in_the_folder_or_host_stated_by_the_user(
    template: str, a: str, b: str
) -> None:
    values = {"a": a, "b": b}
    # Refused here, or by the function that splits the URL.
    with suppress(StagingProblem):
        refuse_redirection(TASK, template, values)
        found = destination(fill_template(template, values))
        stated = TEMPLATES[template]
        assert found == stated or found.startswith(f"{stated}/"), found


@given(a=st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,10}(/[A-Za-z0-9_]{1,10}){0,2}", fullmatch=True))
def test_plain_words_are_accepted(a: str) -> None:
    for template in TEMPLATES:
        refuse_redirection(TASK, template, {"a": a, "b": "b"})
