"""Edges of a task graph by the names of their ends, for comparing graphs whose indices differ."""


def edges_of(graph, *columns):
    """Give the values of some edge columns (``bytes``, ``files``, ``seconds``) for every edge."""
    found = {}
    for task, name in enumerate(graph.names):
        start, end = graph.predecessor_pointer[task : task + 2]
        for edge in range(start, end):
            ends = (graph.names[graph.predecessor[edge]], name)
            found[ends] = tuple(getattr(graph, f"edge_{column}")[edge] for column in columns)
    return found
