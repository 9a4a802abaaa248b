# Stands in for python:3.13-slim: Debian's Python, with this host's certificates and package index.
FROM outbox-debian
RUN ln -s /usr/bin/python3 /usr/local/bin/python
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY pip.conf /etc/pip.conf
