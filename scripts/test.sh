#!/usr/bin/env bash
# The whole test suite, on a machine with nothing installed. Installs what it can, runs every level it can, and lists
# each level that was skipped with the reason. With CI=true a skipped level is a failure.
#
#   scripts/test.sh [--levels lint,unit,emulated,containerd,cri,wine] [pytest arguments]
set -uo pipefail
cd "$(dirname "$0")/.."

levels=lint,unit,emulated,containerd,cri,wine
if [ "${1:-}" = --levels ]; then levels=$2; shift 2; fi
jobs=${TEST_JOBS:-6} # on two cores: some tests wait for timeouts
skipped=()
# Up to this many failed tests are retried once, alone, and listed as flaky at the end if they pass then.
MAX_RETRIES=2
flaky=()

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
skip_level() { wanted "$1" || return 0; skipped+=("$1: $2"); levels=$(tr , '\n' <<<"$levels" | grep -vx "$1" | paste -sd,); }
wanted() { tr , '\n' <<<"$levels" | grep -qx "$1"; }

debian_root() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; }
install() { # install PROGRAM PACKAGE…: with apt if possible; fails if the program is still missing
    local program=$1; shift
    command -v "$program" >/dev/null && return 0 # also for the path of a program that is not in PATH
    debian_root || return 1
    say "installing $* by apt"
    # A machine that has just started may upgrade itself, and has apt's lock meanwhile.
    apt-get update -qq >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq "$@" >/dev/null 2>&1
    command -v "$program" >/dev/null
}

say "setting up .venv"
make --no-print-directory setup || exit 1

install cc gcc libc6-dev || for level in emulated containerd cri wine; do
    skip_level "$level" "no C compiler: install gcc and libc6-dev"
done
if wanted unit && ! install chromium chromium && ! command -v chromium-browser google-chrome >/dev/null; then
    skipped+=("unit, in part: no browser to render the benchmark's report: apt-get install chromium")
fi
if wanted unit && ! { command -v go >/dev/null && scripts/deploy-programs.sh >/dev/null; }; then
    skipped+=("unit, in part: no helm and kustomize to render deploy/: Go and its module proxy are needed")
fi
if wanted unit && ! install mandoc mandoc && ! command -v groff >/dev/null; then
    skipped+=("unit, in part: no program to check the man pages: apt-get install mandoc")
fi
if [ "$(id -u)" != 0 ]; then
    skip_level emulated "containers need namespaces and mounts: run as root"
    skip_level containerd "containerd needs root"
    skip_level cri "containerd needs root"
    skip_level wine "the emulator mounts layers for programs under Wine, too: run as root"
elif ! unshare -pmui true 2>/dev/null; then
    for level in emulated containerd cri wine; do skip_level "$level" "this machine does not allow namespaces (unshare -pmui)"; done
fi
if wanted emulated || wanted containerd || wanted cri || wanted wine; then
    # Linux VMs, and the images that run in them.
    if ! { install runc runc && install mkfs.ext4 e2fsprogs && install ip iproute2 && install busybox busybox-static; }; then
        for level in emulated containerd cri wine; do
            skip_level "$level" "Linux VMs need programs: apt-get install runc e2fsprogs iproute2 busybox-static"
        done
    elif ! command -v go >/dev/null; then
        skipped+=("emulated, in part: Go is needed to build Microsoft's guest agent from its module")
    elif ! .venv/bin/python -m hcs_emulator.vm.linux.gcs.build >/dev/null; then
        for level in emulated containerd cri wine; do
            skip_level "$level" "building Microsoft's guest agent by the Go module proxy failed"
        done
    fi
fi
if wanted emulated || wanted containerd || wanted cri || wanted wine; then make --no-print-directory native || exit 1; fi
if wanted containerd; then
    if ! install containerd containerd runc || ! command -v ctr >/dev/null; then
        skip_level containerd "containerd and ctr are not installed: apt-get install containerd runc"
    elif ! install /usr/lib/cni/bridge containernetworking-plugins; then
        skip_level containerd "pods need CNI's plugins: apt-get install containernetworking-plugins"
    elif ! command -v go >/dev/null; then
        skip_level containerd "Go is needed to build containerd 1.7 and 2.x from their modules"
    else
        say "containerd 1.7 and 2.x (built once, then cached)"
        scripts/go-programs.sh || skip_level containerd "building containerd by the Go module proxy failed"
    fi
fi
if wanted cri; then
    if ! { install /usr/lib/cni/portmap containernetworking-plugins && install iptables iptables && install pgrep procps; }; then
        skip_level cri "critest needs programs: apt-get install containernetworking-plugins iptables procps"
    elif ! command -v go >/dev/null; then
        skip_level cri "Go is needed to build critest and containerd 2.x from their modules"
    else
        say "critest (built once, then cached)"
        scripts/go-programs.sh v2.3.4 critest || skip_level cri "building critest by the Go module proxy failed"
    fi
fi

if wanted wine; then
    say "Wine, mingw, containerd.exe 1.7 and 2.x (built once, then cached), the zip for Windows"
    if ! scripts/wine-setup.sh; then
        skip_level wine "Wine is not installed: apt-get install wine wine64 gcc-mingw-w64-x86-64 osslsigncode"
    elif ! command -v go >/dev/null; then
        skip_level wine "Go is needed to build containerd.exe and ctr.exe from their modules"
    elif ! GOOS=windows scripts/go-programs.sh; then
        skip_level wine "building containerd.exe by the Go module proxy failed"
    else
        make --no-print-directory dist-windows || exit 1
    fi
fi

run() { # run NAME PYTEST…: some levels; NAME gives them a pytest cache of their own
    local name=$1 command=("${@:2}") code failed
    say "running $name"
    "${command[@]}" "${parallel[@]}" --durations=15 --durations-min=5 -o cache_dir=".pytest_cache/$name" && return 0 || code=$?
    mapfile -t failed < <(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
        ".pytest_cache/$name/v/cache/lastfailed" 2>/dev/null)
    [ "$code" = 1 ] && [ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le "$MAX_RETRIES" ] || return "$code"
    say "retrying alone: ${failed[*]}"
    "${command[@]}" --last-failed -o cache_dir=".pytest_cache/$name" || return "$code"
    flaky+=("${failed[@]}")
}

status=0
if wanted lint; then
    say "running lint"
    make --no-print-directory lint || status=$?
fi
# All levels but Wine in one run, slow tests first: critest waits most of the time, and at the end no worker is idle
# while another has a long test. Two of the seven runs of critest: `make test-cri` has the rest, with Microsoft's guest,
# the other sandboxer, and pods that share a shim.
paths=()
if wanted cri; then
    specs=tests/cri/test_critest.py::test_specs_pass_but_for_the_listed_exceptions
    paths+=("${specs}[runc]" "${specs}[runhcs-lcow-emulated-podsandbox]" tests/cri/test_expectations.py)
fi
for level in containerd emulated unit; do wanted "$level" && paths+=("tests/$level"); done
if [ ${#paths[@]} -gt 0 ]; then
    parallel=(-n "$jobs" --dist loadscope) # by test: tests/conftest.py
    run linux .venv/bin/pytest "${paths[@]}" "$@" || status=$?
fi
if wanted wine; then
    # After the other levels: each worker has its own Wine prefix, and other load would slow Wine down. In the order of
    # tests/wine/conftest.py, not of the number of tests.
    parallel=(-n "${WINE_JOBS:-4}" --dist loadfile --no-loadscope-reorder)
    run wine timeout --foreground -k 60 1800 .venv/bin/pytest tests/wine "$@" || status=$?
fi

say "levels run: ${levels:-none}"
for test in "${flaky[@]}"; do echo "flaky, passed on retry: $test"; done
for reason in "${skipped[@]}"; do echo "skipped: $reason"; done
if [ ${#skipped[@]} -gt 0 ] && [ "${CI:-}" = true ]; then
    echo "CI requires every level: failing because some were skipped" >&2
    exit 1
fi
exit "$status"
