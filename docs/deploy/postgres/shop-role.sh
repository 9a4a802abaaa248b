#!/bin/sh
# PostgreSQL's image runs this once, when the volume is empty. The shop's role owns its database and
# is no superuser. A host that vanishes within a transaction keeps its row locks for a minute at most.
set -eu
psql --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
\getenv password DATABASE_PASSWORD
CREATE ROLE shop LOGIN PASSWORD :'password';
ALTER ROLE shop SET idle_in_transaction_session_timeout = '1min';
CREATE DATABASE shop OWNER shop;
SQL
