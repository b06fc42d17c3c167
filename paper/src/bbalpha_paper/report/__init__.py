"""Report: a page of tables and figures, made from the rows of experiments."""
