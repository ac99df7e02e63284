#!/usr/bin/env bash
# The whole test suite, on a machine that may have nothing yet. Sets up what it can, runs every level it can, and says
# plainly which level was left out and why. With CI=true a level left out is a failure.
#
#   scripts/test.sh [--levels unit,emulated,…] [pytest arguments]
set -uo pipefail
cd "$(dirname "$0")/.."

levels=unit,emulated,containerd,wine
if [ "${1:-}" = --levels ]; then levels=$2; shift 2; fi
jobs=${TEST_JOBS:-4}
left_out=()
# So many failed tests of a level are tried once more, and named at the end if they pass then (docs/explanation/decisions).
UNSTEADY=2
unsteady=()

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
leave_out() { wanted "$1" || return 0; left_out+=("$1: $2"); levels=$(tr , '\n' <<<"$levels" | grep -vx "$1" | paste -sd,); }
wanted() { tr , '\n' <<<"$levels" | grep -qx "$1"; }

debian_root() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; }
install() { # install PROGRAM PACKAGE…: by apt where we may, otherwise report that it is missing
    local program=$1; shift
    command -v "$program" >/dev/null && return 0
    debian_root || return 1
    say "installing $* by apt"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } >/dev/null 2>&1
    command -v "$program" >/dev/null
}

say "setting up .venv"
make --no-print-directory setup || exit 1

install cc gcc libc6-dev || for level in emulated containerd wine; do
    leave_out "$level" "no C compiler: install gcc and libc6-dev"
done
if wanted unit && ! install chromium chromium && ! command -v chromium-browser google-chrome >/dev/null; then
    left_out+=("unit, in part: no browser to lay the benchmark's report out: apt-get install chromium")
fi
if [ "$(id -u)" != 0 ]; then
    leave_out emulated "containers need namespaces and mounts: run as root"
    leave_out containerd "containerd needs root"
    leave_out wine "the emulator mounts layers for programs under Wine, too: run as root"
elif ! unshare -pmui true 2>/dev/null; then
    for level in emulated containerd wine; do leave_out "$level" "this machine does not allow namespaces (unshare -pmui)"; done
fi
if wanted emulated || wanted containerd || wanted wine; then make --no-print-directory native || exit 1; fi
if wanted containerd; then
    if ! install containerd containerd runc || ! command -v ctr >/dev/null; then
        leave_out containerd "containerd and ctr are not installed: apt-get install containerd runc"
    elif ! command -v go >/dev/null; then
        leave_out containerd "Go is needed to build containerd 1.7 and 2.x from their modules"
    else
        say "containerd 1.7 and 2.x (built once, then cached)"
        scripts/go-programs.sh || leave_out containerd "building containerd by the Go module proxy failed"
    fi
fi

if wanted wine; then
    say "Wine, mingw, containerd.exe 1.7 and 2.x (built once, then cached), the zip for Windows"
    if ! scripts/wine-setup.sh; then
        leave_out wine "Wine is not installed: apt-get install wine wine64 gcc-mingw-w64-x86-64"
    elif ! command -v go >/dev/null; then
        leave_out wine "Go is needed to build containerd.exe and ctr.exe from their modules"
    elif ! GOOS=windows scripts/go-programs.sh; then
        leave_out wine "building containerd.exe by the Go module proxy failed"
    else
        make --no-print-directory dist-windows || exit 1
    fi
fi

run() { # run NAME PYTEST…: some levels; NAME keeps their memory of what failed apart
    local name=$1 command=("${@:2}") code failed
    say "running $name"
    "${command[@]}" "${parallel[@]}" -o cache_dir=".pytest_cache/$name" && return 0 || code=$?
    mapfile -t failed < <(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
        ".pytest_cache/$name/v/cache/lastfailed" 2>/dev/null)
    [ "$code" = 1 ] && [ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le "$UNSTEADY" ] || return "$code"
    say "once more, alone: ${failed[*]}"
    "${command[@]}" --last-failed -o cache_dir=".pytest_cache/$name" || return "$code"
    unsteady+=("${failed[@]}")
}

status=0
directories=()
for level in ${levels//,/ }; do [ "$level" = wine ] || directories+=("tests/$level"); done
if [ ${#directories[@]} -gt 0 ]; then
    parallel=(-n "$jobs" --dist loadgroup)
    run "$(IFS=+; echo "${directories[*]#tests/}")" .venv/bin/pytest "${directories[@]}" "$@" || status=$?
fi
if wanted wine; then
    # On its own: a Windows machine for each worker, and nothing beside them that would slow Wine down.
    parallel=(-n "${WINE_JOBS:-2}" --dist loadfile)
    run wine timeout --foreground -k 60 1800 .venv/bin/pytest tests/wine "$@" || status=$?
fi

say "levels run: ${levels:-none}"
for test in "${unsteady[@]}"; do echo "unsteady, failed once and passed then: $test"; done
for reason in "${left_out[@]}"; do echo "left out: $reason"; done
if [ ${#left_out[@]} -gt 0 ] && [ "${CI:-}" = true ]; then
    echo "CI runs every level: failing because some were left out" >&2
    exit 1
fi
exit "$status"
