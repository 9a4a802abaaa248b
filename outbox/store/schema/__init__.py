"""The tables: columns, indexes, names and version."""
