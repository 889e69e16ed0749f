#!/bin/sh
# engine.sh [OPTION...] -- a Valkey or Redis server for the fleet `shop`: its one user has the rights of a node, and no others.
#
# The password comes from a file, by standard input: it is neither in the command line nor in the environment.
set -eu

server=$(command -v valkey-server || command -v redis-server)
password=$(cat "${TARN_PASSWORD_FILE:-/run/secrets/tarn/engine-password}")
exec "$server" - --appendonly yes --appendfsync everysec --save "" --maxmemory-policy noeviction \
    --dir "${TARN_DATA:-/data}" "$@" <<END
user default off
user tarn on ">$password" resetkeys ~tarn:{shop}:* resetchannels -@all +select +client|setname +info +time +set +get +del +mget +hset +hget +hgetall +hdel +zadd +zrem +zrange +zscore +zremrangebyscore +xadd +xread +xrange +xrevrange +xtrim +multi +exec +watch +unwatch
END
