from __future__ import annotations

import pytest

from weft.errors import InvalidInput
from weft.platform.local import usable_cores
from weft.platform.machine import Machine
from weft.platform.platform import DEFAULT_LINK, Link, Platform
from weft.platform.short_forms import SHORT_FORMS, parse_short_form


def test_short_form_identical_gives_machines_of_equal_speed() -> None:
    assert parse_short_form("identical:3") == Platform(
        name="identical-3",
        machines=tuple(Machine(name=f"m{n}") for n in (1, 2, 3)),
        default_link=DEFAULT_LINK,
    )


def test_short_form_identical_accepts_options() -> None:
    platform = parse_short_form(
        "identical:2, bandwidth=100MB/s, latency=1ms, speed=2, nodes=4, memory=1GB, price=0.5"
    )
    assert platform is not None
    assert platform.default_link == Link(bandwidth_Bps=1e8, latency_s=1e-3)
    assert platform.machines[1] == Machine(name="m2", speed=2.0, nodes=4, memory=1e9, price_per_node_hour=0.5)


def test_short_form_cluster_gives_one_machine() -> None:
    platform = parse_short_form("cluster:64,cores=36,memory=192GB,speed=1.5,price=0.8,queue=easy")
    assert platform is not None
    assert platform.machines == (
        Machine(
            name="cluster",
            nodes=64,
            cores=36,
            memory=192e9,
            speed=1.5,
            price_per_node_hour=0.8,
            queue="easy",
        ),
    )


def test_short_form_local_gives_this_computer_with_at_most_the_given_cores() -> None:
    whole, one, many = (parse_short_form(text) for text in ("local", "local:1", "local:1000000"))
    assert whole is not None
    assert one is not None
    assert many is not None
    assert whole.machines[0].nodes == many.machines[0].nodes == usable_cores()
    assert one.machines[0].nodes == 1
    assert whole.machines[0].node_is_core


def test_short_form_random_gives_equal_platforms_for_equal_seeds() -> None:
    text = "random:16,heterogeneity=8,sites=2,seed="
    first, again, other = (parse_short_form(text + seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other
    assert first is not None
    speeds = [machine.speed for machine in first.machines]
    assert (min(speeds), max(speeds)) == (1.0, 8.0)
    assert {machine.site for machine in first.machines} == {"s1", "s2"}


def test_short_form_random_accepts_every_option() -> None:
    platform = parse_short_form(
        "random:4,heterogeneity=2,distribution=classes,classes=2,nodes=3,sites=2,seed=5,bandwidth=1MB/s,"
        "latency=1ms,between_bandwidth=2MB/s,between_latency=2ms,price=0.5"
    )
    assert platform is not None
    assert {machine.speed for machine in platform.machines} == {1.0, 2.0}
    assert {machine.nodes for machine in platform.machines} == {3}
    assert platform.sites["s1"] == Link(bandwidth_Bps=1e6, latency_s=1e-3)
    assert platform.default_link == Link(bandwidth_Bps=2e6, latency_s=2e-3)
    assert all(machine.price_per_node_hour == machine.speed / 2 for machine in platform.machines)


@pytest.mark.parametrize(
    "text", ["", "grid.yaml", "identical.yaml", "locale", "./local", "dir/cluster:4", "Identical:8"]
)
def test_other_texts_are_not_read_as_short_forms(text: str) -> None:
    assert parse_short_form(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("identical", "without a number"),
        ("identical:", "without a number"),
        ("identical:0", "from 1 to 100,000"),
        ("identical:-1", "from 1 to 100,000"),
        ("identical:1000000000", "from 1 to 100,000"),
        ("identical:1e9", "from 1 to 100,000"),
        ("identical:2.5", "whole number"),
        ("identical:²", "whole number"),
        ("identical:" + "9" * 10000, "from 1 to 100,000"),
        ("cluster", "number of nodes"),
        ("cluster:x", "number of nodes"),
        ("local:0", "number of cores"),
        ("local:2,speed=3", "it has no options"),
        ("identical:2,bandwith=3", "did you mean 'bandwidth'?"),
        ("cluster:2,colour=red", "known: cores, memory, speed, price, queue"),
        ("identical:2,", "unknown option ''"),
        ("identical:2,speed", "must be a number above 0"),
        ("identical:2,speed=", "must be a number above 0"),
        ("identical:2,speed=0", "must be a number above 0"),
        ("identical:2,speed=-1", "must be a number above 0"),
        ("identical:2,speed=2GB", "must be a number above 0"),
        ("identical:2,speed=inf", "must be a number above 0"),
        ("identical:2,speed=1,speed=2", "given twice"),
        ("identical:2,nodes=0", "at least 1"),
        ("identical:2,nodes=99999999999", "at least 1"),
        ("identical:2,bandwidth=0", "above 0"),
        ("identical:2,bandwidth=fast", "a rate such as 100MB/s"),
        ("identical:2,latency=-1ms", "a time such as 1ms"),
        ("cluster:2,memory=lots", "a size such as 4GB"),
        ("cluster:2,queue=lifo", "one of fifo"),
        ("random:4,heterogeneity=0.5", "at least 1"),
        ("random:4,sites=5", "5 sites"),
        ("random:4,distribution=uniforme", "did you mean 'uniform'?"),
        ("random:4,classes=1,distribution=classes", "at least 2"),
        ("random:4,seed=-1", "at least 0"),
    ],
)
def test_error_about_an_invalid_value_of_a_short_form_states_the_violated_rule(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_short_form(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_all_invalid_options_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_short_form("cluster:2,cores=0,speed=x,colour=red")
    assert len(caught.value.problems) == 3


def test_every_short_form_has_a_summary() -> None:
    assert set(SHORT_FORMS) == {"identical", "cluster", "local", "random"}
    assert all(form.summary for form in SHORT_FORMS.values())
