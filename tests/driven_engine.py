"""An engine driven by a test, which passes events and compares the commands as text."""

from __future__ import annotations

from dataclasses import dataclass

from weft.backends.simulation.scenario import UNDISTURBED, Arrival
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.invariants import check_engine
from weft.engine.journal import note_fields
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import TaskState
from weft.instance.compilation import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings

__all__ = ["DrivenEngine", "Simulated", "command_texts", "one_task", "platform_of", "simulated", "stages"]


def platform_of(*speeds, **facets):
    """Return machines m0, m1, ... with these speeds, one node each unless ``facets`` state more."""
    return Platform(
        machines=tuple(Machine(name=f"m{i}", speed=speed, **facets) for i, speed in enumerate(speeds))
    )


def one_task(**facets):
    """Return a workflow with one task of 100 units of work."""
    flow = Builder("one")
    flow.task("job", **{"work": 100, **facets})
    return flow.build()


class DrivenEngine:
    """An engine with one run, driven by a test instead of a backend."""

    def __init__(self, workflow, platform, settings=None, policy="fcfs", *, submit=True):
        instance = compile_instance(check_and_unfold(workflow), platform)
        self.engine = Engine(
            WorkflowLibrary({"w": instance}), instance, make_policy(policy), settings or RunSettings()
        )
        self.now = 0.0
        self.first = self.handle(ev.Submitted(run=0, workflow="w")) if submit else []

    @property
    def run(self):
        return self.engine.state.runs[0]

    def handle(self, *events, at=None):
        """Handle events at one time (by default the last); return the commands as text."""
        self.now = self.now if at is None else at
        found = []
        for event in events:
            found += self.engine.handle(event, self.now)
            check_engine(self.engine)
        return command_texts(found)

    def state(self, task=0):
        """Return the name of a task's state."""
        return TaskState(self.run.state[task]).name


@dataclass(frozen=True)
class Simulated:
    """The journal and state of a simulation."""

    engine: Engine
    entries: list

    @property
    def run(self):
        return self.engine.state.runs[0]

    def commands(self, *kinds):
        """Return (time, command) for all commands of these types."""
        return [
            (entry.now, command)
            for entry in self.entries
            for command in entry.commands
            if isinstance(command, kinds)
        ]

    def events(self, *kinds):
        """Return (time, event) for all events of these types."""
        return [(entry.now, entry.event) for entry in self.entries if isinstance(entry.event, kinds)]

    def moves(self):
        """Return the assignments that replace another attempt."""
        return [command for _, command in self.commands(cm.Assign) if command.replaces is not None]

    def words(self):
        """Return (time, text) of all commands."""
        return [(entry.now, words) for entry in self.entries for words in command_texts(entry.commands)]


def simulated(workflow, platform, scenario=UNDISTURBED, settings=None, policy="fcfs"):
    """Return the simulation of one workflow; the invariants are checked after every event."""
    instance = compile_instance(check_and_unfold(workflow), platform)
    entries = []
    engine = Simulation(
        library=WorkflowLibrary({"w": instance}),
        arrivals=[Arrival(workflow="w")],
        policy=make_policy(policy),
        settings=settings or RunSettings(),
        scenario=scenario,
    ).run(record=entries.append, check=check_engine)
    return Simulated(engine, entries)


def command_texts(commands):
    """Return commands as text, without timers."""
    return [words for words in map(_words, commands) if words is not None]


def stages(commands):
    """Return the text of those commands that a backend executes."""
    wanted = ("cancel", "prolog", "clean-up", "start")
    return [words for words in commands if words.split()[0] in wanted]


def _words(command):
    match command:
        case cm.Assign():
            after = "" if command.replaces is None else f" after {command.replaces}: {command.reason}"
            nodes = "" if command.count == 1 else f" x{command.count}"
            return f"assign {command.attempt} m{command.machine}{nodes}{after}"
        case cm.StageIn():
            names = ", ".join(f"{p.name or p.task} from {p.source}" for p in command.parcels)
            return f"prolog {command.attempt} m{command.machine} ({names})"
        case cm.Start():
            return f"start {command.attempt} m{command.machine} from {command.restart_from:g}"
        case cm.Cancel():
            return f"cancel {command.attempt} m{command.machine}: {command.reason}"
        case cm.CleanUp():
            return f"clean-up {command.attempt} m{command.machine}"
        case cm.StageOut():
            return f"epilog {command.attempt} m{command.machine}"
        case cm.CloseAttempt():
            return f"drop {command.attempt}"
        case cm.RevertMigration():
            return f"return {command.attempt}"
        case cm.Settle():
            why = f" ({command.cause})" if command.cause else ""
            return f"settle {command.task} {command.state.name}{why}{' keep' if command.keep else ''}"
        case cm.Probe():
            of = f" {command.attempt}" if command.attempt is not None else f" m{command.machine}"
            return f"probe {command.of}{of}"
        case cm.Fetch():
            return f"fetch m{command.machine}"
        case cm.Discover():
            return "discover"
        case cm.FinishRun():
            return f"finish {command.outcome}"
    note = note_fields(command)
    if note is not None:
        return f"note {note.kind}"
    return None
