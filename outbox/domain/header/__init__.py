"""The fields of a header: what they may hold, whom they name, and who has signed them."""
