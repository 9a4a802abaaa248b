"""All of the SQL: the tables, and one file for each operation on them."""
