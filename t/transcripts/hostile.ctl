# Servers that lie: silent ones, lengths and lists without end, pages that do not advance, answers that nobody asked
# for. Each command ends in its time, with a message and little memory.
let ctl = {bounded} COUNTER_SERVER={play} COUNTER_ADMIN={play} counterctl
let line = {"tube":"t","body":"x"}

== a silent server is not waited for
$ export COUNTER_SERVER={silent} COUNTER_ADMIN={silent}
    while read -r words; do
        echo '{line}' | eval "counterctl --io-timeout 0.05 $words" >out 2>err
        [[ $? = 69 && ! -s out && $(<err) = *'no answer in time'* ]] || echo "$words: $(cat out err)"
    done <<'END'
    get n
    release n 1
    acquire n 1 1 -- true
    dump
    dump --sort peak --limit 3
    stats
    stats --text
    noop
    batch <<<noop
    run -t 0 k -- true
    run -t 0 --pool p -- true
    pool list
    pool show p
    pool add p
    pool set p max=1
    pool drop p
    pool watch p
    pool member drop p m
    clean --once p -- true
    put t
    work --once t -- true
    contended
    holders n
    cluster
    cluster check
    cluster n
    connections
    kill 0.1.1
    config
    reload
    upgrade
    loglevel
    top --once
    jobs tubes
    jobs list t
    jobs peek 1
    jobs kick t 1
    jobs clear t all
    jobs export t
    jobs import
    jobs backup b
    jobs drain
    jobs drain --off
    END

== a server that falls silent is not waited for
each words
    jobs tubes
    jobs list t
    jobs peek 1
    jobs kick t 1
    jobs clear t all
    jobs export t
    jobs import
    put t
    work --once t -- true
$ echo '{line}' >in; {ctl} --io-timeout 0.05 {words} <in
j> tube default
j< OK 2
j< {}
! counterctl: ...no answer in time...
? 69

== a TLS server that does not shake hands is not waited for
each words
    noop
    run k -- true
    pool list
    jobs
$ counterctl -s {silent} --tls --connect-timeout 3 {words}
! counterctl: ...handshake took too long...
? 69

== lengths that no server sends are refused
each words | answer
    jobs peek 1 | FOUND 1 4294967295
    jobs tubes | OK 4294967295
    jobs clear t all | OK 4294967295
    work t -- true | CLAIMED 1\r\nRESERVED 1 4294967295 1 t 1
$ {ctl} {words}
j> tube default
j< OK 2
j< {}
j> ...
j<< {answer}\r\n
! counterctl: ...more bytes than any server's...
? 76

== lists that do not advance are refused
each page | stats
    LISTED 0 5\r\n |
    LISTED 1 7\r\nFOUND 7 1 ready 0\r\nx\r\n | OK 2\r\n{}\r\n
$ {ctl} jobs list t
j> tube default
j<< OK 2\r\n{}\r\n
j> list-jobs t all 0 100
j<< {page}
j> list-jobs t all {=[57]} 100
j<< {page}
...
! counterctl: ... answers: ...
? 76
$ {ctl} jobs export t
j2> tube default
j2<< OK 2\r\n{}\r\n
j2> list-jobs t all 0 100
j2<< {page}
j2> {=(stats-job 7|list-jobs t all 5 100)}
j2<< {stats}{page}
...
! counterctl: ... answers: ...
? 76

== pages that are wrong are refused
each verb
    list
    export
each page
    LISTED 1 6\r\nFOUND 7 1 ready 0\r\nx\r\n
    LISTED 2 3\r\nFOUND 4 1 ready 0\r\nx\r\nFOUND 3 1 ready 0\r\nx\r\n
    LISTED 4294967295 0\r\n
    LISTED 1 0\r\nLISTED 1 0\r\n
$ {ctl} jobs {verb} t
j> tube default
j<< OK 2\r\n{}\r\n
j> list-jobs t all 0 100
j<< {page}
...
! counterctl: ... answers: ...
? 76

== jobs of a page may go before their bodies are read
$ {ctl} jobs list t
j> tube default
j<< OK 2\r\n{}\r\n
j> list-jobs t all ...
j<< LISTED 1 9\r\nFOUND 7 1 ready 0\r\nx\r\n
j> list-jobs t all ...
j<< LISTED 0 12\r\n
j> list-jobs t all ...
j<< LISTED 1 0\r\nFOUND 13 1 ready 0\r\nx\r\n
...
>  7  ...
> 13  ...

== numbers may have 64 bits
let ID = 18446744073709551615
$ {ctl} jobs list t
j> tube default
j<< OK 2\r\n{}\r\n
j> list-jobs t all ...
j<< LISTED 1 0\r\nFOUND {ID} 1 ready 0\r\nx\r\n
> ...ID ...
> {ID} ...
$ {ctl} pool watch db
s> WATCH db
s< OK
s< EVENT db db_1 free taken take fence={ID}
s< EVENT db - - - drop
> db/db_1 take: free -> taken fence={ID}
> db drop

== a page has as many bytes as a server may have unsent
$ {ctl} jobs export t >/dev/null
j> tube default
j<< OK 2\r\n{}\r\n
j> list-jobs t all ...
j<< LISTED 100 0\r\n
j<= b"".join(b"FOUND %d %d ready 0\r\n" % (i, 32 << 20) + bytes(32 << 20) + b"\r\n" for i in (1, 2, 3))
! counterctl: ...FOUND 3...
? 76

== work says what is wrong with a claim
each answer
    CLAIMED 0
    CLAIMED 2
    CLAIMED 1\r\nCLAIMED 0
$ {ctl} work t -- true
j> tube default
j<< OK 2\r\n{}\r\n
j> claim ...
j<< {answer}\r\n
! counterctl: ...answers: CLAIMED...
? 76

== an answer of parts without end is refused
$ {ctl} work t -- true
j> tube default
j< OK 2
j< {}
j> claim ...
j<* CLAIMED 1\r\nRESERVED 1 1 1 t 1\r\nx\r\n
! counterctl: ...
? 76

== import ends with the first refusal
$ yes '{"tube":"t","state":"buried","body":"x"}' | head -n2 >in; {ctl} jobs import <in
j> tube default
j< UNKNOWN_COMMAND
j> use t
j< USING t
j> put ...
j> x
j< INSERTED 1
j> use t
j< USING t
j> put ...
j> x
j< INSERTED 2
j> reserve-job 1
j> bury 1 ...
j<< UNKNOWN_COMMAND\r\nNOT_FOUND\r\n
! counterctl: jobs import: standard input, line 1 (the {=\d} before it are stored)...
? 1

== a line without end is refused
each words
    run k -- true
    pool list
    stats --text
    jobs
    noop
$ {ctl} {words}
s accept
s<* xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
! counterctl: ...is this the right port...
? 76

== an answer of HTTP without end is refused
each head | piece
    Content-Type: application/json\r\n\r\n | [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
    Content-Length: 9223372036854775807\r\n\r\n | [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
    Transfer-Encoding: chunked\r\n\r\n | 40\r\n[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\r\n
    Content-Type: application/json\r\n | X-More: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n
$ {ctl} config
j> GET ...
j<< HTTP/1.1 200 OK\r\n{head}
j<* {piece}
! counterctl: ...its answer is longer...
? 69

== pages of connections must advance
route /api/v1/connections {"connections":[],"cursor":"0.1"}
$ counterctl --admin {mock} connections
...
asked GET ...
asked none
route /api/v1/connections = {"connections": [{}], "cursor": "0.%d" % n}
$ counterctl --admin {mock} connections -j | wc -l
! counterctl: ...does not end...
> 2000
