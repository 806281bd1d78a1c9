# syntax=docker/dockerfile:1
# One image for the server and the workers. x86-64 needs a processor with AVX2 (x86-64-v3): the code is compiled for that.
ARG NODE_IMAGE=node:20-bookworm-slim

FROM ${NODE_IMAGE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ cmake make nlohmann-json3-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
# The packages change less often than the sources. Their install scripts are not needed by anything here.
COPY package.json package-lock.json ./
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --no-audit --no-fund
COPY native native
COPY scripts scripts
RUN node scripts/build-native.mjs
COPY tsconfig.json tsconfig.build.json ./
COPY src src
COPY workers workers
RUN node scripts/build.mjs
# What was only needed to compile: 35 MB of ggml's sources among it.
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund \
 && rm -rf node_modules/nodejs-whisper node_modules/cmake-js node_modules/node-api-headers node_modules/node-addon-api

FROM ${NODE_IMAGE} AS run
# tini is process 1: it passes signals on and collects decoders that a crashed worker leaves behind.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ffmpeg tini \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/build/release/Release/addon.node build/release/Release/addon.node
COPY --from=build /app/dist/src dist/src
COPY --from=build /app/dist/workers dist/workers
COPY deploy/healthcheck.mjs deploy/healthcheck.mjs
COPY LICENSE NOTICE README.md ./
# The user `node` of the base image has the id 1000. Folders that become volumes take their owner from here.
RUN ln -s /app/dist/src/cli/main.js /usr/local/bin/wavepool \
 && chmod 755 /app/dist/src/cli/main.js \
 && install -d -o node -g node -m 0750 /data /models /scratch
ENV NODE_ENV=production \
    WAVEPOOL_DATA_DIR=/data \
    WAVEPOOL_MODELS_DIR=/models \
    TMPDIR=/scratch \
    NPM_CONFIG_CACHE=/scratch/npm
VOLUME ["/data", "/models", "/scratch"]
USER node
EXPOSE 8080
# Running jobs are finished on SIGTERM: give `docker stop` the time (`--time`, `stop_grace_period`).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 \
  CMD ["node", "/app/deploy/healthcheck.mjs", "server"]
ENTRYPOINT ["tini", "--", "wavepool"]
CMD ["serve", "--host", "0.0.0.0"]
