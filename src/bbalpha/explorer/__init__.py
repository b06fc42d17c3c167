"""The explorer: one HTML page that shows how the predictions for a table change with α.

`exploring` fits the model at several α and collects the data for the page; `page` writes it.
"""
