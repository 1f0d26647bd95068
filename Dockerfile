# Jumar with PyTorch for CPUs and the emulated NPU.
#   docker build -t jumar .
#   docker run --rm -v "$PWD:/work" jumar port train.py -- --epochs 1
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/jumar
COPY constraints.txt ./
RUN /opt/jumar/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)"
COPY . .
# The version comes from the tags; a context without them says it here.
ARG VERSION
RUN SETUPTOOLS_SCM_PRETEND_VERSION_FOR_JUMAR="${VERSION:-0.1.0}" \
    /opt/jumar/bin/pip install --no-cache-dir -c constraints.txt '.[torch,export,tune,view]'

FROM python:3.11-slim-bookworm
# A compiler makes recording and flat optimizers several times faster.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++=4:12.2.0-3 git=1:2.39.* \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 jumar
COPY --from=build /opt/jumar /opt/jumar
ENV PATH=/opt/jumar/bin:$PATH
USER jumar
WORKDIR /work
ENTRYPOINT ["jumar"]
CMD ["--help"]
