#!/bin/sh
# Does what the original's entry point does with the settings that compose.yaml uses.
set -eu
export POSTGRES_USER="${POSTGRES_USER:-postgres}"
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chown -R postgres /var/lib/postgresql /run/postgresql
  exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  umask 077
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --encoding=UTF8 --locale=C \
    --auth-local=trust --auth-host=scram-sha-256
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait --options="-c listen_addresses=''" start
  for script in /docker-entrypoint-initdb.d/*.sh; do
    if [ -x "$script" ]; then "$script"; else . "$script"; fi
  done
  pg_ctl --wait --mode=fast stop
fi
exec "$@"
