"""Registry of backends, selected by kind. The interface is in ``backends/backend.py``."""

from weft.registry import Registry

__all__ = ["BACKENDS"]

BACKENDS = Registry(
    "weft.backends",
    "backend",
    {
        "dask": "weft.backends.dask.backend:DaskBackend",
        "local": "weft.backends.local.backend:LocalBackend",
        "simulation": "weft.backends.simulation.backend:SimulationBackend",
        "slurm": "weft.backends.slurm.backend:SlurmBackend",
        "ssh": "weft.backends.ssh.backend:SshBackend",
    },
    interface=("kind", "capabilities", "check_machines", "execute", "poll", "find"),
)
"""The classes of all backends, by kind. To add a backend, add a module and one line here."""
