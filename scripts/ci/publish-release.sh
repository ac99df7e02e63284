#!/usr/bin/env bash
# Publishes the files of a directory as a draft release of a tag: scripts/ci/publish-release.sh TAG DIRECTORY
# Needs GH_TOKEN and GITHUB_REPOSITORY. A maintainer reviews the draft and publishes it.
set -euo pipefail
tag=$1 directory=$2
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
# The section of this version in the changelog.
awk -v head="## ${tag#v} " 'index($0, head) == 1 { found = 1; next } /^## / { found = 0 } found' CHANGELOG.md >"$notes"
[ -s "$notes" ] || { echo "CHANGELOG.md has no section for ${tag#v}" >&2; exit 1; }
(cd "$directory" && sha256sum --check --quiet SHA256SUMS)
gh release create "$tag" --repo "$GITHUB_REPOSITORY" --verify-tag --draft --title "$tag" --notes-file "$notes" \
    "$directory"/*
