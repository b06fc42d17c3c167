"""The explorer: one HTML page that shows how α changes what a model says about a table.

`exploring` fits the model at several α and gathers the data of the page; `page` writes it.
"""
