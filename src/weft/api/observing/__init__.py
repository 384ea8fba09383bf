"""Looking at executions, in this process or from another: journals, counts, the time left, reports."""
