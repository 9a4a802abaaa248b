# Stands in for Mailpit: mailpit.py, under Mailpit's own name for `mailpit readyz`.
FROM outbox-python
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir aiosmtpd
COPY --chmod=755 mailpit.py /mailpit
EXPOSE 1025 8025
CMD ["/mailpit"]
