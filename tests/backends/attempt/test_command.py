"""Rendering of commands, environments, streams and command files."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from backends.attempt.job_examples import LOCAL, compile_flow, rendered, run_job, with_task
from patience import PATIENCE_S
from weft.backends.attempt.command import (
    EXIT_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    find_result_tasks,
    monitored_files,
)
from weft.backends.attempt.substitution import JobProblem
from weft.platform.machine import Machine
from weft.workflow.builder import Builder


def words_of(job, name, *, stdin=False):
    """Run a job whose command calls a program ``name``; return the words that the program receives."""
    folder = Path(job.workdir).parents[1] / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    text = "import json, sys\nprint(json.dumps(sys.argv[1:]))"
    (folder / name).write_text(f"#!{sys.executable}\n{text}\n")
    (folder / name).chmod(0o755)
    job.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    done = run_job(job)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done


def test_command_given_as_text_runs_in_a_shell_and_command_given_as_list_runs_directly(tmp_path):
    assert rendered(with_task(command="echo a | cat"), tmp_path).argv == (
        "/bin/sh",
        "-eu",
        "-c",
        "echo a | cat",
    )
    assert rendered(with_task(command=["echo", "a | b"]), tmp_path).argv == ("echo", "a | b")


def test_fields_are_substituted_and_quoted(tmp_path):
    flow = Builder("w", params={"label": "it's $HOME"})
    flow.task(
        "job", sweep={"k": "1..2"}, work=1, inputs=["a b", "c"], outputs=["out.{k}"], cores=2, memory="2GB",
        command="run {k} {label} {inputs} {outputs} {nodes}/{cores}/{memory_mb} {iteration} {task} {machine.arch} {{x}}",
    )  # fmt: skip
    job = rendered(
        compile_flow(flow),
        tmp_path,
        "job[2]",
        nodes=2,
        count=1,
        iteration=3,
        limits=(None, 2e9),
        inputs=["a b", "c"],
    )
    shown, done = words_of(job, "run")
    assert shown == ["2", "it's $HOME", "a b", "c", "out.2", "1/2/2000", "3", "job[2]", "x86_64", "{x}"], done
    assert job.outputs == ("out.2",)


def test_text_of_a_shell_command_does_not_depend_on_values(tmp_path):
    known = with_task(
        sweep={"k": ["a b", "$(c)"]},
        command="run {k} '{k}' {inputs} > {k}.out",
        inputs=["x"],
        outputs=["{k}"],
    )
    first = rendered(known, tmp_path, "job[a b]", inputs=["x", "y z"])
    second = rendered(known, tmp_path, "job[$(c)]", inputs=["u v"])
    text = 'run "${WEFT_V_k}" \'\'"${WEFT_V_k}"\'\' "$@" > "${WEFT_V_k}".out'
    assert first.argv == ("/bin/sh", "-eu", "-c", text, "/bin/sh", "x", "y z")
    assert second.argv == ("/bin/sh", "-eu", "-c", text, "/bin/sh", "u v")
    assert (first.env["WEFT_V_k"], second.env["WEFT_V_k"]) == ("a b", "$(c)")


def test_fields_whose_variables_would_be_the_same_are_numbered(tmp_path):
    flow = Builder("w", params={"a_result_b": "own", "xä": "1", "xö": "2"})
    flow.task("a", work=1, command="c")
    flow.task("job", work=1, after="a", command="run {a_result_b} {a.result.b} {xä} {xö}")
    job = rendered(compile_flow(flow), tmp_path, results={"a": {"exit_code": 0, "result": {"b": "other"}}})
    assert words_of(job, "run")[0] == ["own", "other", "1", "2"]
    assert job.env["WEFT_V_a_result_b_2"] == "other"


def test_several_list_fields_share_the_positional_parameters(tmp_path):
    known = with_task(
        command='run {outputs} -- {inputs} -{outputs}- "{inputs}"', inputs=["a b", "c"], outputs=["o'"]
    )
    job = rendered(known, tmp_path, inputs=["a b", "c"])
    assert words_of(job, "run")[0] == ["o'", "--", "a b", "c", "-o'-", "a b c"]
    none = rendered(with_task(command="run x{inputs} {outputs}"), tmp_path)
    assert words_of(none, "run")[0] == ["x"]


def test_list_with_several_entries_is_refused_where_one_word_is_needed(tmp_path):
    known = with_task(command="cat a > {outputs}", outputs=["x y"])
    assert "> " in rendered(known, tmp_path).argv[3]
    two = with_task(command="cat a > {outputs}", outputs=["x", "y"])
    with pytest.raises(JobProblem, match="2 entries where the shell needs one word"):
        rendered(two, tmp_path)


@pytest.mark.parametrize("value", ["a", "1; 2", "x[$(echo)]", "1.5", "0x1", "1 2"])
def test_arithmetic_takes_whole_numbers_only(tmp_path, value):
    known = with_task(params={"n": value}, command="echo $(( {n} ))")
    with pytest.raises(JobProblem, match="takes whole numbers"):
        rendered(known, tmp_path)


def test_arithmetic_accepts_negative_numbers_and_uses_0_for_empty_results(tmp_path):
    flow = Builder("w", params={"n": -3})
    flow.task("conv", work=1, command="c")
    flow.task("job", work=1, after="conv", command="echo $(( 1 -{n} )) $(( {conv.result.i} + 1 ))")
    assert run_job(rendered(compile_flow(flow), tmp_path)).stdout == b"4 1\n"


def test_word_that_is_only_a_list_field_becomes_several_words(tmp_path):
    known = with_task(command=["cat", "{inputs}", "-n{nodes}", "x {inputs}"], inputs=["a", "b c"])
    job = rendered(known, tmp_path, inputs=["a", "b c"])
    assert job.argv == ("cat", "a", "b c", "-n1", "x a b c")


def test_arguments_are_separate_words(tmp_path):
    known = with_task(command="echo x |", arguments=["grep", "a {task}", "$x"], params={})
    job = rendered(known, tmp_path)
    assert words_of(job, "grep", stdin=True)[0] == ["a job", "$x"]
    joined = with_task(command="run", arguments=["x {inputs}", "{inputs}", "${H} {{a}}", ""], inputs=["a"])
    job = rendered(joined, tmp_path, inputs=["a", "b c"])
    assert words_of(job, "run")[0] == ["x a b c", "a", "b c", "${H} {a}", ""]
    assert rendered(with_task(command=["p"], arguments=["{nodes}", "b c"]), tmp_path).argv == (
        "p",
        "1",
        "b c",
    )


def test_environment_states_the_allocation(tmp_path):
    machine = Machine(name="cluster", nodes=8, cores=36)
    known = with_task(command="env", nodes=[1, 2, 4], machine=machine, env={"OWN": "a b", "WEFT_TASK": "no"},
                      checkpoint={"files": ["r1", "r2"], "every": 5}, progress="how-far")  # fmt: skip
    job = rendered(known, tmp_path, machine=machine, nodes=4, count=4, iteration=2, limits=(90.0, 3.5e9), attempt_number=3,
                   restart=True)  # fmt: skip
    work = str(tmp_path / "box/1/7")
    assert {name: value for name, value in job.env.items() if not name.startswith("GW_")} == {
        "OWN": "a b",
        "WEFT_TASK": "job",
        "WEFT_ATTEMPT": "3",
        "WEFT_NODES": "4",
        "WEFT_CORES": "36",
        "WEFT_MEM_MB": "3500",
        "WEFT_ITERATION": "2",
        "WEFT_ITERATIONS": "2",
        "WEFT_RESTART": "1",
        "WEFT_CHECKPOINT_DIR": work,
        "WEFT_CHECKPOINT_FILES": "r1\nr2",
        "WEFT_PROGRESS_FILE": f"{work}/how-far",
        "WEFT_RESULT_FILE": f"{work}/{RESULT_FILE}",
        "WEFT_TIME_LEFT_S": "90",
    }
    assert monitored_files(known, 0) == ("how-far", ("r1", "r2"))
    seen = dict(line.split("=", 1) for line in run_job(job).stdout.decode().splitlines() if "=" in line)
    assert seen["OWN"] == "a b"
    assert seen["WEFT_NODES"] == "4"


def test_fields_in_values_of_variables_are_substituted(tmp_path):
    flow = Builder("w", params={"p": "a b"})
    flow.task("say", work=1, command="c")
    env = {
        "P": "<{p}>",
        "R": "{say.result.x}",
        "N": "{nodes} {machine.name}",
        "I": "{inputs}",
        "B": "{{p}} ${p}",
    }
    flow.task("job", work=1, after="say", command="x", env=env, inputs=["i", "j"])
    known = compile_flow(flow)
    assert find_result_tasks(known, known.names.index("job")) == {"say": known.names.index("say")}
    results = {"say": {"exit_code": 0, "result": {"x": "$(touch 'x')\n"}}}
    job = rendered(known, tmp_path, inputs=["i", "j"], results=results, nodes=2, count=2)
    found = {name: job.env[name] for name in env}
    assert found == {"P": "<a b>", "R": "$(touch 'x')\n", "N": "2 here", "I": "i j", "B": "{p} ${p}"}
    # The fingerprint does not depend on the machine.
    assert job.declared == {**found, "N": "@nodes@ @machine.name@"}


def test_environment_contains_the_variables_of_gridway(tmp_path):
    attributes = {"CPU_MHZ": 2400, "CPU_MODEL": "x"}
    machine = Machine(name="cluster", arch="x86_64", os="linux", memory=4e9, attributes=attributes)
    facets = {
        "command": "x",
        "sweep": {"k": "5..7"},
        "env": {"GW_ARRAY_ID": "own"},
        "checkpoint": ["r1", "r2"],
    }
    known = with_task(machine=machine, **facets)
    job = rendered(known, tmp_path, name=known.names[1], machine=machine, attempt_number=3)
    assert {name: value for name, value in job.env.items() if name.startswith("GW_")} == {
        "GW_JOB_ID": "job.1",
        "GW_ARRAY_ID": "own",
        "GW_TASK_ID": "1",
        "GW_TOTAL_TASKS": "3",
        "GW_PARAM": "1",
        "GW_MAX_PARAM": "2",
        "GW_HOSTNAME": "cluster",
        "GW_ARCH": "x86_64",
        "GW_OS_NAME": "linux",
        "GW_MEM_MB": "4000",
        "GW_CPU_MHZ": "2400",
        "GW_CPU_MODEL": "x",
        "GW_RESTARTED": "2",
        "GW_RESTART_FILES": "r1,r2",
    }


def test_variables_of_unset_limits_are_absent(tmp_path):
    machine = Machine(name="m")
    job = rendered(with_task(command="x", machine=machine), tmp_path, machine=machine)
    assert not {"WEFT_MEM_MB", "WEFT_TIME_LEFT_S", "WEFT_CHECKPOINT_FILES"} & job.env.keys()
    assert job.env["WEFT_PROGRESS_FILE"].endswith(PROGRESS_FILE)
    with pytest.raises(JobProblem, match="memory_mb"):
        rendered(with_task(command="x {memory_mb}", machine=machine), tmp_path, machine=machine)
    with pytest.raises(JobProblem, match="not stated for machine m"):
        rendered(with_task(command="x {machine.arch}", machine=machine), tmp_path, machine=machine)
    with pytest.raises(JobProblem, match="did you mean"):
        rendered(with_task(command="x {machine.arhc}"), tmp_path)


def test_command_may_contain_the_architecture_of_the_machine(tmp_path):
    # docs/papers/adaptive-jobs.md, A3.8
    for arch in ("sparc", "alpha"):
        machine = Machine(name="m", arch=arch)
        job = rendered(
            with_task(command="./bin.{machine.arch} x", machine=machine), tmp_path, machine=machine
        )
        assert "sparc" not in job.argv[-1]
        assert f"bin.{arch}: not found" in run_job(job).stderr.decode()


def test_results_of_other_tasks_are_substituted(tmp_path):
    flow = Builder("w")
    flow.task("conv", work=1, command="c")
    flow.task(
        "job", work=1, after="conv", command="x {conv.result.delta} {conv.exit_code} '{conv.result.text}'"
    )
    known = compile_flow(flow)
    job = known.names.index("job")
    assert find_result_tasks(known, job) == {"conv": known.names.index("conv")}
    assert find_result_tasks(known, known.names.index("conv")) == {}
    results = {"conv": {"exit_code": 1, "result": {"delta": 0.25, "text": "a'b"}}}
    assert words_of(rendered(known, tmp_path, results=results), "x")[0] == ["0.25", "1", "a'b"]
    with pytest.raises(JobProblem, match=r"no delta; it wrote text"):
        rendered(known, tmp_path, results={"conv": {"exit_code": 0, "result": {"text": ""}}})
    # In the first iteration of a loop no task has ended yet.
    assert words_of(rendered(known, tmp_path), "x")[0] == ["", "", ""]


def test_field_with_the_result_of_a_sweep_uses_the_subtask_of_the_same_point(tmp_path):
    flow = Builder("w")
    flow.task("a", sweep={"k": "1..3", "t": [0.5, 1.5]}, work=1, command="c")
    flow.task("job", sweep={"t": [0.5, 1.5], "k": "1..3"}, work=1, after="a[k, t]", command="x {a.result.v}")
    flow.task("sum", work=1, after="a", command="x {a.result.v}")
    known = compile_flow(flow)
    for name in known.names:
        if name.startswith("job["):
            t, k = name[4:-1].split(",")
            (found,) = find_result_tasks(known, known.names.index(name)).values()
            assert known.names[found] == f"a[{k},{t}]"
    with pytest.raises(JobProblem, match="6 subtasks match"):
        find_result_tasks(known, known.names.index("sum"))


def test_streams_are_files_of_the_task_or_absolute_paths(tmp_path):
    job = rendered(with_task(command="x"), tmp_path)
    assert (job.stdin, job.stdout, job.stderr) == (None, f"{tmp_path}/records/out", f"{tmp_path}/records/err")
    job = rendered(
        with_task(command="x", stdin="in.{task}", stdout="logs/{task}.out", stderr="/dev/null"), tmp_path
    )
    work = f"{tmp_path}/box/1/7"
    assert (job.stdin, job.stdout, job.stderr) == (f"{work}/in.job", f"{work}/logs/job.out", "/dev/null")
    assert job.streams == ("logs/job.out",)


@pytest.mark.parametrize(
    ("facets", "words"),
    [
        ({"stdout": "../escape"}, "own directory"),
        ({"stderr": "a/../../b"}, "own directory"),
        ({"stdout": "data", "inputs": ["data"]}, "an input must not be overwritten"),
    ],
)
def test_invalid_jobs_are_refused(facets, words, tmp_path):
    with pytest.raises(JobProblem, match=words):
        rendered(with_task(command="x", **facets), tmp_path, inputs=facets.get("inputs", ()))


def test_files_of_the_workflow_folder_in_a_command_are_staged(tmp_path):
    for name in (
        "lapw0",
        "train.py",
        "conf.yaml",
        "out.dat",
        "seen.txt",
        "in.dat",
        "log",
        "run-3.sh",
        "sub/tool",
        "env.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / ".weft").mkdir()
    (tmp_path / ".weft/secret").write_text("x")
    (tmp_path.parent / "above").write_text("x")
    known = with_task(
        sweep={"k": [3]}, inputs=["in.dat"], outputs=["out.dat", "seen.*"], stdin="env.txt",
        command="./lapw0 in.dat && python train.py --c conf.yaml;./run-{k}.sh 'sub/tool' out.dat seen.txt ../above "
        f"{tmp_path}/lapw0 .weft/secret missing >log",
    )  # fmt: skip
    job = rendered(known, tmp_path, "job[3]", inputs=["in.dat"])
    assert tuple(job.words) == ("lapw0", "train.py", "conf.yaml", "run-3.sh", "sub/tool", "env.txt")
    listed = with_task(command=["./lapw0", "--x", "train.py", "conf.yaml2"])
    assert tuple(rendered(listed, tmp_path).words) == ("lapw0", "train.py")


def test_task_without_command_has_no_program(tmp_path):
    flow = Builder("w")
    flow.task("job", kind="virtual")
    flow.task("idle", work=1)
    for name in ("job", "idle"):
        job = rendered(compile_flow(flow), tmp_path, name)
        assert job.argv is None
        assert "nothing to execute" in job.script


def test_command_script_gives_the_same_result_as_the_direct_command(tmp_path):
    value = "a'b $HOME\nc"
    program = "import sys, os, json; print(json.dumps([sys.argv[1:], os.environ['OWN'], os.getcwd()]))"
    words = ["{python}", "-c", "{program}", "{value}", "{inputs}"]
    line = "{python} -c {program} {value} {inputs}"
    for command, more in (
        (words, {}),
        (line, {}),
        (words, {"prolog": "true {inputs}"}),
        (line, {"wrapper": "env"}),
    ):
        known = with_task(
            params={"python": sys.executable, "program": program, "value": value},
            command=command,
            env={"OWN": value},
            inputs=["x"],
            **more,
        )
        job = rendered(known, tmp_path, inputs=[value, "-b c"])
        direct = json.loads(run_job(job).stdout)
        (tmp_path / "command.sh").write_text(job.script)
        by_hand = subprocess.run(["/bin/sh", tmp_path / "command.sh"], capture_output=True, check=True)
        expected = [[value, value, "-b c"], value, str(tmp_path / "box/1/7")]
        assert direct == json.loads(by_hand.stdout) == expected


def run_script(job, place):
    (place / "records").mkdir(exist_ok=True)
    (place / "records" / job.script_name).write_text(job.script)
    return run_job(job)


def test_long_list_is_run_from_a_script(tmp_path):
    names = [f"it's-{number:06d}" for number in range(100_000)]
    known = with_task(command='for f in {inputs}; do echo "$f"; done | sort -u | wc -l', inputs=["x"])
    job = rendered(known, tmp_path, inputs=names)
    assert job.needs_script
    assert job.argv == ("/bin/sh", f"{tmp_path}/records/command.sh")
    assert run_script(job, tmp_path).stdout.strip() == b"100000"


def test_long_value_is_set_in_a_script(tmp_path):
    value = "it's $HOME\n" * 30_000
    known = with_task(params={"v": value}, command='printf %s {v}; printf %s "{v}" | wc -c', inputs=["x"])
    job = rendered(known, tmp_path)
    assert job.needs_script
    assert "WEFT_V_v" not in job.env
    done = run_script(job, tmp_path)
    assert done.stdout.decode() == f"{value}{len(value)}\n"


def test_values_reach_command_prolog_epilog_and_evaluator(tmp_path):
    texts = {
        "prolog": "printf '<%s>' {word} {inputs}; set -- none",
        "wrapper": "env WRAPPED={word}",
        "epilog": "printf '<%s>' \"{word}\" {outputs}",
        "evaluator": "printf '<%s>' {word} {machine.name}",
    }
    expected = {
        "": "<a'b><{}><i 1><i2>",
        "prolog": "<a'b><i 1><i2>",
        "epilog": "<a'b><o>",
        "evaluator": "<a'b><here>",
    }
    for number, command in enumerate(
        ("printf '<%s>' \"$WRAPPED\" '{{}}' {inputs}", ["printf", "<%s>", "{word}", "{{}}", "{inputs}"])
    ):
        known = with_task(params={"word": "a'b"}, inputs=["i"], outputs=["o"], command=command, **texts)
        for module, shown in expected.items():
            place = tmp_path / f"{number}{module}"
            done = run_job(rendered(known, place, inputs=["i 1", "i2"], module=module))
            assert done.stdout.decode() == shown, done.stderr


def test_very_long_values_are_passed_to_a_prolog(tmp_path):
    known = with_task(params={"word": "x" * 300_000}, command="true", prolog="printf %s {word}")
    job = rendered(known, tmp_path, module="prolog")
    assert (job.needs_script, job.script_name) == (True, "prolog.sh")
    assert run_script(job, tmp_path).stdout.decode() == "x" * 300_000


def test_shell_command_stops_at_the_first_failure_and_at_an_unset_variable(tmp_path):
    assert run_job(rendered(with_task(command="false; echo on"), tmp_path)).returncode == 1
    assert run_job(rendered(with_task(command="echo $WEFT_NO_SUCH_VARIABLE"), tmp_path)).returncode == 2


def test_wrapper_runs_the_command_and_its_exit_code_is_recorded(tmp_path):
    known = with_task(params={"word": "a'b"}, wrapper="env WRAPPED=1", command="echo $WRAPPED {word}; exit 3")
    job = rendered(known, tmp_path)
    done = run_job(job)
    assert (done.stdout.decode(), done.returncode) == ("1 a'b\n", 3)
    assert (Path(job.workdir) / EXIT_FILE).read_text() == "3\n"


def test_exit_code_under_a_wrapper_is_recorded_after_sigterm(tmp_path):
    program = "trap 'exit 85' TERM; echo began; while :; do sleep 0.1; done"
    job = rendered(with_task(command=program, wrapper="env"), tmp_path)
    Path(job.workdir).mkdir(parents=True)
    env = {**os.environ, **job.env}
    running = subprocess.Popen(
        job.argv, cwd=job.workdir, env=env, stdout=subprocess.PIPE, start_new_session=True
    )
    assert running.stdout.readline() == b"began\n"
    os.killpg(running.pid, 15)
    running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, (Path(job.workdir) / EXIT_FILE).read_text()) == (85, "85\n")


def program_on_path(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_container_program_is_chosen_on_the_machine(tmp_path):
    known = with_task(command="echo in $WEFT_TASK", environment={"container": "image:1"}, env={"OWN": "x"})
    job = rendered(known, tmp_path)
    docker = program_on_path(tmp_path / "d", "docker", 'for w; do printf "[%s]" "$w"; done')
    job.env["PATH"] = docker
    words = run_job(job).stdout.decode()
    work = f"{tmp_path}/box/1/7"
    assert words.startswith(
        f"[run][--rm][--init][--interactive][--volume][{work}:{work}][--workdir][{work}][--user]"
    )
    assert "[--env][OWN][--env][WEFT_TASK]" in words
    assert words.endswith("[image:1][/bin/sh][-eu][-c][echo in $WEFT_TASK]")
    job.env["PATH"] = program_on_path(tmp_path / "d", "apptainer", 'for w; do printf "[%s]" "$w"; done')
    expected = (
        f"[exec][--bind][{work}][--pwd][{work}][docker://image:1][/bin/sh][-eu][-c][echo in $WEFT_TASK]"
    )
    assert run_job(job).stdout.decode() == expected
    job.env["PATH"] = str(tmp_path / "nowhere")
    none = run_job(job)
    assert none.returncode == 127
    assert b"none of apptainer" in none.stderr


def test_values_are_passed_into_a_container(tmp_path):
    known = with_task(
        params={"word": "a'b"},
        command="echo {word} {inputs}",
        inputs=["x"],
        environment={"container": "image:1"},
    )
    job = rendered(known, tmp_path, inputs=["i 1", "i2"])
    show = 'for w; do printf "[%s]" "$w"; done'
    job.env["PATH"] = program_on_path(tmp_path / "d", "docker", show)
    words = run_job(job).stdout.decode()
    assert "[--env][WEFT_V_word]" in words
    assert words.endswith('[image:1][/bin/sh][-eu][-c][echo "${WEFT_V_word}" "$@"][/bin/sh][i 1][i2]')
    # Run the command as a container program does, with the variables that it passes on.
    job.env["PATH"] = program_on_path(tmp_path / "d", "apptainer", 'shift 6; exec "$@"')
    assert run_job(job).stdout.decode() == "a'b i 1 i2\n"


def test_conda_environment_is_created_once_in_the_sandbox(tmp_path):
    (tmp_path / "env.yaml").write_text("dependencies: [x]")
    job = rendered(with_task(command=["prog", "a b"], environment={"conda": "env.yaml"}), tmp_path)
    assert tuple(job.words) == ("env.yaml",)
    create = 'echo "conda $*" >&2; [ "$1" != env ] || mkdir -p "$5/conda-meta"'
    job.env["PATH"] = program_on_path(tmp_path / "d", "conda", create)
    first, second = run_job(job).stderr.decode(), run_job(job).stderr.decode()
    prefix = first.splitlines()[0].split()[5]
    assert prefix.startswith(f"{tmp_path}/box/conda/")
    assert first.splitlines()[0] == f"conda env create --quiet --prefix {prefix} --file env.yaml"
    assert second == f"conda run --no-capture-output --prefix {prefix} prog a b\n"
    named = rendered(with_task(command="x", environment={"conda": "base"}), tmp_path)
    assert "conda run --no-capture-output --name base /bin/sh" in named.argv[-1]
    with pytest.raises(JobProblem, match=r"missing\.yml cannot be read"):
        rendered(with_task(command="x", environment={"conda": "missing.yml"}), tmp_path)


def test_environment_modules_are_loaded_before_the_command(tmp_path):
    (tmp_path / "init").mkdir()
    (tmp_path / "init/sh").write_text(
        'module() { echo "module $*"; LOADED=$2; export LOADED; echo $unset_variable; }\n'
    )
    job = rendered(
        with_task(command="echo with $LOADED", environment={"modules": ["gcc/13", "mpi"]}), tmp_path
    )
    job.env["MODULESHOME"] = str(tmp_path)
    assert run_job(job).stdout.decode().split() == ["module", "load", "gcc/13", "mpi", "with", "gcc/13"]


def test_missing_environment_module_prevents_the_start(tmp_path):
    (tmp_path / "init").mkdir()
    (tmp_path / "init/sh").write_text('module() { echo "no module $2"; return 5; }\n')
    job = rendered(with_task(command="echo ran", environment={"modules": ["gcc/13"]}), tmp_path)
    job.env["MODULESHOME"] = str(tmp_path)
    done = run_job(job)
    assert (done.returncode, done.stdout.decode()) == (5, "no module gcc/13\n")


def test_python_function_is_called(tmp_path):
    (tmp_path / "calc.py").write_text(
        "def add(k, label, nodes, *, inputs, extra=5):\n    print(k, label, nodes, inputs, extra)\n    return {'total': k + extra}\n"
        "def wrong(unheard_of): pass\ndef one(first, k): return first + str(k)\n"
    )
    known = with_task(params={"label": "a'b"}, sweep={"k": [3]}, call="calc:add", inputs=["x"])
    job = rendered(known, tmp_path, "job[3]", inputs=["x"], count=2, nodes=2)
    assert tuple(job.words) == ("calc.py",)
    done = run_job(job)
    assert done.stdout.decode() == "3 a'b 2 ['x'] 5\n", done.stderr
    assert json.loads((tmp_path / "box/1/7" / RESULT_FILE).read_text()) == {"total": 8}
    assert sys.executable not in job.command
    for call, why in [
        ("calc:wrong", "unheard_of"),
        ("calc:none", "has no 'none'"),
        ("nope:f", "no module 'nope'"),
    ]:
        failed = run_job(rendered(with_task(call=call), tmp_path))
        assert failed.returncode == 2
        assert why in failed.stderr.decode()
    (tmp_path / "box/1/7" / RESULT_FILE).unlink()
    run_job(rendered(with_task(sweep={"k": [3]}, call="calc:one", arguments=["w{k}"]), tmp_path, "job[3]"))
    assert json.loads((tmp_path / "box/1/7" / RESULT_FILE).read_text()) == {"value": "w33"}
    with pytest.raises(JobProblem, match="at most 100000 bytes"):
        rendered(with_task(params={"big": "x" * 200_000}, call="calc:add"), tmp_path)


def test_template_cache_does_not_keep_workflows_alive(tmp_path):
    known = with_task(command="x {task}")
    assert find_result_tasks(known, 0) == {}
    rendered(known, tmp_path)
    gone = weakref.ref(known)
    del known
    gc.collect()
    assert gone() is None


def test_node_of_the_local_machine_is_one_core(tmp_path):
    known = with_task(command="x {nodes} {cores}", cores=2, nodes=[1, 2])
    job = rendered(known, tmp_path, machine=LOCAL, nodes=4, count=2)
    assert (job.env["WEFT_V_nodes"], job.env["WEFT_V_cores"]) == ("2", "2")
