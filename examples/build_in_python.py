"""The same workflow as hello.yaml, built in Python and planned on four heterogeneous machines.

Run it: python examples/build_in_python.py
"""

from __future__ import annotations

import weft

flow = weft.Builder("hello")
prepare = flow.task("prepare", command="./prepare", work="20s", outputs={"mesh": "40MB"})
run = flow.task(
    "run",
    sweep={"seed": "1..4"},
    command="./simulate --seed {seed} mesh",
    inputs=["mesh"],
    outputs={"result.{seed}": "5MB"},
    work="2m",
)
collect = flow.task("collect", command="./collect {inputs}", inputs=["result.{1..4}"], work="10s")

planned = weft.plan(flow.build(), on="random:4,heterogeneity=4,seed=1")
print(f"{planned.makespan_s:.1f} s, at most {planned.gap:.0%} above the optimum")
for line in planned.schedule:
    print(f"{line.task:<10} {line.machine:<4} {line.start_s:7.1f} to {line.finish_s:7.1f} s")
