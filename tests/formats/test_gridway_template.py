"""GridWay's requirements and ranks: the translation gives the results of GridWay for all machine
attributes.
"""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.expressions import evaluate_boolean, evaluate_columns, evaluate_number, parse
from weft.formats.format import ProblemCollector, SourceFile
from weft.formats.gridway_template import TemplateEntry, translate_expression
from weft.platform.arrays import idle_columns, machine_columns
from weft.platform.machine import Machine


def translated(text, *, rank=False):
    complaints = ProblemCollector(SourceFile(name="a.jt", data=b""))
    entry = TemplateEntry(key="RANK" if rank else "REQUIREMENTS", value=text, line=3, column=11)
    found = translate_expression(entry, complaints, is_rank=rank)
    complaints.finish()
    return found


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ('ARCH = "i686"', 'arch == "i686"'),
        (
            'ARCH = "i?86" & HOSTNAME != "a*"',
            'matches(arch, "i?86") and name == name and not matches(name, "a*")',
        ),
        ('OS_NAME = "Linux";', 'lower(os) == "linux"'),
        ("SIZE_MEM_MB >= 512", "default(memory, 0) / MB >= 512"),
        ("CPU_SMP = 2 & NODECOUNT > 1", "cores == 2 and nodes > 1"),
        ("!(CPU_MHZ < 1.5)", "not default(CPU_MHZ, 0) < 1.5"),
        ("LICENCES > -2", "default(LICENCES, 0) > -2"),
        ('LRMS_TYPE = "pbs"', 'default(LRMS_TYPE, null) == "pbs"'),
        (r'CPU_MODEL = "a\*b*"', 'matches(default(CPU_MODEL, null), "a[*]b*")'),
    ],
)
def test_gridway_requirements_are_translated(text, ours):
    assert translated(text) == parse(ours)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (
            "(CPU_MHZ * 2) + FREE_MEM_MB",
            "default(CPU_MHZ, 0) * 2 + default(FREE_MEM_MB, default(free_memory, 0) / MB)",
        ),
        ("-CPU_SMP - 1 - 2;", "-cores - 1 - 2"),
        ("CPU_SMP - (1 - 2)", "cores - (1 - 2)"),
        ("6 / 2 * .5", "6 / 2 * 0.5"),
        ("1 / NODECOUNT", "1 / nodes if nodes != 0 else 0"),
    ],
)
def test_gridway_ranks_are_translated(text, ours):
    assert translated(text, rank=True) == parse(ours)


@pytest.mark.parametrize("text", ["", ";", "  "])
def test_empty_requirement_or_rank_is_translated_to_none(text):
    assert translated(text) is None
    assert translated(text, rank=True) is None


def test_and_and_or_associate_to_the_left_as_in_gridway():
    left, plain = translated("A = 1 | B = 1 & C = 1"), translated("A = 1 | (B = 1 & C = 1)")
    facts = {"A": 1, "B": 0, "C": 0}
    assert not evaluate_boolean(left, facts)
    assert evaluate_boolean(plain, facts)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("CPU_MHZ >", 20, "the end is not expected in REQUIREMENTS; a value must be a number or a text"),
        ("CPU_MHZ 5", 19, "followed by one of ="),
        ("= 5", 11, "NAME = value"),
        ("(CPU_MHZ > 5", 23, "a parenthesis is not closed"),
        ("CPU_MHZ > 5) ", 22, "')' is not expected"),
        ("CPU_MHZ > 5 CPU_SMP = 1", 23, "an operator is missing"),
        ("ARCH = 'i686'", 18, "double quotes"),
        ('ARCH > "i686"', 16, "compared by = and !="),
        ("HOSTNAME > 3", 11, "HOSTNAME is a text, but a number is required"),
        ('CPU_MHZ = "fast"', 11, "CPU_MHZ is a number, but is compared with a text"),
        ("A = 1 && B = 1", 18, "'&' is not expected"),
        ("__import__ = 1", 11, "'_'"),
        ("lambda = 1", 11, "cannot be expressed in weft"),
        ("!" * 50 + "A = 1", 32, "at most 20 levels"),
        ("(" * 5000 + "A = 1", 312, "an expression must have at most 300 tokens"),
        ("A = " + "9" * 400, 15, "too long"),
    ],
)
def test_error_about_an_invalid_requirement_names_the_column(text, column, words):
    with pytest.raises(InvalidInput) as caught:
        translated(text)
    (problem,) = caught.value.problems
    assert (problem.location.line, problem.location.column) == (3, column)
    assert words in str(problem)


@pytest.mark.parametrize("text", ["CPU_MHZ +", "* 2", "2 CPU_SMP", 'ARCH + "x"', "ARCH", "(1", "1 > 2"])
def test_invalid_ranks_are_rejected(text):
    with pytest.raises(InvalidInput, match="RANK"):
        translated(text, rank=True)


# Independent evaluation: a requirement is a nested tuple to which GridWay's rules are applied directly.
NUMBERS = ("CPU_MHZ", "LICENCES", "NODECOUNT")
TEXTS = ("ARCH", "LRMS_TYPE", "HOSTNAME")
PATTERNS = ("i686", "i*", "?86", "m1", "*", "")
numeric = st.tuples(
    st.sampled_from(NUMBERS), st.sampled_from(("=", "!=", ">", "<", ">=", "<=")), st.integers(0, 3)
)
textual = st.tuples(st.sampled_from(TEXTS), st.sampled_from(("=", "!=")), st.sampled_from(PATTERNS))
requirements = st.recursive(
    st.one_of(numeric, textual),
    lambda parts: st.one_of(
        st.tuples(st.just("!"), parts), st.tuples(st.just("join"), parts, st.sampled_from("&|"), parts)
    ),
    max_leaves=6,
)
machines = st.lists(
    st.builds(
        lambda nodes, arch, free: {"nodes": nodes, "arch": arch, "attributes": free},
        st.integers(1, 3),
        st.sampled_from([None, "i686", "x86"]),
        st.dictionaries(st.sampled_from(("CPU_MHZ", "LICENCES")), st.integers(0, 3), max_size=2).flatmap(
            lambda known: st.sampled_from([known, {**known, "LRMS_TYPE": "i686"}])
        ),
    ),
    min_size=1,
    max_size=4,
)


def written(tree):
    match tree:
        case ("!", part):
            return f"!({written(part)})"
        case ("join", left, sign, right):
            return f"({written(left)}) {sign} ({written(right)})"
        case (name, sign, int() as number):
            return f"{name} {sign} {number}"
        case (name, sign, text):
            return f'{name} {sign} "{text}"'


def holds(tree, machine):
    facts = {"ARCH": machine.arch, "HOSTNAME": machine.name, "NODECOUNT": machine.nodes, **machine.attributes}
    match tree:
        case ("!", part):
            return not holds(part, machine)
        case ("join", left, "&", right):
            return holds(left, machine) and holds(right, machine)
        case ("join", left, "|", right):
            return holds(left, machine) or holds(right, machine)
        case (name, sign, int() as number):
            value = facts.get(name, 0)
            verdicts = {"=": value == number, "!=": value != number, ">": value > number, "<": value < number}
            return (verdicts | {">=": value >= number, "<=": value <= number})[sign]
        case (name, sign, text):
            value = facts.get(name)
            return value is not None and fnmatch.fnmatchcase(value, text) == (sign == "=")


@given(requirements, machines)
def test_translated_requirement_agrees_with_gridway(tree, drawn):
    platform = [Machine(name=f"m{index}", **facts) for index, facts in enumerate(drawn)]
    found = evaluate_columns(translated(written(tree)), machine_columns(platform), len(platform))
    assert found.tolist() == [holds(tree, machine) for machine in platform]


def test_unstated_attributes_count_as_0_in_a_rank():
    rank = translated("CPU_MHZ / LICENCES + QUEUE_FREENODECOUNT", rank=True)
    platform = [Machine(name="a", nodes=4), Machine(name="b", attributes={"CPU_MHZ": 6, "LICENCES": 2})]
    assert evaluate_columns(rank, machine_columns(platform) | idle_columns(platform), 2).tolist() == [4, 4]
    assert evaluate_number(rank, {"free_nodes": 1, "CPU_MHZ": 8, "LICENCES": 4}) == 3
