"""Edges of a task graph by task names, to compare graphs with different indices."""


def edges_of(graph, *columns):
    """Return the values of some edge columns (``bytes``, ``files``, ``seconds``) for every edge."""
    found = {}
    for task, name in enumerate(graph.names):
        start, end = graph.predecessor_pointer[task : task + 2]
        for edge in range(start, end):
            ends = (graph.names[graph.predecessor[edge]], name)
            found[ends] = tuple(getattr(graph, f"edge_{column}")[edge] for column in columns)
    return found
