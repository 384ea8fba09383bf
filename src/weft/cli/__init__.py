"""The shell commands, one file each; none is imported before it is called."""
