"""The simulated world: what really happens (scenario, truth, disturbances, network) under a virtual clock."""
