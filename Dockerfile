# The service without the embedded mongod, for a replica set. In the root of the checkout:
#   docker build --tag registry .
#   docker run --publish 8080:8080 --env MONGODB_URI=mongodb://db1,db2,db3/?replicaSet=fleet \
#       --stop-timeout 35 --read-only --tmpfs /tmp --cap-drop ALL registry
# docker-compose.yml starts it with a replica set. Commands, in a container of their own or in that:
#   docker run --rm --env MONGODB_URI=mongodb://db1,db2,db3/?replicaSet=fleet registry token list
#   docker exec CONTAINER python -m registry token create --name admin --scope write
# A tag names the newest image of its version. To build from the same one each time, pin its digest:
#   docker buildx imagetools inspect python:3.13-slim-trixie

FROM python:3.13-slim-trixie AS build
WORKDIR /app
# npm, with which scripts/swagger-ui downloads Swagger UI.
COPY scripts/npm.txt .
RUN pip install --no-cache-dir --require-hashes --requirement npm.txt
COPY requirements.txt .
# Without the embedded mongod: from its line to the last of its hashes.
RUN python -m venv --without-pip .venv \
    && sed '/^fiftyone/,/[^\\]$/d' requirements.txt >installed.txt \
    && pip --python .venv/bin/python install --no-cache-dir --require-hashes --requirement installed.txt
COPY scripts/swagger-ui scripts/
RUN scripts/swagger-ui
COPY registry registry
RUN python -m compileall -q registry

FROM python:3.13-slim-trixie
WORKDIR /app
COPY --from=build /app/.venv .venv
COPY --from=build /app/registry registry
ENV PATH=/app/.venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 REGISTRY_HOST=0.0.0.0
# The user nobody, by its number, so that Kubernetes can see that it is not root.
USER 65534:65534
EXPOSE 8080
# Liveness: another container would not help against a lost database.
HEALTHCHECK --interval=30s --timeout=15s --start-period=120s --start-interval=5s \
    CMD ["python", "-m", "registry", "health"]
ENTRYPOINT ["python", "-m", "registry"]
CMD ["serve"]
