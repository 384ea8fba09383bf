"""The chart in the terminal: bars, shares, axis and legend."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reports.plan_views import HEFT, packed, view_of
from weft.reports import REPORTS
from weft.reports.gantt_text import TextGantt
from weft.reports.text import shown_width

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def rendered(*args: object, **kwargs: object) -> list[str]:
    text = TextGantt().render(*args, **kwargs)  # type: ignore[arg-type]
    return text.split("\n")


class TestBars:
    def test_bars_begin_and_end_with_their_tasks(self) -> None:
        # 80 columns for 80 seconds: a column is a second.
        lines = rendered(view_of(HEFT, [1, 1, 1]), width=91, heading=False)
        assert lines[0] == "m1 │" + " " * 27 + "▌n2" + "▓" * 10 + " " * 17 + "▌n8▒▒" + " " * 18 + "│  22 %"
        assert lines[1].startswith("m2 │" + " " * 18 + "▌n4▓▓▓▓▓▌n6" + "▓" * 13 + " " * 14 + "▌n9")
        assert lines[2].startswith("m3 │▌n1░░░░░░▌n3" + "▓" * 16 + "▌n5▓▓▓▓▓▓▓▌n7▒▒▒▒▒▒▒▒   ")
        assert lines[2].endswith("│  61 %")

    def test_task_names_are_printed_only_where_they_fit(self) -> None:
        lines = [("a-long-name", 0, 1, 0, 5, "k"), ("b", 0, 1, 5, 80, "k")]
        row = rendered(view_of(lines, [1]), width=91, heading=False)[0]
        assert row.startswith("m1 │▌▓▓▓▓▌b▓▓▓")

    def test_wide_and_control_characters_do_not_shift_the_chart(self) -> None:
        lines = [("机器", 0, 1, 0, 40, "k"), ("\x1b[2J", 0, 1, 40, 80, "k")]
        out = rendered(view_of(lines, [1], machines=("机\n器",)), width=100)
        assert "\x1b" not in "\n".join(out)
        walls = [line for line in out if "│" in line]
        assert len(walls) == 1
        assert shown_width(walls[0]) == 100

    def test_overlapping_tasks_on_one_node_are_drawn_as_one_usage_row(self) -> None:
        lines = [("a", 0, 1, 0, 80, "k"), ("b", 0, 1, 40, 80, "k")]
        row = rendered(view_of(lines, [1]), width=91, heading=False)[0]
        assert row == "m1 │" + "█" * 80 + "│ 150 %"


class TestSkyline:
    def test_usage_row_shows_the_share_of_used_nodes_over_time(self) -> None:
        lines = [("a", 0, 4, 0, 40, "k"), ("b", 0, 2, 40, 60, "k")]
        machines = [("x", i, 1, 0, 80, "k") for i in range(1, 13)]
        row = rendered(view_of([*lines, *machines], [4] + [1] * 12), width=92, heading=False)[0]
        assert row == "m1  │" + "█" * 40 + "▄" * 20 + " " * 20 + "│  62 %"

    def test_rows_are_taller_when_there_are_few_machines(self) -> None:
        lines = [("a", 0, 4, 0, 40, "k"), ("b", 0, 2, 40, 80, "k")]
        out = rendered(view_of(lines, [4]), width=96, heading=False)
        half, full = "█" * 40 + " " * 40, "█" * 80
        assert out[:6] == [
            f"m1      │{half}│",
            f"4 nodes │{half}│",
            f"        │{half}│",
            f"        │{full}│",
            f"        │{full}│",
            f"        │{full}│  75 %",
        ]
        assert out[-1] == "▁█ few to all nodes taken"

    def test_row_of_a_thousand_tasks_fits_the_width(self) -> None:
        lines = [(f"t{i}", 0, 1, i, i + 1, "k") for i in range(1000)]
        row = rendered(view_of(lines, [1]), width=91, heading=False)[0]
        assert row == "m1 │" + "█" * 80 + "│ 100 %"


class TestManyMachines:
    def test_adjacent_machines_share_a_usage_row_if_there_are_many_machines(self) -> None:
        # 60 machines in 20 bands of 3, two rows each; one machine of the last bands ends at half time.
        lines = [(f"t{i}", i, 1, 0, 50 if i % 3 == 2 and i > 50 else 100, "k") for i in range(60)]
        out = rendered(view_of(lines, [1] * 70), width=121, heading=False)
        walls = [line for line in out if "│" in line]
        assert len(walls) == 40
        assert walls[:2] == ["m1 - m3    │" + "█" * 102 + "│", "3 machines │" + "█" * 102 + "│ 100 %"]
        assert walls[-2:] == [
            "m58 - m60  │" + "█" * 51 + "▃" * 51 + "│",
            "3 machines │" + "█" * 102 + "│  83 %",
        ]
        assert "… 10 machines not used" in "\n".join(out)

    def test_machines_of_a_site_share_a_usage_row(self) -> None:
        lines = [(f"t{i}", i, 1, 0, 100 if i % 2 else 50, "k") for i in range(50)]
        sites = tuple(("north", "south")[i % 2] for i in range(50))
        out = rendered(view_of(lines, [1] * 50, machine_sites=sites), width=116, heading=False)
        half, full = "█" * 48 + " " * 48, "█" * 96
        assert out[:6] == [
            f"north       │{half}│",
            f"25 machines │{half}│",
            f"            │{half}│  50 %",
            f"south       │{full}│",
            f"25 machines │{full}│",
            f"            │{full}│ 100 %",
        ]

    def test_each_machine_has_its_own_row_while_all_rows_fit(self) -> None:
        lines = [(f"t{i}", i, 1, 0, 10 + i, "k") for i in range(40)]
        names = [line.split()[0] for line in rendered(view_of(lines, [1] * 40), heading=False) if "│" in line]
        assert names == [f"m{i}" for i in range(1, 41)]

    def test_bands_of_machines_can_be_drawn_in_ascii(self) -> None:
        lines = [(f"t{i}", i, 1, 0, 10 + i, "k") for i in range(50)]
        text = TextGantt().render(view_of(lines, [1] * 50), ascii=True)
        assert text.isascii()
        assert "m1 - m3" in text


class TestAxisAndLegend:
    def test_chart_has_heading_axis_bound_legend_and_critical_path(self) -> None:
        view = view_of(
            HEFT,
            [1, 1, 1],
            facts=(("makespan", "80 s"), ("gap", "48 %")),
            critical=(0, 2, 9),
            lower_bound_s=54.0,
            title="sample",
        )
        out = rendered(view, width=91)
        assert out[:3] == ["sample", "makespan 80 s · gap 48 %", ""]
        assert out[6] == "   └" + "┬".join(["", "─" * 19, "─" * 19, "─" * 19, "─" * 18, ""]) + "┘"
        assert out[7].split() == ["0", "s", "20", "s", "40", "s", "60", "s", "80", "s"]
        assert out[8].index("▲") == 4 + 54
        assert "lower bound 54 s" in out[8]
        assert out[-2] == "▓▓ b   ▒▒ c   ░░ a   ██ d"
        assert out[-1] == "critical path (3 tasks): n1 → n3 → n10"

    def test_kinds_beyond_the_eighth_share_the_last_symbol(self) -> None:
        lines = [(f"t{i}", 0, 1, i, i + 1, f"kind{i:02}") for i in range(12)]
        legend = rendered(view_of(lines, [1]), heading=False)[-2:]
        assert "kind06" in " ".join(legend)
        assert "kind07" not in " ".join(legend)
        assert "5 other kinds" in " ".join(legend)

    @pytest.mark.parametrize("width", [10, 40, 61, 100, 140])
    def test_chart_fits_the_width(self, width: int) -> None:
        lines = packed(np.random.default_rng(1), 60, [1, 1, 8])
        view = view_of(
            lines, [1, 1, 8], critical=tuple(range(60)), facts=(("fact", "x" * 30),) * 5, lower_bound_s=3.0
        )
        assert max(shown_width(line) for line in rendered(view, width=width)) <= max(width, 40)

    def test_chart_can_be_drawn_in_ascii(self) -> None:
        view = view_of(
            packed(np.random.default_rng(1), 60, [1, 1, 8]), [1, 1, 8], critical=(0, 1), title="größe"
        )
        text = TextGantt().render(view, ascii=True)
        assert text.isascii()
        assert "[t" in text

    def test_colours_change_only_the_filling_of_bars(self) -> None:
        view = view_of(HEFT, [1, 1, 1])
        colored, plain = TextGantt().render(view, color=True), TextGantt().render(view)
        assert "\x1b[48;5;" in colored
        assert ANSI.sub("", colored) == plain.translate(str.maketrans("▓▒░█", "    "))
        assert "\x1b" not in plain

    def test_each_kind_has_its_own_colour(self) -> None:
        text = TextGantt().render(view_of(HEFT, [1, 1, 1]), color=True)
        colors = {
            kind: re.search(rf"\x1b\[48;5;(\d+);30m▌{task} ", text)
            for kind, task in zip("abcd", ("n1", "n2", "n8", "n10"), strict=True)
        }
        assert all(colors.values())
        assert len({found[1] for found in colors.values() if found}) == 4

    @pytest.mark.parametrize("lines", [[], [("a", 0, 0, 0, 0, "k")]])
    def test_empty_plan_gives_a_message_instead_of_a_chart(
        self, lines: list[tuple[str, int, int, float, float, str]]
    ) -> None:
        assert rendered(view_of(lines, [1]))[-1] == "no task of this plan takes time"

    def test_plan_in_which_only_transfers_take_time_is_drawn(self) -> None:
        assert "1 machine not used" in TextGantt().render(view_of([("move", 0, 0, 0, 5, "k")], [1]))

    def test_text_chart_is_registered(self) -> None:
        assert REPORTS.load("gantt-text") is TextGantt
