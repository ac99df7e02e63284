#!/usr/bin/env bash
# Installs what tests/wine needs on Linux: Wine (64 bit), mingw and osslsigncode; and creates the template of Wine
# prefixes, once.
# Usage: scripts/wine-setup.sh [DIRECTORY]     copies the template to DIRECTORY. Idempotent.
set -euo pipefail
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
mkdir -p "$cache"

installed() {
    command -v wine && command -v wineserver && command -v x86_64-w64-mingw32-gcc && command -v osslsigncode
} >/dev/null
(
    flock 9
    installed && exit
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "wine, mingw or osslsigncode is missing: install wine, wine64, gcc-mingw-w64-x86-64 and osslsigncode" >&2
        exit 1
    fi
    echo "installing wine, mingw and osslsigncode by apt" >&2
    log=$(mktemp)
    { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends \
        wine wine64 gcc-mingw-w64-x86-64 osslsigncode; } >"$log" 2>&1 </dev/null || { tail -20 "$log" >&2; rm "$log"; exit 1; }
    rm "$log"
) 9>"$cache/.wine.lock"
installed || { echo "wine, mingw and osslsigncode were installed, but are not on the PATH" >&2; exit 1; }

template=$cache/wine-prefix-$(wine --version 2>/dev/null </dev/null | cut -d' ' -f1)
create_template() {
    export WINEPREFIX=$template.partial WINEDEBUG=-all WINEARCH=win64
    # No menus, no Mono, no Gecko: these prompt the user or download files.
    export WINEDLLOVERRIDES="winemenubuilder.exe=;mscoree=;mshtml="
    rm -rf "$WINEPREFIX"
    local without_aslr= # scripts/wine_prefix.py gives the reason
    ! setarch -R true || without_aslr="setarch -R"
    timeout 300 $without_aslr wineboot -i &&
        timeout 60 $without_aslr wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f &&
        { timeout 60 wineserver -w || { timeout 10 wineserver -k; timeout 60 wineserver -w; }; } &&
        mv "$WINEPREFIX" "$template"
}
(
    flock 9
    [ -d "$template" ] && exit
    echo "creating a Wine prefix (once; kept in $cache)" >&2
    # Wine's services keep the streams they inherit: give them null streams, and not the descriptor of the lock.
    create_template </dev/null >/dev/null 2>&1 9>&- ||
        { echo "Wine cannot create a prefix: try wineboot -i" >&2; exit 1; }
) 9>"$cache/.wine.lock"
if [ $# -gt 0 ]; then
    # Hard links for Wine's own DLLs, nearly all of the 700 MB, which are never written to. Copies of the registry and
    # of the users' folders, which are. If the cache is on another file system, copies of all.
    cp -al "$template" "$1" 2>/dev/null || { rm -rf "$1"; cp -a "$template" "$1"; }
    rm -rf "$1"/*.reg "$1/drive_c/users"
    cp -a "$template"/*.reg "$1/"
    cp -a "$template/drive_c/users" "$1/drive_c/"
fi
