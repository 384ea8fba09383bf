"""From a document (a tree of values that know their place) to the records of a scenario."""
