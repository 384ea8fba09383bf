"""The simulation backend: scenario, true durations, disturbances and network under a virtual clock."""
