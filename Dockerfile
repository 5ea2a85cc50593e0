# One image for both processes: `webhook` and `controller` are its first argument.
# BASE: any image with Python 3.11 or newer and venv as `python3`; the image has its architecture.
ARG BASE=docker.io/library/python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
WORKDIR /build
COPY requirements/build.txt requirements/runtime.txt ./
# The secret is for builds behind a proxy with a CA of its own.
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    python3 -m venv uv \
    && uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r build.txt \
    && python3 -m venv --without-pip /opt/venv \
    && uv/bin/uv pip install --quiet --python /opt/venv/bin/python3 --system-certs --no-cache --link-mode copy \
       --require-hashes --no-deps --only-binary :all: -r runtime.txt
# Of the kubernetes package only authentication and transport are used; its generated calls and models are 120 MB.
RUN find /opt/venv -type f ! -name '__init__.*' \
       \( -path '*/kubernetes/*client/api/*' -o -path '*/kubernetes/*client/models/*' \) -delete \
    && find /opt/venv -type f \( -path '*/kubernetes/*_test.*' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' \) -delete \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} + \
    && /opt/venv/bin/python3 -m compileall -q -j 0 /opt/venv/lib
COPY . /opt/fraction-injector
# The command by its name, wherever one stands: `kubectl exec deploy/fraction-injector-controller -- fraction-injector ledger`.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/fraction-injector \
    && printf '#!/opt/venv/bin/python3\nimport sys\n\nsys.path.insert(0, "/opt/fraction-injector")\nfrom cli.main import main\n\nmain()\n' \
       > /opt/venv/bin/fraction-injector \
    && chmod 0755 /opt/venv/bin/fraction-injector

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="GPU Fraction Injector" \
      org.opencontainers.image.description="Fractional GPUs for Kubernetes pods: a label in, a half-GPU pod out" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/fraction-injector /opt/fraction-injector
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# The packages are found from here, and so are the demo's examples.
WORKDIR /opt/fraction-injector
USER 65532:65532
EXPOSE 8443 8080 9443 9080 9081
ENTRYPOINT ["python3", "-m", "cli.main"]
