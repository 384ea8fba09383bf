"""Places of fields in shell commands, and the places that are refused."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.workflow.code_arguments import Scope
from weft.workflow.shell_text import (
    FieldPlace,
    ShellField,
    check_program_words,
    expansion,
    split_shell_text,
)

WORD, ONE, QUOTED, SINGLE, NUMBER = FieldPlace


def places_of(text):
    return [piece.place for piece in split_shell_text(text).pieces if isinstance(piece, ShellField)]


def refused(text, scope=Scope.ALL):
    return [found for found in split_shell_text(text).refusals if found.scope is scope]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a {x} '{x}' \"{x}\" {x}", [WORD, SINGLE, QUOTED, WORD]),
        ("awk '{print $1}' {x}", [WORD]),
        ("echo it\\'s {x}", [WORD]),
        ('echo "a \\" {x}"', [QUOTED]),
        ("echo 'a\\' {x}", [WORD]),
        ("echo '\\{x}'", [SINGLE]),
        ("echo \\\\{x}", [WORD]),
        ("echo \\\n{x} \\\\\n{x}", [WORD, WORD]),
        ("echo $(f {x} '{x}') {x}", [WORD, SINGLE, WORD]),
        ('echo "$(f {x} "{x}") {x}"', [WORD, QUOTED, QUOTED]),
        ("echo `f` {x}", [WORD]),
        ("echo $(( {x} + (1 << {x}) )) {x}", [NUMBER, NUMBER, WORD]),
        ('echo "$(( {x} ))"', [NUMBER]),
        ("cat {x} <<EOF\nit's {x} \"{x}\n\\$ $({x} '{x}')\nEOF\n{x}", [WORD, QUOTED, QUOTED, WORD, SINGLE, WORD]),
        ("cat <<A <<-B {x}\n{x}\nA\n\t{x}\n\tB\n{x}", [WORD, QUOTED, QUOTED, WORD]),
        ("cat <<'A' > {x}\nit's\nA\n'{x}'", [ONE, SINGLE]),
        ("a#it {x}", [WORD]),
        ("a # it's\nb {x}", [WORD]),
        ("a \\\n# it's\nb {x}", [WORD]),
        ("a\\\n#it {x}", [WORD]),
        ("(cd d; a {x})# it's\n b '{x}'", [WORD, SINGLE]),
        ("case {x} in a) b {x};; ({x}|'{x}') c;; esac", [ONE, WORD, ONE, SINGLE]),
        ('"$(case {x} in a) b {x} # )\n;; esac)" {x}', [ONE, WORD, WORD]),
        ("case a in esac; b {x}", [WORD]),
        ("if a {x}; then b {x}; elif c; then d; else {x}; fi", [WORD, WORD, WORD]),
        ("while read -r l; do echo {x}; done < {x}", [WORD, ONE]),
        ("for f in {x} b; do c {x}; done; for f do {x}; done", [WORD, WORD, WORD]),
        ("{{ a {x}; }} > {x}", [WORD, ONE]),
        ("f() {{ a {x}; }}; f {x}", [WORD, WORD]),
        ("a={x} b='{x}' c {x} d={x} >> {x} 2>&1 2> {x}", [ONE, SINGLE, WORD, WORD, ONE, ONE]),
        ("export A={x}; local B=\"{x}\"", [WORD, QUOTED]),
        ("echo ${HOME} ${a:-'}'} ${#a} $# $$ $1 {x}", [WORD]),
        ("echo \"${a:-b}\" '{{{x}}}' {x}", [SINGLE, WORD]),
        ("! a {x} && b {x} || c | d {x} & e", [WORD, WORD, WORD]),
        ("sh -c 'echo \"$1\"' sh {x}; sh {x}", [WORD, WORD]),
        ("set -- {x}; shift; echo \"{x}\"", [WORD, QUOTED]),
        ("[ {x} = {x} ] && test -n {x} && [ {x} -eq 1 ]", [WORD, WORD, WORD, WORD]),
        ("printf '%s {x}' {x} {x}", [SINGLE, WORD, WORD]),
        ("echo case {x} in a 2>/dev/null", [WORD]),
    ],
)  # fmt: skip
def test_kind_of_place_of_a_field_depends_on_the_surrounding_text(text, expected):
    assert refused(text) == []
    assert places_of(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a # {x}", "in a comment"),
        ("a \\\n# {x}\nb", "in a comment"),
        ("(a)# {x}", "in a comment"),
        ("case a in a)# {x}\n;; esac", "in a comment"),
        ("a;# {x}", "in a comment"),
        ("echo \\{x}", "after a backslash"),
        ('echo "\\{x}"', "after a backslash"),
        ("cat <<E\n\\{x}\nE", "after a backslash"),
        ("echo $\\\n{x}", "after $"),
        ("echo `f {x}`", "in backquotes"),
        ('echo "`f {x}`"', "in backquotes"),
        ("cat <<'E'\n{x}\nE", "here-document with a quoted end mark"),
        ("cat <<\\E\n{x}\nE", "here-document with a quoted end mark"),
        ("sh <<E\n{x}\nE", "here-document that a shell reads"),
        ("ssh host <<E\n{x}\nE", "here-document that a shell reads"),
        ("bash <<< {x}", "after <<<, which a shell reads"),
        ("<<< 'echo {x}' bash -s", "after <<<, which a shell reads"),
        ("sh -c 'echo {x}'", "in text for another shell, `sh -c`"),
        ('env A=1 /bin/bash -xec "echo {x}"', "in text for another shell, `bash -c`"),
        ("mpirun -n 4 sh -c {x}", "in text for another shell"),
        ("sh -c a sh | dash -c -e {x}", "in text for another shell"),
        ("bash -o pipefail -c 'echo {x}'", "in text for another shell, `bash -c`"),
        ("bash -eo pipefail +o posix -c {x}", "in text for another shell, `bash -c`"),
        ("bash -co pipefail {x}", "in text for another shell, `bash -c`"),
        ("bash --norc --rcfile file -c {x}", "in text for another shell, `bash -c`"),
        ("sh -c - {x}", "in text for another shell, `sh -c`"),
        ("sh $options -c {x}", "in text for another shell, `sh -c`"),
        ("fish --command {x}", "in text for another shell"),
        ("fish --command={x}", "in an option of `fish`"),
        ("fish -c{x}", "in an option of `fish`"),
        ("ssh host ls {x}", "in text that `ssh` passes to a shell"),
        ("timeout 5 ssh -p 22 {x}", "in text that `ssh` passes to a shell"),
        ("eval echo {x}", "as an argument of `eval`"),
        ("command e'va'l {x}", "as an argument of `eval`"),
        ("trap 'rm {x}' EXIT", "as an argument of `trap`"),
        ("let a={x}", "as an argument of `let`"),
        ("unset {x}", "as a name in an argument of `unset`"),
        ("read {x}", "as a name in an argument of `read`"),
        ("export {x}=1", "as a name in an argument of `export`"),
        ("[[ {x} -eq 1 ]]", "in [[ ]]"),
        ("[[ -n a && {x} -eq 1 ]]", "in [[ ]]"),
        ("[ -v {x} ]", "after an option that may evaluate it"),
        ("[ {x} {y} ]", "after an option that may evaluate it"),
        ("printf {x} {y}", "after an option that may evaluate it"),
        ("echo >&{x}", "after >&, where its value may be expanded again"),
        ("cat 3<& 'a{x}'", "after <&"),
        ("{x}=1", "on the left side of an assignment"),
        ("a{x}+=1", "on the left side of an assignment"),
        ("a[{x}]=1", "on the left side of an assignment"),
        ("for {x} in a; do b; done", "as the name of a variable"),
        ("{x}() {{ a; }}", "as the name of a function"),
        ("echo ${a:-{x}}", "inside ${...}"),
        ("echo ${a:-'}'{x}}", "inside ${...}"),
        ("echo $'{x}'", "in $'...'"),
        ('echo $"{x}"', 'in $"..."'),
        ("echo '{x}", "the quote ' is not closed"),
        ('echo "{x}', 'the quote " is not closed'),
        ("(a {x}", "')' is missing"),
        ("a {x})", "stands without"),
        ("if a; then {x}", "'fi' is missing"),
        ("echo $(a {x}", "')' is missing"),
        ("$((f); g) {x}", "is not closed by '))'"),
        ("((i = {x}))", "some shells read '((' as arithmetic"),
        ("echo $[{x}]", "some shells read '$['"),
        ("a=({x})", "not all shells have arrays"),
        ("cat <(a {x})", "stands after a word"),
        ("cat <<E\n{x}", "has no line 'E'"),
        ("cat <<E {x}", "a here-document has no text"),
        ("cat <<E \"a\n\" {x}\nE\n", "begins inside quotes"),
        ("cat <<{x}\n{x}\n", "must be a fixed word"),
        ("echo $'a\\'b' {x}", "shells differ"),
        ("echo \"${a:-'}\" {x}", "shells differ"),
        ("echo \x00 {x}", "a control character"),
        ("( " * 100 + "a {x}", "nested"),
    ],
)  # fmt: skip
def test_field_at_an_unsafe_place_is_refused(text, why):
    found = refused(text)
    assert found
    assert any(why in f"{each.what} {each.advice}" for each in found), found
    assert all(each.advice or not each.name for each in found)


@pytest.mark.parametrize(
    "text",
    [
        "f() {{ a {x}; }}",
        "function f {{ a {x}; }}",
        "set -- a; b {x}",
        "shift; b {x}",
        "while a; do b {x}; shift; done",
    ],
)
def test_list_field_is_refused_where_the_positional_parameters_have_changed(text):
    assert refused(text) == []
    assert [each.name for each in refused(text, Scope.LISTS)] == ["x"]


@pytest.mark.parametrize(
    "text", ['set -- {x}; a "$@"', "set -e; a {x}", "for f in {x}; do shift; done", "a '{x}'; set -- b"]
)
def test_list_field_is_accepted_before_the_positional_parameters_change(text):
    assert split_shell_text(text).refusals == ()


@pytest.mark.parametrize(
    "text",
    [
        "echo {x} | sh",
        "printf '%s' {x} | tr a b | bash -e",
        "echo {x} |\n sh -s a",
        "echo {x} | timeout 5 dash",
        ". {x}",
        "source ./{x} a",
        "{x} a",
        "./{x}",
        "A=1 {x}",
        "exec {x}",
        "command {x} a",
        "timeout -k 1 5 {x}",
        "nice -n 5 {x}",
        "env -i A=1 {x}",
        "env -S {x}",
        "env -S'{x}'",
        "xargs -n 1 {x}",
        "nohup {x} &",
        "setsid -w {x}",
        "flock f -c {x}",
        "x={x}; eval $x",
        'x={x}\neval "run ${x}"',
        'v={x}; bash -c "$v"',
        'v={x}; sh -c "echo $v"',
        'v={x}; timeout 5 bash -eo pipefail -c "echo ${v}" sh a',
        'v={x}; w="a $v"; sh -c "$w"',
        'set -- {x}; eval "$1"',
        'set -- a {x}; sh -c "$*"',
        'v={x}; set -- "$v"; eval "$@"',
        "set -- {x}; echo $(($1 + 1))",
        "x={x}; echo $((x))",
        "x=a{x}; echo $((1 + $x))",
    ],
)
def test_field_with_data_is_refused_where_a_shell_would_execute_it(text):
    assert refused(text) == []
    assert [each.name for each in refused(text, Scope.DATA)] == ["x"]


BASH_ARITHMETIC = [
    'v={x}; declare -i y="$v"',
    'v={x}; declare -i "$v"',
    'v={x}; declare "$v"',
    "v={x}; typeset -i y=$v",
    'f() {{ local -i y="$1"; }}; set -- {x}; f "$1"',
    'v={x}; f() {{ local -xi y="$v"; }}; f',
    'v={x}; f() {{ local "$v"; }}; f',
    'v={x}; readonly -i y="$v"',
    'v={x}; declare -r -i y="$v"',
    "v={x}; declare -i y=v",
    "declare -i y; y={x}",
    'declare -i y; v={x}; y="$v"',
    'v={x}; declare -n y="$v"',
    'v={x}; declare -a y="$v"',
    'v={x}; let "$v"',
    "v={x}; let y=v+1",
    "v={x}; [[ 0 -eq v ]]",
    "v={x}; y=abc; echo ${y:$v}",
    "v={x}; y=abc; echo ${y:v:1}",
    "v={x}; echo ${y[v]}",
    "v={x}; y[$v]=1",
    "v={x}; y[v]=1",
]
"""Commands in which bash evaluates a value as arithmetic, or a subscript in it."""


@pytest.mark.parametrize("text", BASH_ARITHMETIC)
def test_field_with_data_is_refused_in_a_variable_that_bash_evaluates_as_arithmetic(text):
    assert refused(text) == []
    assert {each.name for each in refused(text, Scope.DATA)} == {"x"}


@pytest.mark.parametrize("text", BASH_ARITHMETIC)
def test_bash_executes_code_from_a_value_that_it_evaluates_as_arithmetic(text, tmp_path):
    """The list above names real attacks: each command runs a program that a value names."""
    if "readonly -i" in text:
        pytest.skip("bash has no such option; other shells have")
    marker = tmp_path / "executed"
    for value in (f"a[$(touch {marker})0]", f"a[$(touch {marker})0]=1", f"($(touch {marker}))"):
        command = text.replace("{x}", '"$value"').replace("{{", "{").replace("}}", "}")
        command = command.replace('declare -n y="$v"', 'declare -n y="$v"; : $y')
        subprocess.run(
            ["bash", "-c", command], env={"value": value, "PATH": os.environ["PATH"]}, capture_output=True
        )
    assert marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        'v={x}; declare y="$v"; echo "$y"',
        'v={x}; f() {{ local y="$v"; }}; f',
        'v={x}; export y="$v"',
        'v={x}; readonly y="$v"; cat "$y"',
        'declare -i n=3; v={x}; cat "$v"',
        "v={x}; echo ${v:-none} ${v:0:3} ${v%.txt}",
        'v={x}; y[0]="$v"',
        'v={x}; i=1; y[$i]="$v"',
    ],
)
def test_field_with_data_is_accepted_in_a_variable_without_a_type(text):
    assert refused(text) == refused(text, Scope.DATA) == []


@pytest.mark.parametrize("text", ["f() {{ local -i y={x}; }}; f", "readonly -i y={x}", "declare -i y={x}"])
def test_field_is_refused_as_the_value_of_a_declared_integer(text):
    assert [each.name for each in refused(text)] == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        "echo {x} | sort",
        "echo {x} | bash script.sh",
        "echo {x} | sh -c 'read -r a'",
        "echo {x}; sh script",
        "echo {x}\nmake | sh",
        "make | sh -s -- {x}",
        "timeout {x} make",
        "nice -n {x} make",
        "xargs -P {x} make",
        "env A={x} make",
        ". ./settings {x}",
        "x={x}; eval 'echo \"$x\"'",
        'v={x}; sh -c \'echo "$1"\' sh "$v"',
        'v={x}; y=1; sh -c "echo $y" sh "$v"',
        'v={x}; sh script.sh "$v"',
        'set -- {x}; cat "$1"',
        'x={x}; y=1; echo $((y + 1)) "$x"',
        "echo $(({x} + 1))",
        "flock f make {x}",
    ],
)
def test_field_with_data_is_accepted_as_an_argument(text):
    assert refused(text) == []
    assert refused(text, Scope.DATA) == []


@pytest.mark.parametrize(
    "text",
    [
        "x={x}; sh -c $x",
        "x={x}; sh $x",
        "x={x}; trap $x 0",
        'x={x}; trap "$x" 0',
        "x={x}; bash -c -e $x",
        'x={x}; printf %s "$x" | sh',
        "x={x}; echo $x | sh",
        'x={x}; flock F -c "$x"',
        'x={x}; alias "a=$x"',
        "sh -c 'eval \"$1\"' sh {x}",
        "sh -c 'sh -c \"$1\"' sh {x}",
        "x={x} sh -c 'eval \"$x\"'",
        "x={x}; export x; sh -c 'eval \"$x\"'",
        "export x={x}; sh -c 'eval \"$x\"'",
        "env x={x} sh -c 'eval \"$x\"'",
        "bash -c 'echo $(( $1 ))' bash {x}",
        "bash -c '[[ $1 -eq 0 ]]' bash {x}",
        "bash -c 'let \"$1\"' bash {x}",
        "bash -c 'test -v \"$1\"' bash {x}",
        "bash -c 'printf -v \"$1\" a' bash {x}",
        "bash -c 'echo ${1@P}' bash {x}",
        "sh -c 'printf %s \"$1\" | sh' sh {x}",
        "sh -c 'eval \"$0\"' {x}",
        "sh -c 'eval \"$@\"' sh a {x}",
        'x={x}; sh -c \'eval "$1"\' sh "$x"',
        "BASH_ENV={x} bash -c true",
        'x={x}; BASH_ENV="$x" bash -c true',
        "export ENV={x}; sh -ic true",
        "PS1={x} sh -i",
        "PS4={x}; set -x",
        "PROMPT_COMMAND={x} bash -i",
        "GIT_SSH_COMMAND={x} git fetch",
        "env GIT_SSH_COMMAND={x} git fetch",
        "script -qc {x} /dev/null",
        "echo {x} |& sh",
        'x={x}; bash <<< "$x"',
        'x={x}; [ -v "$x" ]',
        'x={x}; read "$x"',
        'x={x}; printf -v "$x" a',
        "x={x}; echo ${!x}",
        "x={x}; echo ${x@P}",
        'x={x}; echo "${x@P}"',
        "x={x}; [[ $x -eq 0 ]]",
        "x={x}; sh <<E\n$x\nE\n",
        "x={x}\nbash -s a <<E\necho $x\nE\n",
        "x={x}; python <<E\nprint($x)\nE\n",
    ],
)
def test_field_with_data_is_refused_in_a_variable_or_argument_that_is_read_as_code(text):
    assert refused(text) == []
    assert [each.name for each in refused(text, Scope.DATA)] == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        "x={x}; sh -c 'echo \"$1\"' sh $x",
        'x={x}; sh script.sh "$x"',
        "x={x}; sh -- $x",
        'x={x}; printf %s "$x" | cat',
        'x={x}; printf %s "$x" | sh script',
        'x={x}; echo "$x"; echo a | sh',
        "x={x}; trap 'rm -f \"$x\"' 0",
        "sh -c 'y=$1; echo \"$y\"' sh {x}",
        'sh -c \'eval "$1"; echo "$2"\' sh true {x}',
        "n={x}; sh -c 'n=1; echo $((n + 1))'",
        "R_max={x}; echo $R_max",
        "echo ENV={x}",
        'x={x}; [ "$x" = a ]',
        "x={x}; [[ $x == a ]]",
        'x={x}; read -r y; echo "$x"',
        'x={x}; $SHELL script "$x"',
        "bash -c 'a=(1 2); echo \"$1\"' bash {x}",
        "flock F cmd {x}",
        'x={x}; cat <<< "$x"',
        'x={x}; echo "${x}" "${{#x}}"',
        "x={x} sh -c 'echo \"$x\"'",
        "x={x}; cat <<E\n$x\nE\n",
        "x={x}; sh s.sh <<E\n$x\nE\n",
    ],
)
def test_field_with_data_is_accepted_in_a_variable_or_argument_that_is_not_read_as_code(text):
    assert split_shell_text(text).refusals == ()


@pytest.mark.parametrize("shell", ["$SHELL", '"$SHELL"', "${SHELL}", "timeout 5 $SHELL"])
def test_field_is_refused_in_text_for_the_shell_of_the_user(shell):
    (found,) = refused(f"{shell} -c 'echo {{x}}'")
    assert "in text for another shell" in found.what


@pytest.mark.parametrize(
    "text",
    [
        "awk '{{print {x}}}' f",
        "sed s/a/{x}/ f",
        "python3.11 -c 'print({x})'",
        'perl -ne "{x}"',
        "python -u -c 'print({x})'",
        "python -W ignore -Xutf8 -c 'print({x})'",
        "python -Ic {x}",
        "python3 -c'print({x})'",
        "python $OPTIONS -c {x}",
        "python $code -c {x}",
        "python {x} -c y",
        "timeout 5 python -u {x}",
        "xargs -n 1 python -Bc {x}",
        "perl -w -ne {x}",
        "perl -lne 'print {x}' f",
        "perl -0777 -I lib -i.bak -pe {x} f",
        "perl -e a -e {x}",
        "perl -M'Foo {x}' -e a",
        "perl -de {x}",
        "perl -MFoo {x}",
        "ruby -n -e {x}",
        "ruby -rjson -ne'{x}'",
        "ruby -I lib --encoding utf-8 -e {x}",
        "node --eval={x}",
        "node --eval {x}",
        "node -pe {x}",
        "node -r module --print {x}",
        "nodejs --trace-warnings -e {x}",
        "php -d a=b -r {x}",
        "php --run={x}",
        "Rscript --vanilla -e a -e {x}",
        "R -q -e {x}",
        "julia -t 4 --project=. -E {x}",
        "lua5.4 -l lib -e {x}",
        "octave --quiet --eval {x}",
        "sed -n -e {x} f",
        "sed -ne '{x}' f",
        "sed --expr={x} f",
        "sed -i.bak {x} f",
        "sed -- {x} f",
        "gawk -F: -e {x} f",
        "gawk --source={x} f",
        "awk -F : {x} f",
        "busybox awk {x} f",
        "python -{x} a.py",
        "node --{x}",
        "python <<E\nprint('{x}')\nE\n",
        "python -W ignore - a <<E\n{x}\nE\n",
        "env A=1 perl -w <<E\n{x}\nE\n",
        "node <<< {x}",
        "sh {x} a",
        "bash {x}",
        "bash -o pipefail {x}",
        "sh -{x} file",
    ],
)
def test_field_with_data_is_refused_in_program_text(text):
    assert refused(text) == []
    assert [each.name for each in refused(text, Scope.DATA)] == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        "awk -v a={x} '{{print a}}' {x}",
        "sed -f script {x}",
        "python a.py {x}",
        "sh -- {x}",
        "sh - {x}",
        "python script.py -c {x}",
        "python -u script.py -c {x}",
        "python -W {x} script.py",
        "python -m pytest -c {x}",
        "python -c 'print()' -c {x}",
        "python -- {x} -c {x}",
        "python ./{x}",
        'python "$script" -c {x}',
        "perl script.pl -e {x}",
        "perl -I {x} script.pl",
        "perl -ne print {x}",
        "perl -i{x} script.pl",
        "ruby -C {x} script.rb -e {x}",
        "node script.js --eval={x}",
        "node --max-old-space-size={x} script.js",
        "Rscript script.R -e {x}",
        "sed -n p {x}",
        "sed -i p -- {x}",
        "awk -f script -v a={x} {x}",
        "cp R {x}",
        "python script.py <<E\n{x}\nE\n",
        "python -c 'input()' <<E\n{x}\nE\n",
        "python -m json.tool <<< {x}",
        "awk '{{print}}' <<E\n{x}\nE\n",
        "bash -eo pipefail script -c {x}",
        "bash --rcfile file script {x}",
    ],
)
def test_results_are_accepted_as_arguments_after_the_script_of_an_interpreter(text):
    assert split_shell_text(text).refusals == ()


@pytest.mark.parametrize(
    ("words", "scopes"),
    [
        (("sh", "-c", "echo {x}"), [Scope.ALL]),
        (("/bin/bash", "-lc", "echo", "{x}"), []),
        (("sh", "-c", 'echo "$1"', "sh", "{x}"), []),
        (("sh", "-c", 'eval "$1"', "sh", "{x}"), [Scope.DATA]),
        (("timeout", "5", "bash", "-c", "echo $(( $2 ))", "bash", "a", "{x}"), [Scope.DATA]),
        (("sh", "-c", 'eval "$1"; echo "$2"', "sh", "a", "{x}"), []),
        (("ssh", "host", "{x}"), [Scope.ALL]),
        (("python3", "-c", "print({x})"), [Scope.DATA]),
        (("python3", "-c", "print()", "{x}"), []),
        (("python3", "-u", "-W", "ignore", "-c", "print({x})"), [Scope.DATA]),
        (("python3", "script.py", "-c", "{x}"), []),
        (("bash", "-o", "pipefail", "-c", "echo {x}"), [Scope.ALL]),
        (("echo", "eval", "{x}"), []),
    ],
)
def test_fields_in_text_for_interpreters_are_refused_in_commands_without_a_shell(words, scopes):
    assert [each.scope for each in check_program_words(words)] == scopes


def test_refusal_has_the_position_of_the_field_in_the_text():
    (found,) = refused("awk '{{a}}' b\n  # {{c}} {x}")
    assert (found.name, found.line, found.column) == ("x", 2, 11)
    (whole,) = refused("{{a}}\n 'b {x}")
    assert (whole.name, whole.line, whole.column) == ("", 2, 2)


def test_text_without_fields_is_not_checked():
    split = split_shell_text("echo '{{a}} `")
    assert split.pieces == ("echo '{a} `",)
    assert split.refusals == ()


def test_raw_field_is_not_checked():
    assert split_shell_text("sh -c '{x:raw}' # {x:raw}").refusals == ()


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (WORD, '"${V}"'),
        (ONE, '"${V}"'),
        (QUOTED, "${V}"),
        (SINGLE, "'\"${V}\"'"),
        (NUMBER, "(${V:-0})"),
    ],
)
def test_shell_expansion_of_a_field_variable_depends_on_the_kind_of_place(place, text):
    assert expansion(place, "V") == text


@pytest.mark.parametrize("opening", ["( ", "$(", "$((", "${a:-", '"$(', "f() ", "if ", "case a in (a) "])
def test_text_that_is_nested_too_deeply_is_refused(opening):
    assert refused(opening * 2000 + "{x}")


@given(st.text(alphabet="ab{}x'\"`$()<>E\n\\ #;&|=[]!", max_size=40))
def test_any_shell_text_is_split_into_pieces_or_refused(text):
    split = split_shell_text(f"{text} {{x}}")
    assert split.refusals or len([each for each in split.pieces if isinstance(each, ShellField)]) >= 1


def test_shell_variable_computed_by_arithmetic_from_fields_counts_as_a_number():
    computed = split_shell_text("s=$(({a} + 1)); echo $((s + 1))")
    assert computed.refusals == ()
    copied = split_shell_text("s=$(({a} + 1)){b}; echo $((s + 1))")
    assert [refusal.name for refusal in copied.refusals] == ["b"]
