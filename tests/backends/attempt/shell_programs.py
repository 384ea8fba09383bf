"""Random shell commands with fields, the output that they must have, and the shells that run them.

The expected output is composed while a command is drawn, from the rules of the shell that are used in it. It
shares no code with weft.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import strategies as st

from patience import PATIENCE_S
from weft.backends.attempt.substitution import TemplateValues, compile_shell
from weft.workflow.templates import split_template

__all__ = ["ATTACKS", "MARKER", "SHELLS", "Drawn", "commands", "hostile_values", "needs_shells", "run_in"]

_PROGRAMS = {
    "dash": ["dash"],
    "bash": ["bash"],
    "bash-posix": ["bash", "--posix"],
    "busybox": ["busybox", "sh"],
}
SHELLS = [pytest.param(words, id=name) for name, words in _PROGRAMS.items()]
_MISSING = [words[0] for words in _PROGRAMS.values() if shutil.which(words[0]) is None]

# With CI=true the tests run even without a shell, and fail.
needs_shells = pytest.mark.skipif(
    bool(_MISSING) and not os.environ.get("CI"), reason=f"not installed: {', '.join(_MISSING)}"
)

MARKER = "marker"
"""File that an attack would create in the working directory."""
_TOUCH = f": > {MARKER}"
ATTACKS = [
    f"$({_TOUCH})", f"`{_TOUCH}`", f"'; {_TOUCH}; '", f'"; {_TOUCH}; "', f"\n{_TOUCH}\n", f"\\\n{_TOUCH}\n",
    f"')\n{_TOUCH};'", f"a)\n{_TOUCH};;", f"\nE\n{_TOUCH}\n", f"\n\tE\n{_TOUCH}\n", f"x[$({_TOUCH})]", f"a[$({_TOUCH})]=1",
    f"}}; {_TOUCH}; {{", f"; {_TOUCH} #", f"&& {_TOUCH}", f"| {_TOUCH}", f"$(( $({_TOUCH}) ))", f"${{y:=$({_TOUCH})}}",
    f"\\'; {_TOUCH}", f'\\"; {_TOUCH}', f"'$({_TOUCH})'", f'"$({_TOUCH})"', f"\n;; esac; {_TOUCH}; case a in", f"() {{ :; }}; {_TOUCH}",
    f"-c\n{_TOUCH}", "-v", "-n", "-e", "--", "", " ", "*", "~", "$HOME", "$@", "$1", "!!", "\\", "\\\\", "'", '"', "#", "# it's",
    "\u0441\u0431\u0430", "\x81\x82\x88", "a\rb", "{x}", "${x}", "{{", "%s\\0", "\n", "\n\n", "\t", "E", "=", "if", "done", "}", ")",
]  # fmt: skip
hostile_values = st.one_of(
    st.sampled_from(ATTACKS),
    st.text(alphabet="ab $`\"'\\\n;|&<>(){}*?[]~#!%-=\t\u00e9\u4e2d\u0441", max_size=12),
    st.lists(st.sampled_from(ATTACKS), min_size=2, max_size=3).map("".join),
)
"""Values that contain no NUL."""


@dataclass
class Drawn:
    """A command, the values of its fields and its expected output."""

    text: str
    output: str
    values: dict[str, str | int | list[str]] = field(default_factory=dict)


@dataclass
class _Part:
    """A piece of a command and the words, or the text, that it expands to."""

    text: str
    value: str


_LITERALS = st.text(alphabet="abXY01_-./%+@,:", min_size=1, max_size=4)
# Templates have no fields within ``${...}``, so a letter stands between a dollar sign and a brace.
_QUOTED = st.text(alphabet='ab $`\\"#;&|<>(){}*?~!\n\t=', max_size=6).map(
    lambda text: f"{text}_".replace("${", "$_{")
)
_NO_FIELDS = str.maketrans({"{": "{{", "}": "}}"})


class _Commands:
    """Draws commands. Fields have the names x0, x1, ...; n0 is a number and xs a list."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.values: dict[str, str | int | list[str]] = {}
        self.in_function = False
        self.list_is_replaced = False
        self.marks = 0

    def choose(self, *choices):
        return self.draw(st.sampled_from(choices))()

    def program(self) -> Drawn:
        lines = [self.statement(3) for _ in range(self.draw(st.integers(1, 3)))]
        return Drawn(
            "\n".join(line.text for line in lines)
            + self.draw(st.sampled_from(["", "\n", '\n# it\'s "done"', "\n "])),
            "".join(line.value for line in lines),
            self.values,
        )

    # Fields.

    def name(self) -> str:
        if self.values and self.draw(st.booleans()):
            names = [name for name in self.values if name.startswith("x") and name != "xs"]
            if names:
                return self.draw(st.sampled_from(names))
        name = f"x{len(self.values)}"
        self.values[name] = self.draw(hostile_values)
        return name

    def field(self) -> _Part:
        name = self.name()
        return _Part(f"{{{name}}}", self.values[name])

    def number(self) -> _Part:
        name = f"n{self.draw(st.integers(0, 1))}"
        value = self.values.setdefault(name, self.draw(st.integers(-50, 50)))
        factor = self.draw(st.integers(-3, 3))
        text = self.draw(st.sampled_from(["$(({0} * {1}))", "$(( {1} *{0}))", "$(( ({0}) * \\\n{1} ))"]))
        return _Part(text.replace("{0}", f"{{{name}}}").replace("{1}", f"({factor})"), str(value * factor))

    # Parts of words.

    def word(self, depth: int) -> _Part:
        parts = [self.part(depth) for _ in range(self.draw(st.integers(1, 3)))]
        joint = self.draw(st.sampled_from(["", "", "", "\\\n"]))
        text = joint.join(part.text for part in parts)
        if text[:1] in ("#", "~"):
            text = "''" + text
        return _Part(text, "".join(part.value for part in parts))

    def part(self, depth: int) -> _Part:
        choices = [self.field, self.field, self.literal, self.single, self.double, self.escaped, self.hash]
        if depth > 0:
            choices += [lambda: self.substitution(depth), lambda: self.double(depth)]
        return self.choose(*choices)

    def literal(self) -> _Part:
        text = self.draw(_LITERALS)
        return _Part(text, text)

    def hash(self) -> _Part:
        return _Part("a#b", "a#b")

    def escaped(self) -> _Part:
        mark = self.draw(st.sampled_from("$`\"'\\#;&|<>()*?~ "))
        return _Part(f"\\{mark}_", f"{mark}_")

    def single(self) -> _Part:
        inner = [self.draw(_QUOTED)] + [
            self.field_or(self.draw(_QUOTED)) for _ in range(self.draw(st.integers(0, 3)))
        ]
        return _Part(
            "'" + "".join(_text(each) for each in inner) + "'", "".join(_value(each) for each in inner)
        )

    def field_or(self, text: str):
        return self.field() if self.draw(st.booleans()) else text

    def double(self, depth: int = 0) -> _Part:
        parts = [self.in_double(depth, quotes='"') for _ in range(self.draw(st.integers(0, 3)))]
        return _Part('"' + "".join(part.text for part in parts) + '"', "".join(part.value for part in parts))

    def in_double(self, depth: int, quotes: str = "") -> _Part:
        """Draw text in double quotes or in a here-document."""
        choices = [
            self.field,
            self.field,
            lambda: self.quoted_text(quotes),
            lambda: _Part("\\\n", ""),
            self.number,
        ]
        choices += [
            lambda: _Part("${Z}", "zed"),
            lambda: _Part("$Z-", "zed-"),
            lambda: _Part("${NONE:-}", ""),
        ]
        if depth > 0:
            choices.append(lambda: self.substitution(depth, quoted=True))
        return self.choose(*choices)

    def quoted_text(self, quotes: str) -> _Part:
        plain = self.draw(st.text(alphabet="ab #;'&|<>(){}*?~!\n\t=", max_size=5))
        mark = self.draw(st.sampled_from(["", "$", "`", "\\", *quotes]))
        return _Part(
            plain.translate(_NO_FIELDS) + (f"\\{mark}_" if mark else ""), plain + (f"{mark}_" if mark else "")
        )

    def substitution(self, depth: int, *, quoted: bool = False) -> _Part:
        """Draw a command substitution; the full stop keeps newlines at the end of the output."""
        inner = self.choose(lambda: self.print_dot(depth - 1), lambda: self.case_dot(depth - 1))
        text = f"$({inner.text})"
        return _Part(text if quoted else f'"{text}"', inner.value)

    def print_dot(self, depth: int) -> _Part:
        word = self.word(depth)
        comment = self.draw(st.sampled_from(["", " # it's ) \"\n", "\n", " \\\n# )'\n"]))
        return _Part(f"printf '%s.' {word.text}{comment}", word.value + ".")

    def case_dot(self, depth: int) -> _Part:
        word, printed = self.word(depth), self.print_dot(depth)
        opening = self.draw(st.sampled_from(["", "("]))
        text = f"case {word.text} in {opening}zz|'y) {{{{') :;; {opening}*) {printed.text}\n;; esac"
        return _Part(text, "" if word.value in ("zz", "y) {") else printed.value)

    # Commands.

    def statement(self, depth: int) -> _Part:
        choices = [self.printed, self.printed, self.assigned, self.document, self.other_shell]
        if depth > 0:
            choices += [lambda: self.nested(depth - 1)] * 3
        return self.choose(*choices)

    def words(self) -> list[_Part]:
        return [self.word(2) for _ in range(self.draw(st.integers(1, 3)))]

    def printed(self) -> _Part:
        words = self.words()
        texts, values = [word.text for word in words], [word.value for word in words]
        if not self.in_function and not self.list_is_replaced and self.draw(st.booleans()):
            entries = self.values.setdefault("xs", self.draw(st.lists(hostile_values, max_size=3)))
            texts.append("{xs}")
            values += entries
        blank = self.draw(st.sampled_from([" ", "\t", " \\\n", "  "]))
        comment = self.draw(st.sampled_from(["", "", " # it's $(", ' \\\n# `"', ";# '"]))
        return _Part(
            f"printf '%s\\0' {blank.join(texts)}{comment}", "".join(f"{value}\0" for value in values)
        )

    def assigned(self) -> _Part:
        word = self.word(2)
        return _Part(f"v={word.text}\nprintf '%s\\0' \"$v\"", f"{word.value}\0")

    def document(self) -> _Part:
        self.marks += 1
        mark = f"E{self.marks}"
        parts = [self.in_double(1) for _ in range(self.draw(st.integers(0, 4)))]
        # A line of its own ends the text, so that no backslash and no field stands before the mark.
        body, value = "".join(part.text for part in parts), "".join(part.value for part in parts)
        quotes = self.draw(st.sampled_from(['"', "'", "\"it's", ""]))
        text = f"cat <<{mark}; printf '\\0'\n{body}{quotes}.\n{mark}"
        return _Part(text, f"{value}{quotes}.\n\0")

    def other_shell(self) -> _Part:
        word = self.word(1)
        return _Part(f'sh -c \'printf "%s\\0" "$1"\' sh {word.text}', f"{word.value}\0")

    def nested(self, depth: int) -> _Part:
        return self.choose(
            lambda: self.branch(depth), lambda: self.loop(depth), lambda: self.case(depth),
            lambda: self.function(depth), lambda: self.group(depth), lambda: self.replaced(),
        )  # fmt: skip

    def branch(self, depth: int) -> _Part:
        first, second = self.statement(depth), self.statement(depth)
        word = self.word(1)
        text = f"if [ {word.text} = a ]\nthen {first.text}\nelse {second.text}\nfi"
        return _Part(text, first.value if word.value == "a" else second.value)

    def loop(self, depth: int) -> _Part:
        words, body = self.words(), self.statement(depth)
        listed = " ".join(word.text for word in words)
        text = f"for i in {listed}; do printf '%s\\0' \"$i\"\n{body.text}\ndone"
        return _Part(text, "".join(f"{word.value}\0{body.value}" for word in words))

    def case(self, depth: int) -> _Part:
        word, pattern = self.word(1), self.word(0)
        first, second = self.statement(depth), self.statement(depth)
        opening = self.draw(st.sampled_from(["", "("]))
        # An empty pattern in quotes keeps wildcards of literals out: none of them is drawn.
        text = f"case {word.text} in\n{opening}''{pattern.text}) {first.text}\n;;\n*) {second.text}\nesac"
        return _Part(text, first.value if word.value == pattern.value else second.value)

    def function(self, depth: int) -> _Part:
        self.in_function, before = True, self.in_function
        body = self.statement(depth)
        self.in_function = before
        word = self.word(1)
        self.marks += 1
        text = f"f{self.marks} () {{{{ printf '%s\\0' \"$1\"\n{body.text}\n}}}}\nf{self.marks} {word.text}"
        return _Part(text, f"{word.value}\0{body.value}")

    def group(self, depth: int) -> _Part:
        body = self.statement(depth)
        form = self.draw(st.sampled_from(["( %s\n)", "{{ %s\n}}", "{{ %s\n}} | cat", "( %s\n) | cat"]))
        return _Part(form % body.text, body.value)

    def replaced(self) -> _Part:
        words = self.words()
        self.list_is_replaced = True
        text = "set -- " + " ".join(word.text for word in words) + "\nprintf '%s\\0' \"$@\""
        return _Part(text, "".join(f"{word.value}\0" for word in words))


def _text(part: str | _Part) -> str:
    return part.text if isinstance(part, _Part) else part.translate(_NO_FIELDS)


def _value(part: str | _Part) -> str:
    return part.value if isinstance(part, _Part) else part


@st.composite
def commands(draw) -> Drawn:
    """Draw a command with its values and expected output."""
    return _Commands(draw).program()


def run_in(
    shell: list[str], text: str, values: dict[str, object], folder: Path
) -> subprocess.CompletedProcess[bytes]:
    """Run a command with the values of its fields in a shell."""
    filled = compile_shell((split_template(text),)).fill(TemplateValues(values, {}, {}))
    return subprocess.run(
        [*shell, "-eu", "-c", filled.texts[0], "sh", *filled.parameters],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "Z": "zed", **filled.variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
