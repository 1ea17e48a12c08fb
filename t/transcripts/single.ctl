# Single commands of the binary protocol, on the real daemon.
daemon counter.threads=2

== help and version
$ counterctl --version
counterctl {=\d+\.\d+\S*}
$ counterctl help
...
>   connections ...
...
$ for words in --help -h; do counterctl $words | diff - <(counterctl help); done
$ counterctl dump --help | diff - <(counterctl help dump)
$ counterctl help dump
...
> ...--sort=ORDER...
...
$ counterctl help dmup
! counterctl: ...dump...
? 64

== messages go to standard error
each words
    xyzzy
    get
    get --no-such k
    get --any k
    acquire k 0 1
    acquire k 1 x
    acquire k 3 2
    acquire k 1 4294967296
    acquire k -1 2
    acquire k 1 1 --for 1 -- true
$ counterctl {words}
! counterctl: ...
? 64

== what is wrong with numbers
each words | why
    0 1 | ...UNITS...
    1 x | ...MAX...
    3 2 | ...UNITS is 3, more than MAX...
    1 4294967296 | ...4294967295...
    -1 2 | acquire takes no --once
    1 1 --for 1 -- true | ...exclude each other...
$ counterctl acquire k {words}
! counterctl: {why}
? 64

== noop
$ counterctl -s {binary} noop
ok, {=\d.* \S?s}
$ counterctl -s {binary} noop --json
> {"ok":true,"seconds":{=[0-9.e-]+}}

== get
$ counterctl -s {binary} get k
! counterctl: ...Not found...
? 1
$ counterctl -s {binary} get k --json
> {"name":"k","id":"k","exists":false,"in_use":0}
? 1
h$ counterctl -s {binary} batch
h< acquire a\xff\x20b 3 5
h> ok 3
$ counterctl -s {binary} get -e 'a\xff b'
> 3
$ counterctl -s {binary} get -ej 'a\xff\x20b'
> {"name":"a\\xff b","id":"a%FF%20b","exists":true,"in_use":3}

== names are checked
each name | why
    '' | ...empty...
    $(printf %65536s|tr ' ' x) | ...at most 65535...
    'a\q' | ...character 2...
$ counterctl -s {binary} get -e {name}
! counterctl: {why}
? 64
$ counterctl -s {binary} get $(printf %65535s | tr ' ' x)
! counterctl: ...Not found...
? 1

== release of a connection that has nothing
$ counterctl -s {binary} release k 1
! counterctl: ...
? 1
h$ counterctl -s {binary} batch
h< acquire k 3 5
h> ok 3
$ counterctl -s {binary} release k 1
! counterctl: ...Not acquired...
? 1
$ counterctl -s {binary} release k 1 -j
> {"name":"k","id":"k","ok":false,"status":"not_acquired"}
? 1
$ counterctl -s {binary} release k 0
> ok
h< get k
h> ok 3

== acquire holds until its input ends
$ counterctl -s {binary} acquire k 2 5
acquired 2
< what is said does not matter
a$ counterctl -s {binary} get k
a> 2
a? 0
eof
? 0
$ counterctl -s {binary} get k
> 0

== acquire for some time does not look at its input
$ counterctl -s {binary} acquire k 2 5 --for 0.05 --json
> {"name":"k","id":"k","acquired":2}

== acquire ends with a signal
a$ counterctl -s {binary} acquire k 2 5 --for 1000
a> acquired 2
a signal TERM
a? 143
$ counterctl -s {binary} get k
> 0

== acquire what is not available
a$ counterctl -s {binary} acquire k 4 5
a> acquired 4
$ counterctl -s {binary} acquire k 2 5
! counterctl: ...not available...
? 75
$ counterctl -s {binary} acquire k 2 5 -j
> {"name":"k","id":"k","acquired":0,"status":"not_available"}
? 75

== what holds units says that the server has gone
each words
    acquire k 1 1
    batch
a$ counterctl -s {binary} {words}
a< acquire k 1 1
a> {=ok 1|acquired 1}
kill daemon
a! counterctl: ...the server frees what this command held...
a? 79

== dump
h$ counterctl -s {binary} batch
h< acquire plain 51 100
h> ok 51
h< release plain 50
h> ok
h< acquire with\x20blank 2 100
h< acquire new\x0aline 3 100
h< acquire \xff\xfe 4 100
h< acquire grün 5 100
h< acquire back\\slash 6 100
h< acquire \x1b[31m 7 100
h< acquire plain2 8 100
h< acquire \x00 9 100
h> ok 2
h> ...
h> ok 9
$ counterctl -s {binary} dump --sort name
>     IN USE        PEAK  NAME
>          9           9  \x00
>          7           7  \x1b[31m
>          6           6  back\\slash
>          5           5  grün
>          3           3  new\x0aline
>          1          51  plain
>          8           8  plain2
>          2           2  with blank
>          4           4  \xff\xfe
$ counterctl -s {binary} dump | (read head; sort -n)
>          1          51  plain
>          2           2  with blank
>          3           3  new\x0aline
>          4           4  \xff\xfe
>          5           5  grün
>          6           6  back\\slash
>          7           7  \x1b[31m
>          8           8  plain2
>          9           9  \x00
$ counterctl -s {binary} dump --json | sort
> {"name":"\\x00","id":"%00","in_use":9,"peak":9}
> {"name":"\\x1b[31m","id":"%1B%5B31m","in_use":7,"peak":7}
> {"name":"\\xff\\xfe","id":"%FF%FE","in_use":4,"peak":4}
> {"name":"back\\\\slash","id":"back%5Cslash","in_use":6,"peak":6}
> {"name":"grün","id":"gr%C3%BCn","in_use":5,"peak":5}
> {"name":"new\\x0aline","id":"new%0Aline","in_use":3,"peak":3}
> {"name":"plain","id":"plain","in_use":1,"peak":51}
> {"name":"plain2","id":"plain2","in_use":8,"peak":8}
> {"name":"with blank","id":"with%20blank","in_use":2,"peak":2}
$ counterctl -s {binary} dump -S in-use -n 3
>     IN USE        PEAK  NAME
>          9           9  \x00
>          8           8  plain2
>          7           7  \x1b[31m
$ counterctl -s {binary} dump -S peak --min 7
>     IN USE        PEAK  NAME
>          9           9  \x00
>          8           8  plain2
>          7           7  \x1b[31m
$ counterctl -s {binary} dump -S peak -n 2
>     IN USE        PEAK  NAME
>          1          51  plain
>          9           9  \x00
$ counterctl -s {binary} dump -n2 -Sname -p pl
>     IN USE        PEAK  NAME
>          1          51  plain
>          8           8  plain2
$ counterctl -s {binary} dump -p plain | wc -l
> 3
$ counterctl -s {binary} dump -ep '\x1b'
>     IN USE        PEAK  NAME
>          7           7  \x1b[31m
$ counterctl -s {binary} dump --limit 3 | wc -l
> 4
$ counterctl -s {binary} dump -p 'no such name'
$ counterctl -s {binary} dump >/dev/full
! counterctl: ...No space left...
? 74
t$$ counterctl -s {binary} dump --sort name; echo END
t> END
t without of 9 names
t> plain2

== dump says how far it is on a terminal, but not between its rows
h$ counterctl -s {binary} batch
h< acquire k 1 9
h> ok 1
$ script -qec 'counterctl -s {binary} dump --sort name' /dev/null | tr '\r' '\n' | grep -c 'of 1 names'
> {=[1-9]\d*}
$ script -qec 'counterctl -s {binary} dump' /dev/null | tr '\r' '\n' | grep -c names
> 0
? 1

== dump of many names, sorted in part and whole
h$ (seq 0 2999 | awk '{printf "acquire n%0100d %d 5000\n", $1, ($1 * 7919) % 3000 + 1}'; cat) | counterctl -s {binary} batch
until [ $(counterctl -s {binary} dump | wc -l) = 3001 ]
$ for n in 1 2 10 2999 3000 5000; do
        counterctl -s {binary} dump -S in-use -n $n | awk 'NR > 1 {print $1}' | diff -q - <(seq 3000 -1 1 | head -n $n)
    done
$ counterctl -s {binary} dump | head -n1; echo ${PIPESTATUS[0]}
>     IN USE        PEAK  NAME
> 141

== stats of each protocol
$ counterctl -s {binary} stats -j
> {"counter":{...,"command:stats":{=\d+},...,"threads":2,...}}
$ counterctl -s {text} stats --text -j
> {"poolcounter":{...,"processing_workers":0,...}}
$ counterctl -s {text} stats --text
poolcounter
>   NAME ... VALUE
>   uptime {= +}0 days, 0h...
...

== stats of both protocols, and of one that is not served
daemon poolcounter.port=7531 counter.port=11215 poolcounter.listen={net} counter.listen={net}
$ counterctl -s {net} stats -j
> {"counter":{...},"poolcounter":{...}}
$ counterctl -s {net} stats | grep -c VALUE
> 2
$ counterctl -s {net} get k
! counterctl: ...Not found...
? 1
$ counterctl -s {net} run k -- echo ran
ran
$ true
stop daemon
daemon poolcounter.port=7531 poolcounter.listen={net} counter.enable=false
$ counterctl -s {net} stats -j
! counterctl: ...{net}:11215: Connection refused...
> {"poolcounter":{...}}
$ counterctl -s {none} stats
! counterctl: ...
! ...
? 69

== a batch is one connection
$ printf '%s\n' 'acquire a\x20b 3 5' 'get a\x20b' 'acquire a\x20b 3 5' 'release a\x20b 2' 'get a\x20b' '  noop  ' \
        'release a\x20b 9' 'get none' | counterctl -s {binary} batch
ok 3
ok 3
no Resource not available
ok
ok 1
ok
no Not acquired
no Not found
? 1
$ counterctl -s {binary} get 'a b'
> 0

== a batch answers each line at once
$ counterctl -s {binary} batch
< acquire k 1 1
ok 1
<< \n# nothing\nget k\r\n
ok 1
a$ counterctl -s {binary} get k
a> 1
a? 0
<< noop
eof
ok
? 0

== lines of a batch that are wrong
$ printf '%s\n' foo get 'get a b' 'acquire k 0 1' 'acquire k 2 1' 'release k -1' 'get a\q' $'get \e' \
        'get k 1 2 3 4 5 6 7' 'noop' | counterctl -s {binary} batch
error line 1: ...
error line 2: ...
error line 3: ...
error line 4: ...
error line 5: ...
error line 6: ...
error line 7: ...
no Not found
error line 9: ...
ok
? 64

== lines that are too long are passed over
$ (printf 'get %1000000s\n' | tr ' ' x; printf 'get '; printf '\\x61%.0s' $(seq 65535); echo
        printf 'get '; printf %65536s | tr ' ' x; echo; echo noop) | counterctl -s {binary} batch
error line 1: it is longer...
no Not found
error line 3: ...
ok
? 64

== a batch in json
$ printf 'acquire k 2 3\nget nix\nstats\nbad\n' | counterctl -s {binary} batch --json
> {"ok":true,"command":"acquire","status":"success","name":"k","id":"k","units":2}
> {"ok":false,"command":"get","status":"not_found",...}
> {"ok":true,"command":"stats",..."held_units":"2"...}
> {"ok":false,"status":"error","line":4,...}
? 64
