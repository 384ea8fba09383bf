"""Short forms of platforms: ``identical:8``, ``cluster:64``, ``local`` or ``random:16`` instead of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.errors import InvalidInput, Problem, shorten, suggest
from weft.platform.local import local_machine
from weft.platform.machine import MOST, MOST_MACHINES, QUEUES, Machine
from weft.platform.platform import DEFAULT_LINK, Link, Platform
from weft.records import dataclass
from weft.units import parse_bytes, parse_rate, parse_seconds

_Parser = Callable[[str], Any]
"""A function that returns the value of an option's text; None for invalid text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShortForm:
    """One short form: what its number counts, and its options."""

    summary: str
    counts: str
    options: Mapping[str, tuple[_Parser, str]]
    """Per option: its parser and the rule for its value."""
    make: Callable[[int | None, dict[str, Any]], Platform]
    needs_count: bool = True


def parse_short_form(text: str) -> Platform | None:
    """Return the platform that a short form describes; None if the text starts with no known short form."""
    word, colon, rest = text.strip().partition(":")
    if (form := SHORT_FORMS.get(word)) is None:
        return None
    first, *others = rest.split(",") if colon else [""]
    platform = form.make(_count(word, form, first), _options(word, form, others))
    if problems := list(platform.find_problems()):
        raise InvalidInput(problems)
    return platform


_MOST_NODES = 1_000_000
"""Maximum number of nodes or cores in a short form."""


def _count(word: str, form: _ShortForm, text: str) -> int | None:
    if not text.strip() and not form.needs_count:
        return None
    most = MOST_MACHINES if form.counts == "machines" else _MOST_NODES
    if (count := _whole(text)) is None or not 1 <= count <= most:
        raise InvalidInput(
            f"{word}:{shorten(text)}" if text.strip() else f"{word!r} without a number",
            rule=f"the number of {form.counts} must be a whole number from 1 to {most:,}",
            advice=f"write for example {word}:8",
        )
    return count


def _options(word: str, form: _ShortForm, texts: list[str]) -> dict[str, Any]:
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in form.options:
            problems.append(_unknown_option(word, form, name))
            continue
        parse, rule = form.options[name]
        parsed = parse(value) if equals else None
        if name in found:
            problems.append(Problem(what=f"option {name!r} of {word!r} is given twice"))
        elif parsed is None:
            what = f"option {name!r} of {word!r} is {shorten(repr(value))}"
            problems.append(Problem(what=what, rule=f"must be {rule}", advice=f"write {name}=VALUE"))
        else:
            found[name] = parsed
    if problems:
        raise InvalidInput(problems)
    return found


def _unknown_option(word: str, form: _ShortForm, name: str) -> Problem:
    what = f"unknown option {shorten(repr(name))} of {word!r}"
    known = f"known: {', '.join(form.options)}" if form.options else "it has no options"
    return Problem(what=what, rule=known, advice=suggest(name, form.options))


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _number(text: str) -> float | None:
    # parse_bytes also reads plain numbers; the last character excludes units.
    return parse_bytes(text) if text[-1:].isdigit() or text[-1:] == "." else None


def _count_option(text: str) -> int | None:
    found = _whole(text)
    return found if found is not None and 1 <= found <= MOST else None


_COUNT = (_count_option, "a whole number, at least 1")
_BANDWIDTH = (lambda text: parse_rate(text) or None, "a rate such as 100MB/s, above 0")
_LATENCY = (parse_seconds, "a time such as 1ms, at least 0")
_MACHINE_OPTIONS: dict[str, tuple[_Parser, str]] = {
    "cores": _COUNT,
    "memory": (parse_bytes, "a size such as 4GB, at least 0"),
    "speed": (lambda text: _number(text) or None, "a number above 0"),
    "price": (_number, "a number, at least 0"),
    "queue": (lambda text: text if text in QUEUES else None, f"one of {', '.join(QUEUES)}"),
}


def _machine(name: str, options: Mapping[str, Any], **more: Any) -> Machine:
    keys = {"price": "price_per_node_hour"}
    stated = {keys.get(key, key): options[key] for key in _MACHINE_OPTIONS if key in options}
    return Machine(name=name, **stated, **more)


def _link(options: Mapping[str, Any]) -> Link:
    return Link(
        bandwidth_Bps=options.get("bandwidth", DEFAULT_LINK.bandwidth_Bps),
        latency_s=options.get("latency", DEFAULT_LINK.latency_s),
    )


def _identical(count: int | None, options: dict[str, Any]) -> Platform:
    first = _machine("m1", options, nodes=options.get("nodes", 1))
    machines = first.under_names(f"m{index}" for index in range(1, (count or 1) + 1))
    return Platform(name=f"identical-{count}", machines=tuple(machines), default_link=_link(options))


def _cluster(count: int | None, options: dict[str, Any]) -> Platform:
    return Platform(name=f"cluster-{count}", machines=(_machine("cluster", options, nodes=count),))


def _random(count: int | None, options: dict[str, Any]) -> Platform:
    from weft.platform.generator import random_platform
    from weft.randomness import generator

    keys = {
        "bandwidth": "bandwidth_Bps",
        "latency": "latency_s",
        "between_bandwidth": "between_bandwidth_Bps",
        "between_latency": "between_latency_s",
        "price": "price_per_speed",
    }
    seed = options.pop("seed", 0)
    stated = {keys.get(key, key): value for key, value in options.items()}
    return random_platform(count or 1, rng=generator(seed, "platform"), **stated)


SHORT_FORMS: dict[str, _ShortForm] = {
    "identical": _ShortForm(
        summary="machines of one node and speed 1, 1 GB/s between any two, no latency",
        counts="machines",
        options={"nodes": _COUNT, "bandwidth": _BANDWIDTH, "latency": _LATENCY, **_MACHINE_OPTIONS},
        make=_identical,
    ),
    "cluster": _ShortForm(
        summary="one machine with this number of nodes",
        counts="nodes",
        options=_MACHINE_OPTIONS,
        make=_cluster,
    ),
    "local": _ShortForm(
        summary="this computer; a number limits its cores",
        counts="cores",
        options={},
        make=lambda count, _: Platform(name="local", machines=(local_machine(count),)),
        needs_count=False,
    ),
    "random": _ShortForm(
        summary="machines of random speeds between 1 and the heterogeneity",
        counts="machines",
        options={
            "heterogeneity": (_number, "a number, at least 1"),
            "distribution": (lambda text: text or None, "a word"),  # random_platform checks the word
            "classes": _COUNT,
            "nodes": _COUNT,
            "sites": _COUNT,
            "bandwidth": _BANDWIDTH,
            "latency": _LATENCY,
            "between_bandwidth": _BANDWIDTH,
            "between_latency": _LATENCY,
            "price": (_number, "a number, at least 0"),
            "seed": (_whole, "a whole number, at least 0"),
        },
        make=_random,
    ),
}
"""All short forms by name."""
