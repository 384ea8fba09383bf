"""U1: all components together; one seed, checked event by event. ``weft reproduce u1`` runs ten seeds."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from weft.engine.invariants import check_engine
from weft.formats.profiles import DEFAULT_PRESET, preset_settings
from weft.papers.reproduction import Results
from weft.papers.runs import run_simulation
from weft.papers.unified import VARIANTS, UnifiedStudy, make_simulation
from weft.workflow.settings import RunSettings

WHOLE, STAYING, G_HEFT = VARIANTS
SEED = 1
FAILED = "station3"


@pytest.fixture(scope="module")
def whole():
    """Return a run of the complete system; invariants are checked after some events, in ``weft reproduce
    u1`` after all.
    """
    events = count()

    def look(engine):
        if next(events) % 8 == 0:
            check_engine(engine)

    return run_simulation(make_simulation(WHOLE, SEED), check=look)


@pytest.fixture(scope="module")
def g_heft():
    return run_simulation(make_simulation(G_HEFT, SEED))


def test_all_workflows_complete_with_all_their_iterations(whole):
    runs = whole.history.runs
    assert [(run.workflow, run.arrival_s, run.outcome) for run in runs] == [
        ("wien2k-a.yaml", 0.0, "completed"),
        ("wien2k-b.yaml", 60.0, "completed"),
        ("sweep.yaml", 120.0, "completed"),
        ("moldable.yaml", 180.0, "completed"),
    ]
    assert [run.iterations for run in runs] == [{"scf-a": 3}, {"scf-b": 2}, {}, {}]
    completed = Counter(
        (attempt.run, attempt.iteration)
        for attempt in whole.history.attempts.values()
        if attempt.ending == "completed"
    )
    assert completed == {
        **{(0, number): 4 + 2 * 12 for number in (1, 2, 3)},
        **{(1, number): 4 + 2 * 8 for number in (1, 2)},
        (2, 1): 2 * 24 + 1,
        (3, 1): 4 + 1,
    }


def test_slow_tasks_migrate_with_their_restart_files(whole):
    moves = [move for move in whole.history.moves if move.reason == "performance" and not move.off]
    assert moves
    assert any(move.restart_from > 0 for move in moves)
    assert whole.history.runs[0].plans > 1


def test_the_failed_machine_is_not_used_again(whole):
    names = [machine.name for machine in whole.engine.state.machines]
    there = [each for each in whole.history.attempts.values() if names[each.machine] == FAILED]
    assert there
    assert all(attempt.assigned_s < 200.0 for attempt in there)


def test_all_sites_are_used(whole):
    names = [machine.name for machine in whole.engine.state.machines]
    used = {names[each.machine].rstrip("0123456789") for each in whole.history.attempts.values()}
    assert used == {"cluster", "station", "cloud"}


def test_short_workflows_have_a_larger_slowdown_under_g_heft(whole, g_heft):
    slowdowns = [[run.slowdown for run in ran.history.runs] for ran in (whole, g_heft)]
    assert sum(slowdowns[1]) > sum(slowdowns[0])
    assert slowdowns[1][2] + slowdowns[1][3] > slowdowns[0][2] + slowdowns[0][3]


def test_settings_of_the_variants_match_their_names():
    whole, staying, g_heft = VARIANTS.values()
    resolved = {name: preset_settings(DEFAULT_PRESET, each.settings) for name, each in VARIANTS.items()}
    by_default, stays, follows = resolved.values()
    assert (whole.policy, by_default.migrate, by_default.checkpoints) == (staying.policy, "pays", True)
    assert stays.migrate == "never"
    assert g_heft.policy != whole.policy
    assert follows == by_default != RunSettings()


@pytest.mark.parametrize(
    ("changed", "figure"),
    [
        ({f"{STAYING}.end_s": 1.29}, "end without migration / with it, median"),
        ({f"{G_HEFT}.slowdown": 1.0}, "mean slowdown by G-HEFT / by FOFT, median"),
        ({f"{G_HEFT}.unfinished": 1.0}, "workflows that did not complete"),
        ({f"{WHOLE}.broken": 1.0}, "events after which an invariant did not hold"),
    ],
)
def test_figures_outside_their_tolerance_are_named(changed, figure):
    fine = {
        f"{name}.{measure}": value
        for name in VARIANTS
        for measure, value in (
            ("unfinished", 0.0), ("broken", 0.0), ("migrations", 1.0), ("plans", 1.0),
            ("replicated_percent", 0.0), ("end_s", 1.3 if name == STAYING else 1.0),
            ("slowdown", 1.1 if name == G_HEFT else 1.0),
        )
    }  # fmt: skip
    cell = UnifiedStudy().cells(full=False)[0].name
    outside = [
        [
            row.figure
            for row in UnifiedStudy().rows(Results({cell: [found]}), full=False)
            if row.within is False
        ]
        for found in (fine, fine | changed)
    ]
    assert outside == [[], [figure]]
