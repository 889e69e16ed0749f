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

# build PRESET TARGET [CMAKE-OPTION...] -- configures the preset's folder (CMakePresets.json) once, again
# when the options differ, and builds there.  The folder is build for release, else build-PRESET.
build() {
    build_preset=$1
    build_target=$2
    build_dir=$root/build-$build_preset
    [ "$build_preset" != release ] || build_dir=$root/build
    shift 2
    # The unit tests need cmocka.  scripts/run installs no tests' packages.
    if pkg-config --exists cmocka 2>/dev/null; then
        set -- "$@" -DTARN_TESTS=ON
    else
        set -- "$@" -DTARN_TESTS=OFF
    fi
    if [ "$build_preset" != dev ]; then
        set -- "$@" "-DTARN_WERROR=${TARN_WERROR:-OFF}"
    fi
    # Without base_dir, as ccache is configured by default: __FILE__ stays the full path, which tests read.
    if have ccache; then
        set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache
    else
        set -- "$@" -UCMAKE_C_COMPILER_LAUNCHER
    fi
    build_want="$root $* ${CC:-} $(cksum <"$root/CMakePresets.json")"
    if [ ! -f "$build_dir/CMakeCache.txt" ] ||
        [ "$(cat "$build_dir/.tarn-options" 2>/dev/null)" != "$build_want" ]; then
        say "configuring ${build_dir#"$root"/}"
        mkdir -p "$build_dir"
        rm -f "$build_dir/.tarn-options"
        # A preset is searched for in the current folder.
        (cd "$root" && quietly "$build_dir/configure.log" cmake --preset "$build_preset" "$@") ||
            die "cmake could not configure $build_dir"
        printf '%s\n' "$build_want" >"$build_dir/.tarn-options"
    fi
    say "building ${build_dir#"$root"/}"
    cmake --build "$build_dir" --target "$build_target" -j "$(jobs)" >&2 </dev/null ||
        die "$build_dir does not build"
}
