# lib.sh -- what the scripts here share.  To be sourced (POSIX sh) with `root` set.
# Everything said goes to stderr: stdout belongs to what the script is for.
# shellcheck shell=sh

# Tools such as nginx live in sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin
export PATH

say() {
    printf '%s\n' "$*" >&2
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# quietly LOG COMMAND... -- the command's output is shown only if it fails.
quietly() {
    quietly_log=$1
    shift
    if "$@" >"$quietly_log" 2>&1 </dev/null; then
        return 0
    fi
    cat "$quietly_log" >&2
    return 1
}

# How many compilers at once: the CPUs this process may use, and 768 MiB each.
jobs() {
    jobs_cpus=$(nproc 2>/dev/null || echo 1)
    jobs_ram=$(awk '/^MemAvailable:/ { print int($2 / 786432) }' /proc/meminfo 2>/dev/null || echo 1)
    if [ "${jobs_ram:-1}" -lt 1 ]; then
        jobs_ram=1
    fi
    if [ "$jobs_cpus" -lt "${jobs_ram:-1}" ]; then
        echo "$jobs_cpus"
    else
        echo "${jobs_ram:-1}"
    fi
}

# build DIR TARGET CMAKE-OPTION... -- configures once (again when the options differ) and builds.
build() {
    build_dir=$1
    build_target=$2
    shift 2
    # The unit tests need cmocka; who only runs tarnd need not have it.
    set -- "-DTARN_WERROR=${TARN_WERROR:-OFF}" "$@"
    if pkg-config --exists cmocka 2>/dev/null; then
        set -- "$@" -DTARN_TESTS=ON
    else
        set -- "$@" -DTARN_TESTS=OFF
    fi
    if have ccache; then
        set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache
    fi
    build_want="$root $* ${CC:-}"
    if [ ! -f "$build_dir/CMakeCache.txt" ] ||
        [ "$(cat "$build_dir/.tarn-options" 2>/dev/null)" != "$build_want" ]; then
        if [ ! -f "$build_dir/CMakeCache.txt" ] && have ninja; then
            set -- "$@" -GNinja
        fi
        say "configuring ${build_dir#"$root"/}"
        mkdir -p "$build_dir"
        rm -f "$build_dir/.tarn-options"
        quietly "$build_dir/configure.log" cmake -S "$root" -B "$build_dir" "$@" ||
            die "cmake could not configure $build_dir"
        printf '%s\n' "$build_want" >"$build_dir/.tarn-options"
    fi
    say "building ${build_dir#"$root"/}"
    cmake --build "$build_dir" --target "$build_target" -j "$(jobs)" >&2 </dev/null ||
        die "$build_dir does not build"
}
