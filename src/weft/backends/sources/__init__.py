"""Sources: where inputs come from, paths and URLs; what is shared is fetched once per machine."""
