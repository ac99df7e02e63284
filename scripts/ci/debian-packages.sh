#!/bin/sh
# What `make test` and `make dist-windows` need on a Debian 12 with nothing installed, except what they install themselves.
set -eu
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    ca-certificates gcc git libc6-dev libpython3-dev make procps python3 python3-pip python3-venv tar unzip zstd
# The checkout belongs to the user of the runner, and git refuses to read it as root otherwise.
git config --global --add safe.directory "$PWD"
