"""The simulation backend: scenarios, true durations, disturbances and a network under a virtual clock."""
