"""Charts, tables and page of a simulation equal its history."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

import pytest

import weft
from reports.browser import needs_browser, seen_in_browser
from weft.api.simulation import render_simulation, simulation_view
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine.history import StepFunction
from weft.papers.statistics import summarise
from weft.reports.charts import box_plots, steps_chart
from weft.reports.gantt_text import TextGantt
from weft.reports.simulation import attempts_csv, migration_table, run_table, simulation_chart, use_table


@pytest.fixture(scope="module")
def simulated():
    """Return a simulation of two workflows on two machines, one of which is lost temporarily."""
    flows = []
    for name in ("<first> & co", "second"):
        flow = weft.Builder(name)
        flow.task("work", sweep={"k": "1..3"}, work=10)
        flows.append(flow.build())
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=4, repair_s=30),))
    return weft.simulate(flows, on="identical:2", policy="fcfs", scenario=scenario)


def test_every_attempt_that_ran_is_a_bar(simulated):
    chart = simulation_chart(simulation_view(simulated))
    attempts = [each for each in simulated.first.history.attempts.values() if each.started_s is not None]
    assert len(chart.schedule) == len(attempts) == 7
    lost = chart.kinds.index("failed: lost")
    assert chart.schedule.tasks[lost] == "0:work[1] ✗"
    assert (chart.schedule.start_s[lost], chart.schedule.finish_s[lost]) == (0, 4)
    assert set(chart.kinds) == {"<first> & co", "second", "failed: lost"}


def test_the_chart_is_drawn_in_the_terminal(simulated):
    drawn = TextGantt().render(simulation_chart(simulation_view(simulated)), width=100, heading=False)
    assert "0:work[1]" in drawn
    assert "failed: lost" in drawn


def test_tables_of_a_simulation_equal_its_history(simulated):
    history = simulated.first.history
    assert [row[:4] for row in run_table(history.runs).rows] == [
        ("0", "<first> & co", "-", "completed"),
        ("1", "second", "-", "completed"),
    ]
    moves = migration_table(history.moves, ("m1", "m2"))
    assert len(moves.rows) == len(history.moves)
    assert use_table(simulated.first.uses).rows[0][-1] == "30 s"


class Reader(HTMLParser):
    """Collects the elements of a page and checks that each is closed."""

    VOID = frozenset({"meta", "input", "line", "path", "rect", "circle", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.kinds: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.kinds.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.kinds.append(tag)

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def test_the_page_is_complete_and_self_contained(simulated):
    page = render_simulation(simulated)
    reader = Reader()
    reader.feed(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert reader.open == []
    assert reader.headings == ["Over time", "Slowdown", "Runs", "Machines", "Migrations", "Failures"]
    assert reader.kinds.count("svg") == 3
    assert "http://" not in page
    assert "https://" not in page
    assert "<first>" not in page.replace("&lt;first&gt;", ""), "names are escaped"


def test_step_charts_are_drawn_to_scale():
    steps = StepFunction()
    for now_s, value in ((0.0, 2), (5.0, 4), (10.0, 0)):
        steps.at(now_s, value)
    drawn = steps_chart("Active", steps, 10.0)
    path = re.search(r'class="area" d="([^"]+)"', drawn).group(1)
    # 820 units wide from 60, 172 high from 186 upwards, the largest value 4.
    assert path == "M60 186H60.0V100.0H470.0V14.0H880.0V186.0H880.0V186Z"
    assert "at most 4, 3 on average" in drawn


def test_box_charts_are_drawn_to_scale():
    drawn = box_plots("Slowdown", [("a", summarise([1.0, 2.0, 3.0, 4.0, 5.0]))])
    box = re.search(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    # 710 units for 5: the quartiles 2 and 4 lie at 170 + 284 and 284 further on.
    assert [float(number) for number in box.groups()] == [454.0, 284.0]
    assert f'd="M{170 + 142 * 3.0:.1f}' in drawn, "the median"
    assert box_plots("Slowdown", []) == ""


def test_an_empty_chart_is_valid():
    assert "<svg" in steps_chart("Ready", StepFunction(), 0.0)


def test_attempts_are_written_as_csv_lines(simulated):
    rows = list(csv.DictReader(io.StringIO(attempts_csv(simulated.first.history, ("m1", "m2")))))
    assert len(rows) == len(simulated.first.history.attempts)
    assert sum(float(row["useful_share"]) for row in rows) == pytest.approx(6)
    assert {row["machine"] for row in rows} == {"m1", "m2"}


@needs_browser
def test_a_browser_draws_the_page_without_errors(simulated, tmp_path):
    look = """
      const area = document.querySelector("path.area").getBoundingClientRect();
      seen.area = [area.width > 100, area.height > 20];
      seen.drawn = drawn(by("chart"));
      seen.kinds = by("legend").children.length;
      seen.sections = document.querySelectorAll("section").length;
    """
    page = tmp_path / "page.html"
    page.write_text(render_simulation(simulated), encoding="utf-8")
    seen = seen_in_browser(page, look, tmp_path / "profile")
    assert (seen["area"], seen["drawn"], seen["kinds"]) == ([True, True], True, 3)
    assert seen["sections"] >= 5
