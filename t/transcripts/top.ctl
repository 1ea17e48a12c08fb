# top, on a terminal and as text.
let stats = {"version":"9.8.7","now":1790000000.25,"started":1789990000,"uptime_seconds":10000.25,"threads":2,"memory":{"used_bytes":12582912,"limit_bytes":1073741824,"resident_bytes":20000000},"names":1234,"units":2500,"holdings":4,"waiting":17,"protocols":[{"name":"poolcounter","enabled":true,"connections":{"open":40,"made":10}},{"name":"counter","enabled":true,"connections":{"open":2,"made":3}}],"workers":[{"worker":0,"connections":5,"busy_seconds":1.0,"cpu_seconds":1.2}],"recent":{"window_seconds":60,"requests_per_second":12345.6,"granted_per_second":6000.0,"refused_per_second":0.0,"timed_out_per_second":0.25,"waits":{"count":10,"sum_seconds":0.1,"p50_seconds":0.0123,"p90_seconds":0.7,"p99_seconds":1.5,"max_seconds":1.5},"holds":{"count":20,"sum_seconds":5,"p50_seconds":0.25,"p90_seconds":6,"p99_seconds":12.0,"max_seconds":12},"answers":{"count":0,"sum_seconds":0,"p50_seconds":0,"p90_seconds":0,"p99_seconds":0,"max_seconds":0}}}
let enwiki = {"name":"enwiki:pcache:idhash:15580374-0!canonical","id":"enwiki","truncated":false,"exists":true,"in_use":2,"peak":3,"limit":2,"waiting":5,"holders":2,"waiting_load":4.5,"waiting_error":0,"refused_per_second":0,"refused_error":0}
let odd = {"name":"odd\\x0a\\\\name 中文","id":"odd%0A%5Cname","truncated":false,"exists":true,"in_use":100000,"peak":3,"limit":2,"waiting":1,"holders":2,"waiting_load":4.5,"waiting_error":0,"refused_per_second":0,"refused_error":0}
let refused = {"name":"refused","id":"refused","truncated":false,"exists":true,"in_use":2,"peak":3,"limit":2,"waiting":5,"holders":2,"waiting_load":0,"waiting_error":0,"refused_per_second":3.25,"refused_error":0}
let detail = {"name":"odd\\x0a\\\\name","id":"odd%0A%5Cname","in_use":2,"peak":3,"limit":2,"waiting":1,"holders_total":2,"holders":[{"connection":"0.12.3","protocol":"poolcounter","client":"192.0.2.1:4711","transport":"tcp","since":1790000000,"held_seconds":3.25,"units":1,"limit":2}],"waiters":[{"connection":"0.13.9","protocol":"poolcounter","client":"[2001:db8::1]:999","transport":"tls","since":1790000000,"waited_seconds":0.5,"units":1,"limit":2,"kind":"any"}]}
let states = {"free":3,"taken":2,"cleaning":0,"checking":0,"dirty":1,"stopping":0,"down":2}
let pools = {"pools":[{"name":"browsers","id":"browsers","kind":"joined","state":"open","members":8,"states":{states},"waiting":7,"want":4,"suppliers":0,"oldest_wait_seconds":0.25,"longest_hold_seconds":3725.5},{"name":"odd\\x1b[2J\u202e","id":"odd%1B%5B2J%E2%80%AE","kind":"static","state":"draining","members":8,"states":{states},"waiting":0,"want":null,"suppliers":0,"oldest_wait_seconds":null,"longest_hold_seconds":3725.5}],"cursor":null}
let totals = {"puts":20000,"duplicates":0,"claims":0,"dropped":0,"acks":18000,"recycled":11,"abandoned":6}
let jobs = "states":{"ready":1234,"delayed":3,"reserved":4,"buried":5,"abandoned":6},"jobs":1252,"urgent":0,"waiting":7,"watching":8,"using":9,"pause_left_seconds":0,"totals":{totals}
let tubes = {"tubes":[{"name":"default","id":"default",{jobs},"oldest_ready_seconds":null,"pause_seconds":60},{"name":"enwiki/refreshLinks","id":"enwiki%2FrefreshLinks",{jobs},"oldest_ready_seconds":3725,"pause_seconds":0}],"cursor":null}
route /api/v1/stats {stats}
route /api/v1/history = {"interval_seconds": 1, "end": 1790000000.0, "seconds": 600, "series": dict({k: [None] * 60 + [1.0] * 540 for k in "granted refused timed_out units names connections wait_p50_seconds".split()}, requests=[None] * 60 + [i % 50 * 100.0 for i in range(60, 600)], waiting=[None] * 60 + [float(i // 30 % 3) for i in range(60, 600)], wait_p99_seconds=[None] * 60 + [i % 7 * 0.001 for i in range(60, 600)], wait_max_seconds=[None] * 60 + [i % 7 * 0.002 for i in range(60, 600)], busy=[None] * 60 + [i % 100 * 0.01 for i in range(60, 600)])}
route /api/v1/contended {"by":"waiting","half_life_seconds":60,"bound":0,"names":[{enwiki},{odd},{refused}]}
route /api/v1/contended?by=waiting&limit=1 {"by":"waiting","half_life_seconds":60,"bound":0,"names":[{enwiki}]}
route /api/v1/pools {pools}
route /api/v1/tubes {tubes}
route /api/v1/names/odd%0A%5Cname {detail}
let top = counterctl --admin {mock} top

steps ends when stopped
    t> it has ended
    t? 0
    t restored
let kill = pid=$(jobs -p %1); until [ $(state $pid) = T ]; do sleep 0.05; done; kill %1; until gone $pid; do sleep 0.05; done; echo it has ended

== what is seen
t$$ {top}
t> q quit
t> counterd 9.8.7
t> requests 12.3k/s
t> waits 12.3 ms/1.5 s
t> holds 250 ms/12.0 s
t> names 1.2k  units 2.5k  waiting 17  conns 42
t> most 4.9k/s
t> ▂▂
t> odd\x0a\\name 中
t> *LOAD
t selected enwiki
t< q
t? 0
t restored

== keys
t$$ {top} --interval 0.5
t> every 500 ms
t> enwiki
# down, in another encoding of the cursor key
t< \x1b[B
t selected odd
t< \r
t> {=^holds +3\.2 s +1 +2 +0\.12\.3 +poolcounter +192\.0\.2\.1:4711}
asked GET /api/v1/names/odd%0A%5Cname
# Of other keys it takes no notice; each of these three leads back.
t< x
t> {=^holds +3\.2 s}
t< \x7f
t> q quit ... enter who
t< \r
t> enter, escape back
t< \x1b
t> q quit ... enter who
t< \r
t> enter, escape back
t< \r
t> q quit ... enter who
t< s
t> *REFUSED
asked GET /api/v1/contended?by=refused&limit=100
t< h
t> the column that orders the list
t< x
t> q quit ... enter who
t< /ref
t> names with: ref_
t without enwiki
t< \r
t> with "ref"
t< \x1b
t> enwiki
t< \x20
t> PAUSED
t< \x20+
t> every 500 ms
t< --
t> every 2.0 s
t< q
t? 0

== a long list follows its selection, and a filter is typed
route /api/v1/contended = {"names": [{"name": "name%02d" % i, "id": "n%02d" % i, "exists": i != 50} for i in range(100)] + [{"name": "cut", "id": None, "truncated": True}]}
t$$ {top}
t> name00
t< \x1b[A
t selected name00
t< \x1b[B
t selected name01
t< \x1bOF
t selected cut...
t without name00
# A name that is known in part cannot be looked at.
t< \rk
t selected name99
t< \x1b[5~
t selected {=name[78]\d}
t< \x1bOH
t selected name00
t without name99
t< /
t< 5q\x7f0
t> names with: 50_
t> name50  (gone)
t without name51
t< \x7f\x7fx\xc3\xbc
t> names with: xü_
t< \r
t> none of the contended names
t< \x1b
t> name00
t< s
t> *REFUSED
t< s
t> *PEAK
t< s
t> *LOAD
t< P
t> *PEAK
t< +++++
t> every 500 ms
t< --------
t> every 1m 0s
t< q
t? 0

== pages of the wrong shape do no harm
route /api/v1/stats {"protocols":7,"recent":[],"version":3}
route /api/v1/history {"series":{"requests":"x","busy":["a",{}]}}
route /api/v1/contended {"names":[{"name":"good","id":"n","exists":true},1,"x",{"name":7},null]}
route /api/v1/pools {"pools":[3,{"states":[]},{"name":1}],"cursor":7}
route /api/v1/tubes {"tubes":[3,{"states":[]},{"name":1}]}
route /api/v1/names/n {"holders":[3,{}],"waiters":{"a":1}}
$ {top} --once | grep -c .
> {=\d+}
t$$ {top}
t selected good
t< \r
asked GET /api/v1/names/n
t< \x1bo
t> POOL
t< \rt
t> TUBE
t< q
t? 0

== jobs that cannot be written are said
each store | said
    {"failing":true} | jobs cannot be written, and new ones are refused; the log says why
    {"failing":false,"stopped":"a.db: no\u001b"} | job queues do not serve: a.db: no\x1b
route /api/v1/stats {stats} + {"resources":{"job store":{store}}}
$ {top} --once | sed -n 2p
> {said}

== pools
size 24x100
t$$ {top}
t> enwiki
t< o
t whole {= +}3  {= +}2 {= +}1 {= +}2 {= +}7 {= +}4 {= +}1h 2m {= +}250 ms browsers
t> odd\x1b[2J\xe2\x80\xae  (dropped)
t> {=WANT +HELD +WAITED POOL}
asked GET /api/v1/pools?limit=100
t selected browsers
t< \r
t> nobody holds it or waits for it now
asked GET /api/v1/names/pool%3Abrowsers
t< \x1b
t> browsers
t< o
t> enwiki
t< q
t? 0

== tubes
size 24x100
t$$ {top}
t> enwiki:pcache
t< t
t whole {= +1\.2k +3 +5 +7 +- +20\.0k +18\.0k default  \(paused\)}
t whole {= +1\.2k +3 +5 +7 +1h 2m +20\.0k +18\.0k enwiki/refreshLinks}
t> {=OLDEST +PUT +DONE TUBE}
asked GET /api/v1/tubes?limit=100
t selected default
# A tube opens nothing.
t< \r/wiki\r
t without default
t< \x1bo
t> browsers
t< t
t> default
t< t
t> enwiki:pcache
t< q
t? 0

== a pause asks for nothing
# Keys still work, and each causes an iteration of its loop.
t$$ {top} --interval 0.01
t> enwiki
t< \x20
t> PAUSED
t quiet
asked rest
t< j
t selected odd
t< k
t selected enwiki
t< j
t selected odd
asked none
t< r
asked GET ...

== resizing
each rows
    40x140
    24x80
    12x60
    5x30
    2x10
    1x1
t$$ {top}
t> enwiki
t resize {rows}
t quiet
t resize 24x80
t> {=^busy}
t> q quit
t< q
t? 0
t restored

== small and large terminals
each rows | row
    12x60 | enwiki
    40x140 | enwiki:pcache:idhash:15580374-0!canonical
    40x140 | {=^busy +\S{80}}
size {rows}
t$$ {top}
t> {row}
t> q quit
t< q
t? 0

== other terminals
each term
    vt100
    xterm-mono
    linux
t$$ TERM={term} {top}
t> enwiki
t selected enwiki
t< q
t? 0

== an unknown terminal
# ncurses leaks memory then.
t$$ ASAN_OPTIONS=detect_leaks=0 TERM=dumb-not {top}
t> unknown terminal type "dumb-not"
t? 69

== without Unicode it is ASCII
t$$ LC_ALL=C TERM=vt100 {top}
t> odd\x0a\\name ??
t> {=[.:=+*#-]{20}}
t without {=[^ -~]}
t< q
t? 0

== signals restore the terminal
each name | status
    INT | 130
    TERM | 143
    HUP | 129
    QUIT | 131
    USR1 | 138
    ABRT | 134
    ALRM | 142
    XCPU | 152
    SYS | 159
    RTMAX | 192
t$$ ulimit -c 0; {top}
t> enwiki
t signal {name}
t? {status}
t restored

== ctrl c is a signal
t$$ {top}
t> enwiki
t< \x03
t? 130
t restored

== a terminal that is gone ends it
t$$ {top}
t> enwiki
t close
t? 129

== a stop gives the terminal back and fg takes it again
# bash runs the next line, fg, at once.
t$$ set -m; {top} </dev/tty; echo stopped $?; fg >/dev/null; echo over $?
t> enwiki
t< \x1a
t said stopped 148
t> enwiki
t< q
t> over 0
t? 0
t restored

== in the background it is stopped and a signal ends it
t$$ set -m; exec 3</dev/tty; {top} <&3 & {kill}
do ends when stopped

== stopped, it goes to the background, and a signal ends it
t$$ set -m; exec 3</dev/tty; {top} <&3; bg >/dev/null; {kill}
t> enwiki
t< \x1a
do ends when stopped

== a stop by another process and fg takes the terminal again
t$$ set -m; {top} </dev/tty; echo stopped $?; stty sane; fg >/dev/null; echo over $?
t> enwiki
until kill -STOP $(child {tpid})
t said stopped 147
t raw
t< q
t> over 0
t? 0

== a server that is gone is said and asked again
t$$ {top} --interval 0.1
t> enwiki
listen off
t> {=No answer for .*, trying again: }
# The last answer is still shown.
t> enwiki
listen on
t without No answer
t> enwiki
t< q
t? 0

== a server that was never there is said
t$$ counterctl --admin {none} top
t> {=No answer, trying again: .*connect}
t< q
t? 0

== a name that has gone meanwhile
t$$ {top}
t> enwiki
t< \r
t> nobody holds it or waits for it now
t< \x1b
t> enter who
t< q
t? 0

== no terminal
$ {top}
! counterctl: ...--once...
? 64
$ {top} --json
! counterctl: ...--once...
? 64
$ counterctl --admin {none} top --once
! counterctl: ...{none}...
? 69

== one frame as text
$ {top} --once
counterctl top - {mock}  counterd 9.8.7  up 2h 46m
>
last 60 s requests 12.3k/s  granted 6.0k/s  refused 0/s  timed out 0.2/s
> p50/p99   waits 12.3 ms/1.5 s  holds 250 ms/12.0 s  answers -
> now       names 1.2k  units 2.5k  waiting 17  conns 42  memory 12.0 M/1.0 G
>
> requests  ▁▁▁▁▁▁▂▂▂▂▂▂▃▃▃▃▃▃▄▄▄▄▄▄▅▅▅▅▅▅▆▆▆▆▆▆▇▇▇▇▇▇████   4.9k/s    most 4.9k/s
> waiting   ________________██████████████████████████████        1         most 1
> wait p99  ▁▃▄▅▇█_▁▃▄▅▇█_▁▃▄▅▇█_▁▃▄▅▇█_▁▃▄▅▇█_▁▃▄▅▇█_▁▃▄▅   4.0 ms    most 6.0 ms
> busy      ▄▄▄▅▅▅▅▅▅▅▅▅▅▅▅▆▆▆▆▆▆▆▆▆▆▆▆▆▇▇▇▇▇▇▇▇▇▇▇▇██████      99%       most 99%
>
>   IN USE    PEAK   LIMIT WAITING   *LOAD REFUSED NAME
>        2       3       2       5    4.50    0.00 enwiki:pcache:idhash:15580374-0
>     100k       3       2       1    4.50    0.00 odd\x0a\\name 中文
>        2       3       2       5    0.00    3.25 refused
>
>     FREE   TAKEN   DIRTY    DOWN WAITING    WANT    HELD  WAITED POOL
>        3       2       1       2       7       4   1h 2m  250 ms browsers
>        3       2       1       2       0       -   1h 2m       - odd\x1b[2J\xe2\
$ COLUMNS=200 {top} --once | grep enwiki
> ...enwiki:pcache:idhash:15580374-0!canonical
$ {top} --once --filter refused | grep -c enwiki
> 0
? 1
$ {top} --once --limit 1 | grep -c 'enwiki\|odd.x0a'
> 1
asked ...
asked GET /api/v1/contended?by=waiting&limit=1

== sizes for people
each used | limit | shown
    0 | 999 | 0 B/999 B
    1024 | 1073741824 | 1.0 K/1.0 G
    1e30 | -1 | 867361737988 E/-
route /api/v1/stats {stats} + {"memory":{"used_bytes":{used},"limit_bytes":{limit}}}
$ {top} --once | grep -o 'memory.*'
> memory {shown}

== parts that a server does not have
$ {top} --once --json | grep -o '"pools":{"pools":\|"tubes":{"tubes":\|"cluster":'
> "pools":{"pools":
> "tubes":{"tubes":
route /api/v1/pools 404 {"error":{"status":404,"reason":"nothing here"}}
route /api/v1/tubes 404 {"error":{"status":404,"reason":"nothing here"}}
$ {top} --once | grep 'POOL\|TUBE'; {top} --once --json | grep -o '"pools":\|"tubes":'
? 1

== tubes are printed once some are used
$ {top} --once | grep -c TUBE
> 0
? 1
route /api/v1/stats {stats} + {"resources":{"tubes":{"tubes":2,"puts":0}}}
$ {top} --once | tail -n3
> ... TUBE
> ... default...
> ... enwiki/refreshLinks

== a node without its engine is said
route /api/v1/cluster {"enabled":true,"state":"refused","refused":"use Redis 7.0 or later"}
$ {top} --once | sed -n 2p
> limits are not shared: use Redis 7.0 or later
$ {top} --once --json | grep -o '"cluster":.*}'
> "cluster":{"enabled":true,"state":"refused","refused":"use Redis 7.0 or later"}...
route /api/v1/cluster {"enabled":true,"state":"away","refused":"","reason":"no route\u001b"}
$ {top} --once | sed -n 2p
> limits are not shared: no route\x1b
route /api/v1/cluster {"enabled":true,"state":"connecting"}
$ {top} --once | sed -n 2p
> limits are not shared: connecting
route /api/v1/cluster {"enabled":true,"state":"leaving"}
$ {top} --once | sed -n 2p
>
route /api/v1/cluster {"enabled":false}
$ {top} --once --json | grep -c '"cluster"'
> 0
? 1

== the daemon itself
daemon counter.threads=2 admin.port=0
c@ {text}
c< ACQ4ME watched 1 9 0
c> LOCKED
d@ {text}
d< ACQ4ME watched 1 9 1000
t$$ counterctl --admin {admin} top --interval 0.2
t whole {= +1 +1 +1 +1 +\S+ +\S+ watched}
t< \r
t whole {=holds .* poolcounter  127\.0\.0\.1:\d+}
t whole {=waits .* poolcounter  127\.0\.0\.1:\d+}
c< RELEASE watched
c> RELEASED
t> waiting 0
t< \x1bo
t> there are no pools
c< POOL ADD watched-pool
c> OK
c< MEMBER ADD watched-pool m
c> OK
t whole {= +1 +0 +0 +0 +0 +- +- +- watched-pool}
c< TAKE watched-pool
c> TAKEN watched-pool m ...
t whole {= +0 +1 +0 +0 +0 +- +\S+ m?s +- watched-pool}
t< \r
t whole {=holds .* poolcounter  127\.0\.0\.1:\d+}
t< q
t? 0
