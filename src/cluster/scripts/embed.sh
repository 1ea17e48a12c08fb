#!/bin/sh
# Makes one C file from the given scripts; it defines what cluster/scripts.h declares.
#
#   embed.sh AWK FOLDER/NAME.lua... > scripts.c
set -eu

[ $# -gt 1 ] || { echo 'usage: embed.sh AWK FOLDER/NAME.lua... > scripts.c' >&2; exit 2; }
awk=$1
shift

echo '/* Made by embed.sh; do not edit. */'
echo '#include "cluster/scripts.h"'
for file; do
    name=$(basename "$file" .lua)
    text=$("$awk" -f "${file%/*}/assemble.awk" "$file") || exit 1
    printf '\nstatic const char text_%s[] =\n' "$name"
    printf '%s\n' "$text" | "$awk" '{ gsub(/[\\"]/, "\\\\&"); print "    \"" $0 "\\n\"" }'
    echo '    "";'
done

printf '\nconst struct cluster_script_text cluster_scripts[CLUSTER_SCRIPT_COUNT] = {\n'
for file; do
    name=$(basename "$file" .lua)
    printf '    [CLUSTER_SCRIPT_%s] = {"%s", text_%s, sizeof(text_%s) - 1},\n' \
        "$(printf %s "$name" | tr '[:lower:]' '[:upper:]')" "$name" "$name" "$name"
done
echo '};'
