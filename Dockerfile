# One image for web, worker, beat and Flower. Build it with: docker compose build
FROM python:3.13.9-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY outbox outbox
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --constraint constraints.txt ".[postgresql]" \
      flask-migrate flask-sqlalchemy flask-wtf flower gunicorn

FROM python:3.13.9-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /app --shell /usr/sbin/nologin shop
COPY --from=build /venv /venv
WORKDIR /app
COPY celeryconfig.py ./
COPY webapp webapp
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
CMD ["gunicorn", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "8", "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "webapp:create_app()"]
