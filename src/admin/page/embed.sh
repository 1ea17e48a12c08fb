#!/bin/sh
# Makes one C file from the given files; it defines what admin/page/files.h declares. index.html is
# served as "/", each other file under its own name. An ETag is the content's POSIX checksum and length.
#
#   embed.sh FILE... > files.c
set -eu

type_of() {
    case $1 in
    *.html) echo 'text/html; charset=utf-8' ;;
    *.css) echo 'text/css; charset=utf-8' ;;
    *.js) echo 'text/javascript; charset=utf-8' ;;
    *.svg) echo 'image/svg+xml' ;;
    *)
        echo "embed.sh: $1: no media type is known for this ending" >&2
        exit 1
        ;;
    esac
}

path_of() {
    case $1 in
    */index.html | index.html) echo / ;;
    *) echo "/${1##*/}" ;;
    esac
}

[ $# -gt 0 ] || { echo 'usage: embed.sh FILE... > files.c' >&2; exit 2; }

echo '/* Made by embed.sh; do not edit. */'
echo '#include "admin/page/files.h"'
i=0
for file; do
    [ -s "$file" ] || { echo "embed.sh: $file: is not there or is empty" >&2; exit 1; }
    printf '\n/* %s */\nstatic const uint8_t file_%d[] = {\n' "${file##*/}" $i
    od -A n -v -t u1 "$file" | awk '{ gsub(/ +/, ","); print "   " substr($0, 2) "," }'
    echo '};'
    i=$((i + 1))
done

printf '\nconst struct page_file page_files[] = {\n'
i=0
for file; do
    type=$(type_of "$file") || exit 1
    sum=$(cksum <"$file") || exit 1
    printf '    {"%s", "%s", file_%d, sizeof(file_%d), "\\"%s\\""},\n' \
        "$(path_of "$file")" "$type" $i $i "$(echo "$sum" | tr ' ' '-')"
    i=$((i + 1))
done
echo '};'
echo "const size_t page_file_count = $i;"
