"""Tuning: grids of options, the planners of their experiments, and trials to the end, a target or a limit."""

from __future__ import annotations

import pytest

from planning_examples import MAKESPAN, instance, platform
from weft.errors import InvalidInput
from weft.formats.yaml_document import parse_document
from weft.planners.genetic import GeneticPlanner
from weft.planners.planner import Budget, PlanRequest
from weft.planners.tuning import (
    TuningGrid,
    find_planners,
    find_tuned_planners,
    option_text,
    read_grid,
    run_trial,
)
from weft.randomness import generator
from weft.schedule.objective import make_objective

TASKS = {f"t{index}": {"work": 1 + index % 4} for index in range(12)}
PLANNER = GeneticPlanner(preset="s1-tuned", population=20, generations=40, steady_share=0.0)


def made():
    return instance(TASKS, platform({}, {"speed": 2.0}, {"speed": 3.0}))


def request(seed=1, **more):
    return PlanRequest(instance=made(), rng=generator(seed, "trial"), **{"objective": MAKESPAN, **more})


def grid(text):
    return read_grid(parse_document(text, "grid.yaml"))


class TestGrid:
    def test_grid_of_all_combinations_is_the_cartesian_product(self):
        found = TuningGrid(options={"population": (10, 20), "elitist": (True, False)})
        assert [option_text(one) for one in found.experiments()] == [
            "population=10,elitist=true",
            "population=10,elitist=false",
            "population=20,elitist=true",
            "population=20,elitist=false",
        ]
        assert found.count == 4

    def test_grid_with_vary_alone_contains_the_unchanged_planner_and_one_experiment_per_value(self):
        found = TuningGrid(options={"population": (10, 20), "scaling": (1.5,)}, vary="alone")
        assert list(found.experiments()) == [{}, {"population": 10}, {"population": 20}, {"scaling": 1.5}]
        assert found.count == 4

    def test_grid_files_may_contain_lists_ranges_and_single_values(self):
        found = grid(
            "weft: 1\nvary: alone\ngrid: {population: 50..200 step 50, crossover-rate: 0.4..1 step 0.2,\n"
            "  selection: [rank, roulette], elitist: [true, false], scaling: 2}\n"
        )
        assert found.vary == "alone"
        assert found.options == {
            "population": (50, 100, 150, 200),
            "crossover_rate": (0.4, 0.6, 0.8, 1.0),
            "selection": ("rank", "roulette"),
            "elitist": (True, False),
            "scaling": (2,),
        }

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("weft: 1\n", "a tuning grid without the key 'grid'"),
            ("weft: 1\ngrid: {a: []}\n", "option 'a' has no values"),
            ("weft: 1\ngrid: {a: [[1]]}\n", "grid.a"),
            ("weft: 1\ngrid: {a: 1..9 step 0}\n", "the step of a range is 0"),
            ("weft: 1\ngrids: {a: 1}\n", "did you mean 'grid'"),
            ("weft: 1\nvary: some\ngrid: {a: 1}\n", "must be one of all, alone"),
            ("", "the file is empty"),
        ],
    )
    def test_invalid_files_are_refused(self, text, problem):
        with pytest.raises(InvalidInput, match=problem):
            grid(text)


class TestExperiments:
    def test_options_of_the_grid_replace_options_in_the_planner_name(self):
        found = find_planners("genetic:population=30,scaling=2", TuningGrid(options={"population": (40,)}))
        assert found == {"population=40": GeneticPlanner(population=40, scaling=2.0)}

    def test_all_invalid_options_are_reported(self):
        tried = TuningGrid(options={"populaton": (1, 2), "scaling": (0.5, 2.0), "selection": ("best",)})
        with pytest.raises(InvalidInput) as refused:
            find_planners("genetic", tried)
        assert [problem.what for problem in refused.value.problems] == [
            "planner 'genetic' has no option 'populaton'",
            "scaling of the genetic algorithm is 0.5",
            "genetic:selection=best",
        ]

    def test_planners_that_do_not_search_an_encoding_are_refused(self):
        with pytest.raises(InvalidInput, match="'heft' is not an optimiser"):
            find_planners("heft", TuningGrid())

    def test_too_many_experiments_are_refused(self):
        many = tuple(range(1000))
        with pytest.raises(InvalidInput, match="1,000,000 experiments; at most 100,000"):
            find_planners("genetic", TuningGrid(options={"population": many, "generations": many}))


class TestTrial:
    def test_trial_without_a_target_runs_all_generations(self):
        found = run_trial(PLANNER, request())
        assert (found.generations, found.visited, found.population) == (40, 800, 20)
        assert found.value == found.schedule.makespan_s <= found.first_value
        assert found.evaluations_to_best == 20 * (found.generation_of_best + 1)

    def test_trial_that_stops_at_its_target_has_the_result_of_a_full_trial(self):
        whole = run_trial(PLANNER, request())
        found = run_trial(PLANNER, request(), target=whole.value)
        assert (found.value, found.generation_of_best) == (whole.value, whole.generation_of_best)
        assert found.generations == found.generation_of_best + 1 < 40

    def test_trial_that_does_not_reach_its_target_runs_all_generations(self):
        assert run_trial(PLANNER, request(), target=0.001).generations == 40

    def test_trial_reports_values_of_a_maximised_objective_with_their_sign(self):
        goal = make_objective("speedup")
        found = run_trial(PLANNER, request(objective=goal), target=1e9)
        assert found.value == pytest.approx(goal.value(found.schedule, made()))
        assert found.value >= found.first_value > 0

    def test_budget_of_steps_limits_the_visited_points(self):
        assert run_trial(PLANNER, request(budget=Budget(steps=100))).visited == 100

    def test_an_interrupted_trial_raises_keyboard_interrupt(self):
        class Interrupting:
            name = "interrupting"

            def supports(self, instance, objective):
                return None

            def prepare(self, request):
                prepared = PLANNER.prepare(request)
                encoding, calls = prepared.encoding, []

                class Encoding:
                    space, batch = encoding.space, encoding.batch
                    point, schedule = encoding.point, encoding.schedule

                    def values(self, points):
                        calls.append(len(points))
                        if len(calls) == 5:
                            raise KeyboardInterrupt
                        return encoding.values(points)

                return prepared._replace(encoding=Encoding())

        with pytest.raises(KeyboardInterrupt):
            run_trial(Interrupting(), request())


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"population": range(2, 1002), "generations": range(1, 1001)}, "at most 100,000"),
        ({"population": range(1, 1_000_001), "generations": range(1, 1_000_001)}, "at most 100,000"),
        ({"population": [10], "mutations": [1], "mutation_rate": [0.1]}, "only one may be given"),
    ],
)
def test_no_planner_is_found_for_a_grid_that_weft_tune_refuses(options, rule):
    grid = TuningGrid(options={name: tuple(values) for name, values in options.items()})
    with pytest.raises(InvalidInput, match=rule):
        find_tuned_planners(grid)
