"""One script for each step of the database. A script that was released is never changed."""
