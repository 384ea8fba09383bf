"""Commands of Slurm, and the controller that runs them."""
