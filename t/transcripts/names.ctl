# Names of peers that are escape sequences and direction marks control no terminal.

== names of peers are shown harmlessly
daemon counter.threads=1 admin.token=secret
c@ {text}
c<< ACQ4ME \x1b[2J\x1b]0;owned\x07\xc2\x9b31m\x9b\x08\x7f\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\xef\xbb\xbf\xff\xc0\xaf 1 5 0\n
c> LOCKED
$ for words in contended 'contended --json' 'top --once' ; do
        counterctl --admin {admin} $words || echo "$words: $?"
    done >out
    for words in dump 'dump --json' stats 'stats --json'; do
        counterctl -s {binary} $words || echo "$words: $?"
    done >>out
    python3 -c 'import re, sys; said = sys.stdin.buffer.read().decode()
    print(re.findall("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", said), "owned" in said)' <out
[] True
