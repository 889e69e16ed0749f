# Tarn in a container.  The image holds no configuration; give it one whose listener is
# reachable from outside, as in "*:8080":
#
#     docker build -t tarn .
#     docker run -p 8080:8080 -v "$PWD/tarn.yaml:/etc/tarn/tarn.yaml:ro" --shm-size 1g tarn
#
# For HTTPS a listener "*:443" with `tls: /etc/tarn/tls`, and: -p 443:443 -v "$PWD/tls:/etc/tarn/tls:ro".
# Keys are read by the user 10001: give them to a group, mode 0640, and add --group-add with its number.
#
# The log rings live in /dev/shm, of which a container gets 64 MiB: enough for 15 workers with the
# default log_ring.

FROM debian:12 AS build
WORKDIR /src
# Downloads come first, so that an edit of the sources downloads nothing again.  With the sources of
# llhttp in TARN_LLHTTP_DIR, the build itself asks no network.
COPY scripts/lib.sh scripts/install-deps scripts/fetch-llhttp scripts/
RUN scripts/install-deps && scripts/fetch-llhttp /tmp/third_party
COPY . .
RUN cmake -S . -B /tmp/build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTARN_TESTS=OFF \
        -DTARN_LLHTTP_DIR=/tmp/third_party/llhttp \
    && cmake --build /tmp/build --target tarnd tarn-acme tarn-table tarnctl \
    && for program in tarnd tarn-acme tarn-table tarnctl; do \
        strip --strip-debug -o "/usr/local/bin/$program" "/tmp/build/bin/$program"; done

FROM debian:12-slim
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        ca-certificates libbrotli1 libc-ares2 libcrypt1 libcurl4 libhiredis0.14 libisal2 libjansson4 libjemalloc2 libnghttp2-14 libpcre2-8-0 libseccomp2 libssl3 liburcu8 libuv1 libyaml-0-2 libzstd1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --home-dir / --shell /usr/sbin/nologin tarn \
    && install -d -o tarn -g tarn /run/tarn /var/log/tarn
COPY --from=build /usr/local/bin/tarnd /usr/local/bin/tarn-table /usr/local/bin/tarn-acme \
    /usr/local/bin/tarnctl /usr/local/bin/
USER 10001
EXPOSE 8080 443
# A request without Host is one that tarnd answers itself (400), so this asks whether it serves,
# and not whether a backend does.  For another port than 8080: -e TARN_PORT=...
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["bash", "-c", "\
exec 3<>/dev/tcp/127.0.0.1/${TARN_PORT:-8080} \
&& printf 'GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n' >&3 \
&& IFS= read -r -t 2 line <&3 && [[ $line == 'HTTP/1.1 400 '* ]]"]
ENTRYPOINT ["tarnd", "-c", "/etc/tarn/tarn.yaml"]
