"""Finds emails among millions: each page reads a bounded number of rows, by an index."""
