"""What the tasks of a run have made so far: the last products of each, for those who come after."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from weft.backends.inputs import Wanted
from weft.backends.products import MadeFile, Product, Products
from weft.backends.staging.made import measured
from weft.engine.state.known import Known

__all__ = ["MadeSoFar", "files_for"]


class MadeSoFar:
    """The last two products of every task: in a loop the one of the iteration before may be asked for."""

    def __init__(self, products: Products, execution: int) -> None:
        self._products = products
        self._execution = execution
        self._last: dict[tuple[int, int], Product] = {}
        self._before: dict[tuple[int, int], Product] = {}

    def add(self, product: Product) -> None:
        """Take a product in; one without files and result is of no use to others."""
        if not product.files and not product.result and not product.exit_code:
            return
        key = product.run, product.task
        old = self._last.get(key)
        if old is not None and old.iteration < product.iteration:
            self._before[key] = old
        self._last[key] = product

    def of(self, run: int, task: int) -> Product | None:
        """Give the last product of a task: one of this process, or of one that worked for it before."""
        found = self._last.get((run, task))
        if found is None:
            found = self._products.of(self._execution, run, task)
        return found

    def for_input(self, known: Known, run: int, task: int, iteration: int, wanted: Wanted) -> list[Product]:
        """List the products that an input is taken from; empty: nobody has made it yet.

        What a task of the same iteration writes before it is read is the last one made; what is only written
        later in the loop's body comes from the iteration before.
        """
        found = []
        before = known.before(task) if wanted.makers else ()
        for maker in wanted.makers:
            product = self.of(run, maker)
            if product is not None and maker not in before and product.iteration >= iteration:
                product = self._before.get((run, maker))
            if product is not None:
                found.append(product)
        return found


def files_for(product: Product, name: str) -> list[MadeFile]:
    """List the files of a product that are, or lie in, what an input names; or the folder it lies in."""
    if name.endswith("/"):
        folder = name.rstrip("/")
        return [
            file for file in product.files if file.name.rstrip("/") == folder or file.name.startswith(name)
        ]
    exact = [file for file in product.files if file.name == name]
    found = exact or [file for file in product.files if fnmatch.fnmatchcase(file.name, name)]
    if found or not any(name.startswith(f"{file.name.rstrip('/')}/") for file in product.files):
        return found
    return [measured(Path(product.directory), name)]
