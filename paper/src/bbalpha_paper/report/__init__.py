"""Report: the rows of experiments made into tables, figures and a page."""
