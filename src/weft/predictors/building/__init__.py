"""From a predictor's answers, or straight from a graph's columns, to a layout of seconds."""
