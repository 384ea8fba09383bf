from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.documents import from_python
from weft.platform.file_format import platform_document, read_platform
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.platform.short_forms import parse_short_form


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_writing_and_reading_gives_an_equal_platform(
    platforms: st.SearchStrategy[Platform], data: st.DataObject
) -> None:
    platform = data.draw(platforms)
    text = json.dumps(platform_document(platform), allow_nan=False)
    assert read_platform(from_python(json.loads(text)), None) == platform


def test_default_values_are_not_written() -> None:
    assert platform_document(Platform(name="p", machines=(Machine(name="m"),))) == {
        "weft": 1,
        "name": "p",
        "machines": {"m": {}},
    }


def test_only_values_that_differ_from_the_defaults_are_written() -> None:
    machine = Machine(name="m", nodes=4, speed=2.0, speeds={"dock": 3.0}, services=("gee",))
    platform = Platform(name="p", machines=(machine,), default_link=Link(latency_s=0.5))
    document = platform_document(platform)
    assert document["machines"] == {
        "m": {"nodes": 4, "speed": {"default": 2.0, "dock": 3.0}, "services": ["gee"]}
    }
    assert document["links"] == {"default": {"bandwidth": 1e9, "latency": 0.5}}


def test_platforms_from_short_forms_can_be_written() -> None:
    for text in ("identical:3,bandwidth=10MB/s", "cluster:64,cores=36", "local", "random:5,sites=2"):
        platform = parse_short_form(text)
        assert platform is not None
        assert read_platform(from_python(platform_document(platform)), None) == platform
