"""Generate a workflow: the function behind ``weft generate``."""

from __future__ import annotations

from weft.errors import InvalidInput
from weft.randomness import generator
from weft.workflow.generators import GENERATORS
from weft.workflow.generators.generator import GeneratedWorkflow, configure_generator


def generate(kind: str, /, *, seed: int = 0, **parameters: object) -> GeneratedWorkflow:
    """Return a generated workflow of a kind (``weft generate`` lists the kinds), with a platform for it.

    Missing parameters have defaults; the same seed gives the same workflow.

    >>> made = generate("montage", tasks=25, seed=3)
    >>> made.workflow.name, len(made.platform.machines)
    ('montage-25', 8)
    """
    if seed < 0:
        raise InvalidInput(f"seed {seed}", rule="must be at least 0")
    chosen = configure_generator(GENERATORS.load(kind), parameters)
    return chosen.generate(generator(seed, "generate", kind))
