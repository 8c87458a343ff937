# redfence, small and without a shell: built in one stage, run in another.
#
#   docker build -t redfence .
#   docker build -t redfence --build-arg FEATURES=etcd,zookeeper .    with the other back ends
FROM rust:1.95-slim-bookworm AS build
ARG FEATURES=""
# protoc and its files are needed by the etcd client alone. The C compiler that SQLite and Lua are built with is in the image.
RUN if [ -n "$FEATURES" ]; then \
        apt-get update && apt-get install -y --no-install-recommends protobuf-compiler libprotobuf-dev \
        && rm -rf /var/lib/apt/lists/*; \
    fi
WORKDIR /source
COPY . .
# The folders of caches outlive the build; what is to stay must be copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    cargo build --release --locked --package redfence --bin redfence --features "$FEATURES" \
    && cp target/release/redfence /usr/local/bin/redfence
# A volume that is mounted over a folder for the first time takes its owner.
RUN mkdir /memory

# libc and certificates, nothing else; its user `nonroot` has the number 65532.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /usr/local/bin/redfence /usr/local/bin/redfence
COPY --from=build --chown=65532:65532 /memory /memory
USER 65532:65532
# As the first process redfence gets the signals itself: SIGTERM gives back what it holds.
ENTRYPOINT ["/usr/local/bin/redfence"]
