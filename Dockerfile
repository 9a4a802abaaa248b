# One image for migrate, web, worker, beat and Flower. Build it with: docker compose build
FROM python:3.13.9-slim-bookworm AS build
RUN python -m venv /venv
WORKDIR /src
# The packages are a layer of their own: it is made anew only when one of these two files changes.
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
e = p['optional-dependencies']; print(*p['dependencies'], *e['postgresql'], *e['shop'], sep='\n')" > wanted.txt \
 && /venv/bin/pip install --no-cache-dir --constraint constraints.txt --requirement wanted.txt

FROM python:3.13.9-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /app --shell /usr/sbin/nologin shop
COPY --from=build /venv /venv
WORKDIR /app
COPY outbox outbox
COPY webapp webapp
COPY celeryconfig.py ./
# The file system is read-only when it runs, so Python could not keep what it compiles.
RUN ["/venv/bin/python", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/app"]
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
CMD ["gunicorn", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "8", "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "webapp:create_app()"]
