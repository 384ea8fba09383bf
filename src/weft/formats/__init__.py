"""File formats, selected by name or by content. The interface is in ``format.py``."""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["FORMATS"]

FORMATS = Registry(
    "weft.formats",
    "format",
    {
        "weft": "weft.formats.native:WeftYaml",
        "wfformat": "weft.formats.wfformat:WfFormat",
        "instance-json": "weft.formats.instance_json:InstanceJson",
        "stg": "weft.formats.stg:Stg",
        "psplib": "weft.formats.psplib:Psplib",
        "dax": "weft.formats.dax:Dax",
        "gridway": "weft.formats.gridway:GridWay",
        "dagman": "weft.formats.dagman:Dagman",
        "diet": "weft.formats.diet:Diet",
        "dot": "weft.formats.dot:Dot",
        "dot-picture": "weft.formats.picture:DotPicture",
        "mermaid": "weft.formats.picture:MermaidPicture",
    },
    interface=("title", "extensions", "reads", "writes", "recognises"),
)
"""All formats by name. To add a format, add a module and one line here."""
