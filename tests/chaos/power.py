"""Power cuts: a run is recorded, and every state of the disk that a cut may leave is judged by the checker.

Most states are judged as they are: a claim that survived must have evidence from before the cut, and what was
used or published before the cut must be claimed. A sample is resumed by a real engine after a reboot.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaos.checker import History, check_history
from chaos.claims import Claims, read_claims
from chaos.disk import Image, RecordedDisk
from chaos.engines import Stable
from chaos.evidence import FILE, Evidence, ProgramRun, add_loss
from chaos.program import digest
from chaos.scene import Scene
from chaos.shim import Control
from chaos.trace import read_trace


class RecordedRun:
    """A run whose writes were recorded."""

    def __init__(self, scene: Scene) -> None:
        """Record the run of a scene from its start to its end."""
        self.scene = scene
        folder = scene.notes.parent
        (folder / "sandbox").mkdir(exist_ok=True)
        roots = [scene.project, folder / "sandbox"]
        self.disk = RecordedDisk(roots, scene.notes)
        control = Control(folder / "control", roots=roots, witness=scene.notes)
        control.set(trace=str(folder / "trace"))
        scene.environment.update(control.environment())
        scene.finish()
        scene.wait_for_processes()
        control.set(trace="")
        self.disk.add(read_trace(folder / "trace"))
        control.close()

    def commits(self) -> list[int]:
        """Return the numbers of the operations that complete a transaction: the last write before another file's."""
        wal = str(self.scene.project / ".weft" / "weft.db-wal")
        inodes = {operation.inode for operation, _ in self.disk.names if operation.path == wal}
        writes = [
            each for file in {id(file): file for _, file in self.disk.names if file is not None}.values()
            for each in file.changes if each.inode in inodes
        ]  # fmt: skip
        # A frame of the WAL has a header of 24 bytes; bytes 4 to 8 are not zero in the last one of a transaction.
        ends = [each for each in writes if len(each.data) == 24 and any(each.data[4:8])]
        return [each.sequence + 1 for each in ends]

    def judge(self, image: Image) -> list[str]:
        """Return what is wrong with the state after a power cut, without resuming it."""
        project = self.scene.project
        content = image.read(self.scene.notes / FILE) or b""
        records = [*Evidence.of_bytes(content).records, {"what": "loss", "kind": "power cut"}]
        history = History(project, image_claims(image, project), Evidence(records), image.read)
        published = self.disk.whole(image.cut)
        return [
            *check_history(history),
            *used_ends_are_durable(history),
            *published_ends_are_durable(history, published),
        ]

    def resume(self, image: Image, folder: Path, stable: Stable) -> Scene:
        """Write a state after a power cut into a folder, and let an engine finish the run after a reboot."""
        for name in ("project", "sandbox", "notes"):
            image.write_to(folder / name, instead_of=self.scene.notes.parent / name)
        scene = Scene.adopt(folder, stable, self.scene)
        add_loss(scene.notes, "power cut")
        control = Control(folder / "control")
        control.set(boot="11111111-2222-3333-4444-555555555555")
        scene.environment.update(control.environment())
        scene.finish()
        control.close()
        return scene


def image_claims(image: Image, project: Path) -> Claims:
    """Return the claims of the database of an image."""
    with tempfile.TemporaryDirectory(prefix="weft-image-", dir="/dev/shm") as folder:
        for name in ("weft.db", "weft.db-wal", "weft.db-journal"):
            if (content := image.read(project / ".weft" / name)) is not None:
                Path(folder, name).write_bytes(content)
        return read_claims(Path(folder, "weft.db"), own=True)


def used_ends_are_durable(history: History) -> Iterator[str]:
    """The end of a task is on the disk before a task that reads its outputs begins."""
    for run in history.evidence.runs:
        for name, content in run.inputs.items():
            made = [each for each in history.evidence.runs if each.outputs.get(name) == content]
            if made and not any(_claimed(history, each) for each in made):
                yield f"used_ends_are_durable: {run.key} had read {name}; the end of {made[-1].key} is lost"


def published_ends_are_durable(history: History, before: Image) -> Iterator[str]:
    """The end of a task is on the disk before its outputs are in the project."""
    for run in history.evidence.runs:
        for name, content in run.outputs.items():
            found = before.read(history.project / name)
            if found is not None and digest(found) == content and not any(
                _claimed(history, each) for each in history.evidence.runs if each.outputs.get(name) == content
            ):  # fmt: skip
                yield f"published_ends_are_durable: {name} is in the project; the end of {run.key} is lost"


def _claimed(history: History, run: ProgramRun) -> bool:
    attempt = history.attempt_of(run)
    return attempt is not None and attempt.completed is not None
