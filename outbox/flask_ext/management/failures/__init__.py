"""Why a database does not serve, in words for people."""
