"""No form of a URL in the output of a task makes weft read or write a file that the user has not named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from security.hostile_project import Place

FORMS = (
    "file:{outside}/canary",
    "FILE:{outside}/canary",
    "File://{outside}/canary",
    "file://localhost{outside}/canary",
    "file:///{outside}/canary",
    "file:../outside/canary",
    "file:%2e%2e/outside/canary",
    "file:%2F{outside}/canary",
    "local://{outside}/canary",
    "%2e%2e/outside/canary",
    "..%2foutside/canary",
    "//{outside}/canary",
    "x::file://{outside}/canary",
    "..\\outside\\canary",
)
_WRITE = (
    "import os, sys; name = './' + sys.argv[1]; os.makedirs(os.path.dirname(name), exist_ok=True); "
    "open(name, 'w').write('evil')"
)


_SWEEP = {"chunk": "lines(split.parts)"}
_SPLIT = {"command": "cat forms > parts", "outputs": ["parts"]}


def _tasks() -> dict[str, object]:
    return {
        "split": _SPLIT,
        "from": {"sweep": _SWEEP, "command": "true", "inputs": [{"file": "got", "from": "{chunk}"}]},
        "below": {"sweep": _SWEEP, "command": "true", "inputs": [{"file": "got", "from": "data/{chunk}"}]},
        "url": {"sweep": _SWEEP, "command": "true", "inputs": [{"file": "got", "from": "file:data/{chunk}"}]},
        "name": {"sweep": _SWEEP, "command": "true", "inputs": ["{chunk}"]},
        "word": {"sweep": _SWEEP, "command": ["true", "{chunk}"]},
        "to": {"sweep": _SWEEP, "command": "echo evil > made", "outputs": {"made": {"to": "{chunk}"}}},
        "stream": {"sweep": _SWEEP, "command": "echo evil", "stdout": "{chunk}"},
    }


def _write_forms(place: Place) -> list[str]:
    lines = [form.replace("{outside}", str(place.outside)) for form in FORMS]
    (place.project / "forms").write_text("\n".join(lines) + "\n")
    return lines


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return one run in which a task has written every form, and other tasks use them as file names."""
    place = Place(tmp_path_factory.mktemp("urls"))
    # A file of this name exists, so a word of a command names it; weft must copy it and not the canary.
    decoy = place.project / _write_forms(place)[0]
    decoy.parent.mkdir(parents=True)
    decoy.write_text("decoy\n")
    place.run(_tasks())
    yield place
    place.assert_nothing_touched()


@pytest.mark.parametrize("form", FORMS)
def test_url_written_by_a_task_is_refused(attacked: Place, form: str) -> None:
    line = form.replace("{outside}", str(attacked.outside))
    ends = attacked.ends()
    for task in ("from", "below", "url", "stream"):
        assert "was written by a task" in ends[f"{task}[{line}]"].text, task
    if not (attacked.project / line).exists():
        assert ends[f"name[{line}]"].cause == "staging"
    refused = [getattr(entry.event, "problem", "") for entry in attacked.journal().entries]
    assert any(repr(line) in problem and "was written by a task" in problem for problem in refused)


def test_no_file_of_the_project_has_the_content_of_a_file_outside_the_project(attacked: Place) -> None:
    attacked.assert_nothing_touched()
    found = [path for path in attacked.project.rglob("*") if path.is_file() and "weft.db" not in path.name]
    assert len(found) > len(FORMS)
    assert [path for path in found if b"sings" in path.read_bytes()] == []


def test_output_named_like_a_url_is_a_file_of_the_project(place: Place) -> None:
    _write_forms(place)
    write = [sys.executable, "-c", _WRITE, "{chunk}"]
    place.run({"split": _SPLIT, "output": {"sweep": _SWEEP, "command": write, "outputs": ["{chunk}"]}})
    assert (place.project / f"file:{place.outside}" / "canary").read_text() == "evil"


@pytest.mark.parametrize(
    ("first", "second"), [("file", ":{outside}/canary"), ("", "{outside}/canary"), (".", "./outside/canary")]
)
def test_harmless_values_that_form_a_url_together_are_refused(place: Place, first: str, second: str) -> None:
    """An empty word makes the next one absolute, and two dots make a step upwards."""
    words = [first, second.replace("{outside}", str(place.outside))]
    result = json.dumps({"a": words[0], "b": words[1].lstrip("/")})
    (place.project / "words").write_text(result)
    between = "/" if not first else ""
    place.run(
        {
            "say": {"command": "cat words > $WEFT_RESULT_FILE"},
            "do": {
                "after": "say",
                "command": "echo evil",
                "stdout": f"{{say.result.a}}{between}{{say.result.b}}",
            },
        }
    )
    end = place.ends()["do"]
    assert end.cause == "error"
    assert "was written by a task" in end.text


def test_urls_and_paths_stated_by_the_user_are_used(place: Place) -> None:
    canary = place.outside / "canary"
    ran = place.run(
        {
            "a": {
                "sweep": {"k": [f"file:{canary}", f"FILE://{canary}", canary.as_uri(), str(canary)]},
                "command": "cat got > x; echo hi",
                "inputs": [{"file": "got", "from": "{k}"}],
            },
            "split": {"command": "printf 'canary\\nfolder/canary\\n' > parts", "outputs": ["parts"]},
            "part": {
                "sweep": {"chunk": "lines(split.parts)"},
                "command": "cat got",
                "inputs": [{"file": "got", "from": f"file://{place.outside}/{{chunk}}"}],
            },
        }
    )
    assert ran.completed, place.ends()
