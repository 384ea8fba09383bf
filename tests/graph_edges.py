"""Edges of a task graph by task names, to compare graphs with different indices."""


def edges_of(graph, *columns):
    """Return, by (source, target) names, the values of these edge columns, such as ``bytes``."""
    found = {}
    for task, name in enumerate(graph.names):
        start, end = graph.predecessor_pointer[task : task + 2]
        for edge in range(start, end):
            ends = (graph.names[graph.predecessor[edge]], name)
            found[ends] = tuple(getattr(graph, f"edge_{column}")[edge] for column in columns)
    return found
