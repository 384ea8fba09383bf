"""A project in which tests run workflows on real machines of this computer, and simulate the same files."""

from __future__ import annotations

from pathlib import Path

import weft
from weft.engine.history import History

__all__ = ["RealProject"]


class RealProject:
    """A folder with workflows and platforms; the history of each run is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = History()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"weft: 1\n{text}" if name.endswith(".yaml") else text)
        return path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def run(self, *workflows, on="machines.yaml", note=None, **options):
        """Run workflows of the folder; the history of the run is in ``history``.

        ``note`` is called with each journal entry and the engine.
        """
        self.history = History()
        place = on if not str(on).endswith(".yaml") else self.folder / on
        ran = weft.run(
            [self.folder / name if isinstance(name, str) else name for name in workflows],
            on=place,
            project=self.folder,
            watch=lambda _: [
                lambda entry, engine: self.history.take(entry, engine.state),
                *([note] if note else []),
            ],
            **options,
        )
        self.history.finish()
        return ran

    def simulate(self, *workflows, on="machines.yaml", **options):
        """Simulate workflows of the folder; return the result of the first seed."""
        place = on if not str(on).endswith(".yaml") else self.folder / on
        return weft.simulate([self.folder / name for name in workflows], on=place, **options).first

    def attempts(self, task, history=None):
        """Return the attempts of a task, in order."""
        found = (history or self.history).attempts.values()
        return [attempt for attempt in found if attempt.task == task]

    def attempt(self, task, history=None):
        (found,) = self.attempts(task, history)
        return found
