"""The runner, the process that starts programs and outlives the engine; shared by all real backends."""
