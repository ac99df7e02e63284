#!/usr/bin/env bash
# What the Windows level needs on Linux: Wine (64 bit), mingw, and a prefix made once that tests copy.
# Idempotent.   scripts/wine-setup.sh [DIRECTORY]     DIRECTORY becomes a prefix of the caller's own
set -euo pipefail
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
mkdir -p "$cache"

there() { command -v wine && command -v wineserver && command -v x86_64-w64-mingw32-gcc; } >/dev/null
(
    flock 9
    there && exit
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "wine and mingw are missing: install wine, wine64 and gcc-mingw-w64-x86-64" >&2
        exit 1
    fi
    echo "installing wine and mingw by apt" >&2
    log=$(mktemp)
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        wine wine64 gcc-mingw-w64-x86-64; } >"$log" 2>&1 </dev/null || { tail -20 "$log" >&2; rm "$log"; exit 1; }
    rm "$log"
) 9>"$cache/.wine.lock"
there || { echo "wine and mingw were installed, and yet they are not there" >&2; exit 1; }

template=$cache/wine-prefix-$(wine --version 2>/dev/null </dev/null | cut -d' ' -f1)
make_template() {
    export WINEPREFIX=$template.partial WINEDEBUG=-all WINEARCH=win64
    # No menus, no Mono, no Gecko: nothing that would ask or download.
    export WINEDLLOVERRIDES="winemenubuilder.exe=;mscoree=;mshtml="
    rm -rf "$WINEPREFIX"
    local as_ever= # addresses not randomised: scripts/wine_prefix.py says why
    ! setarch -R true || as_ever="setarch -R"
    timeout 300 $as_ever wineboot -i &&
        timeout 60 $as_ever wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f &&
        { timeout 60 wineserver -w || { timeout 10 wineserver -k; timeout 60 wineserver -w; }; } &&
        mv "$WINEPREFIX" "$template"
}
(
    flock 9
    [ -d "$template" ] && exit
    echo "making a Wine prefix (once; kept in $cache)" >&2
    # Everything has a bound, and streams that Wine's services may keep; the lock is not for them.
    make_template </dev/null >/dev/null 2>&1 9>&- || { echo "Wine cannot make a prefix: try wineboot -i" >&2; exit 1; }
) 9>"$cache/.wine.lock"
if [ $# -gt 0 ]; then
    # Wine's own DLLs, nearly all of the 700 MB, are never written to: links will do. The registry and the users' folders are.
    cp -al "$template" "$1" 2>/dev/null || { rm -rf "$1"; cp -a "$template" "$1"; } # the cache may be on another disk
    rm -rf "$1"/*.reg "$1/drive_c/users"
    cp -a "$template"/*.reg "$1/"
    cp -a "$template/drive_c/users" "$1/drive_c/"
fi
