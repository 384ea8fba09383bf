"""Publishing: a result goes to where the user wants it, a path or a URL; always as a copy.

So that whoever edits a result cannot change what weft keeps. A path below the project is reached without
following links; a full path or a URL was named by the user and is taken as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from weft.backends.products import MadeFile
from weft.backends.sources.remote_files import is_url, path_of_url, upload
from weft.backends.staging.made import measured
from weft.backends.staging.placing import place
from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.safe_paths import Parts, open_inside, parts_of, reached
from weft.backends.staging.trees import leaves_of

__all__ = ["publish"]


def publish(directory: Path, file: MadeFile, target: str, *, folder: Path) -> int:
    """Bring what was made to its target: a name below ``folder``, a full path, a URL. Give the bytes copied.

    A target that ends with ``/`` is a directory to put it into. What is there already with the same content
    is left alone; a directory that is there is added to.
    """
    if target.endswith("/"):
        target += parts_of(file.name)[-1]
    path = path_of_url(target) if is_url(target) else target
    if path is None:
        return _upload(directory, file, target)
    if path.startswith("/"):
        folder, path = _named(path)
    if _is_there(folder, path, file):
        return 0
    return place(directory, file.name, folder, path, how="copy", digest=file.digest, modes="own")


def _named(path: str) -> tuple[Path, str]:
    """Give the directory, made where absent and its links resolved, and the name of a full path."""
    with telling("cannot be published", path):
        above = Path(path).parent
        above.mkdir(parents=True, exist_ok=True)
        return Path(os.path.realpath(above, strict=True)), Path(path).name


def _is_there(root: Path, name: str, file: MadeFile) -> bool:
    try:
        with reached(root, parts_of(name)) as found:
            # Another size is another content; what is behind a link is not at this place.
            if found.parts != parts_of(name) or (found.is_file and found.status.st_size != file.size_bytes):
                return False
        return measured(root, name).digest == file.digest
    except StagingProblem:
        return False


def _upload(directory: Path, file: MadeFile, url: str) -> int:
    if measured(directory, file.name).digest != file.digest:
        raise StagingProblem("cannot be published", file.name, "somebody has changed it since it was made")
    with reached(directory, parts_of(file.name)) as found:
        parts, is_directory = found.parts, found.is_directory
    if not is_directory:
        return _uploaded(directory, parts, url)
    files = [leaf for leaf in leaves_of(directory, parts) if leaf.is_file]
    return sum(_uploaded(directory, leaf.lies, "/".join((url, *leaf.parts))) for leaf in files)


def _uploaded(directory: Path, parts: Parts, url: str) -> int:
    fd = open_inside(directory, "/".join(parts))
    try:
        upload(fd, url)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)
