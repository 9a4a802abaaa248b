"""The only SQL: the tables, and one file for each thing that is done to them."""
