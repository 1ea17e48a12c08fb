# The admin interface as its contract says: pages that the transcript plays.
let NAMES = {"by":"waiting","half_life_seconds":60,"bound":0,"names":[{"name":"enwiki:pcache","id":"enwiki%3Apcache","truncated":false,"exists":true,"in_use":2,"peak":3,"limit":2,"waiting":5,"holders":2,"waiting_load":4.5,"waiting_error":0,"refused_per_second":0,"refused_error":0},{"name":"odd\\x0a\\\\name 中文","id":"odd%0A%5Cname","truncated":false,"exists":true,"in_use":100000,"peak":3,"limit":2,"waiting":1,"holders":2,"waiting_load":4.5,"waiting_error":0,"refused_per_second":3.25,"refused_error":0}]}
let DETAIL = {"name":"odd\\x0a\\\\name","id":"odd%0A%5Cname","in_use":2,"peak":3,"limit":2,"waiting":1,"holders_total":2,"holders":[{"connection":"0.12.3","protocol":"poolcounter","client":"192.0.2.1:4711","transport":"tcp","since":1790000000,"held_seconds":3.25,"units":1,"limit":2},{"connection":"1.7.1","protocol":"counter","client":"unix pid 12 uid 0","transport":"unix","since":1790000000,"held_seconds":4000,"units":1,"limit":5}],"waiters":[{"connection":"0.13.9","protocol":"poolcounter","client":"[2001:db8::1]:999","transport":"tls","since":1790000000,"waited_seconds":0.5,"units":1,"limit":2,"kind":"any"}]}

== contended
route /api/v1/contended {NAMES}
$ counterctl --admin {mock} contended --by refused --limit 3
> IN USE  PEAK  LIMIT  WAITING  LOAD  REFUSED/S  NAME
>      2     3      2        5  4.50          0  enwiki:pcache
> 100000     3      2        1  4.50        3.2  odd\x0a\\name 中文
asked GET /api/v1/contended?by=refused&limit=3
$ counterctl --admin {mock} contended -j
> {NAMES}

== holders
route /api/v1/names/odd%0A%5Cname {DETAIL}
$ counterctl --admin {mock} holders $'odd\n\\name'
> odd\x0a\\name: 2 in use, peak 3, limit of the last request 2
> holders: 2 of 2
>   CONNECTION  PROTOCOL     UNITS  LIMIT   HELD  CLIENT
>   0.12.3      poolcounter      1      2  3.2 s  192.0.2.1:4711
>   1.7.1       counter          1      5  1h 6m  unix pid 12 uid 0
> waiters: 1 of 1
>   CONNECTION  PROTOCOL     UNITS  LIMIT  WAITED  FOR  CLIENT
>   0.13.9      poolcounter      1      2  500 ms  any  [2001:db8::1]:999
asked GET /api/v1/names/odd%0A%5Cname
$ counterctl --admin {mock} holders -je 'odd\x0a\\name'
> {DETAIL}
$ counterctl --admin {mock} holders none
! counterctl: ...nothing here (404)...
? 1
$ counterctl --admin {mock} holders -j none
> {"error":{"status":404,"reason":"nothing here"}}
! counterctl: ...nothing here (404)...
? 1

== connections of many pages
route /api/v1/connections?limit=1000&protocol=a%26b = {"connections": [{"connection": "0.%d.1" % i, "protocol": "p", "client": "c", "transport": "tcp", "opened": 0, "age_seconds": 60.0 + i, "queued_bytes": 0, "holds": 1, "waits": 0} for i in range(1000)], "cursor": "1000"}
route /api/v1/connections?limit=1000&protocol=a%26b&cursor=1000 = {"connections": [{"connection": "0.%d.1" % i} for i in range(1000, 1500)], "cursor": None}
$ counterctl --admin {mock} connections --protocol 'a&b' | sed -n '1,3p;$='
CONNECTION  PROTOCOL  OVER      AGE  HOLDS  WAITS  QUEUED  CLIENT
> 0.0.1       p         tcp     1m 0s      1      0       0  c
> 0.1.1       p         tcp     1m 1s      1      0       0  c
> 1501
asked GET /api/v1/connections?limit=1000&protocol=a%26b
asked GET /api/v1/connections?limit=1000&protocol=a%26b&cursor=1000
asked none
route /api/v1/connections?limit=1000 = {"connections": [{"connection": "0.%d.1" % i} for i in range(1000)], "cursor": "1000"}
route /api/v1/connections?limit=200&cursor=1000 = {"connections": [{"connection": "0.%d.1" % i} for i in range(1000, 1200)], "cursor": "1200"}
$ counterctl --admin {mock} connections --limit 1200 -j | sed -n '1p;$p;$='
> {"connection":"0.0.1"}
> {"connection":"0.1199.1"}
> 1200
asked GET /api/v1/connections?limit=1000
asked GET /api/v1/connections?limit=200&cursor=1000
asked none

== a cursor that stands still ends the list
route /api/v1/connections {"connections":[{}],"cursor":"same"}
$ counterctl --admin {mock} connections | wc -l
> 3
asked GET ...
asked GET ...cursor=same
asked none

== kill, reload and loglevel with the token
$ echo s3cret-token >token; chmod 600 token
route POST /api/v1/connections/0.12.3/kill {"killed":"0.12.3"}
route POST /api/v1/reload {"reloaded":true,"report":["log.level is debug now"]}
route POST /api/v1/loglevel {"level":"debug"}
route /api/v1/loglevel {"level":"debug"}
$ counterctl --admin {mock} kill 0.12.3 --token-file token
killed 0.12.3
asked POST /api/v1/connections/0.12.3/kill Bearer s3cret-token
$ counterctl --admin {mock} kill 9.9.9 --token-file token
! counterctl: ...nothing here...
? 1
$ counterctl --admin {mock} reload --token-file token
> log.level is debug now
asked POST /api/v1/reload Bearer s3cret-token
$ counterctl --admin {mock} loglevel debug --token-file token
debug
asked POST /api/v1/loglevel?level=debug Bearer s3cret-token
$ counterctl --admin {mock} loglevel
debug
$ export COUNTER_ADMIN_TOKEN=env-token COUNTER_ADMIN={mock}
    counterctl kill 0.12.3; counterctl kill 0.12.3 -j; counterctl reload -j
killed 0.12.3
> {"killed":"0.12.3"}
> {"reloaded":true,"report":["log.level is debug now"]}
asked POST /api/v1/connections/0.12.3/kill Bearer env-token
$ counterctl --admin {mock} loglevel loud --token-file token
! counterctl: ...error, warning, info, debug...
? 64

== a reload that fails
route POST /api/v1/reload 409 {"error":{"status":409,"reason":"the file is wrong"},"report":["counter.conf:3: unknown key"]}
$ COUNTER_ADMIN_TOKEN=x counterctl --admin {mock} reload
! counterctl: ...the file is wrong (409)...
! ...counter.conf:3: unknown key...
? 78

== the token is sent only where it is needed
each words
    holders x
    config
    loglevel
    contended
    connections
    top --once
$ COUNTER_ADMIN_TOKEN=x COUNTER_ADMIN={mock} counterctl {words}
! ...
...
? 0|1|69|76
asked GET /api/v1/{=\S+}

== tokens that are missing, wrong or refused
each code | reason | token | why
    401 | the admin token is missing or wrong | '' | give the admin token with --token-file or $COUNTER_ADMIN_TOKEN
    401 | the admin token is missing or wrong | other | {=(?!.*other).*}
    403 | no admin.token is set | other | ...no admin.token is set...
route POST /api/v1/reload {code} {"error":{"status":{code},"reason":"{reason}"}}
$ COUNTER_ADMIN_TOKEN={token} counterctl --admin {mock} reload
! ...
! counterctl: {why}
? 77

== files of tokens
each content
    ''
    'two words\n'
    '%5000s'
    'ctrl\x01\n'
$ printf {content} | tr ' ' x >bad; [ {content} != 'two words\n' ] || echo two words >bad
    chmod 600 bad; counterctl --admin {mock} kill 0.12.3 --token-file bad
! counterctl: ...a token is...
? 64

== files of tokens that are not there or not secret
route POST /api/v1/reload {"reloaded":true,"report":[]}
$ counterctl --admin {mock} reload --token-file none
! counterctl: ...No such file...
? 66
$ echo x >token; chmod 644 token; counterctl --admin {mock} reload --token-file token
! counterctl: ...every user of this machine can read it...
> reloaded: nothing has changed
$ counterctl --admin {mock} reload --token x
! counterctl: ...list of processes...
? 64

== config
route /api/v1/config {"options":[{"key":"counter.port","value":"11215","default":"11215","unit":"","help":"the port","reloadable":false,"is_default":true},{"key":"limits.write_timeout","value":"7","default":"30","unit":"s","help":"how long","reloadable":true,"is_default":false}]}
$ counterctl --admin {mock} config
OPTION                VALUE  DEFAULT  UNIT  CHANGES
counter.port          11215  =        -     at the start
limits.write_timeout  7      30       s     with reload
$ counterctl --admin {mock} config -j
...

== answers that are none
each code | answer | status
    200 | no JSON | 76
    200 | [1,2] | 76
    404 | <html> | 76
    500 | {"error":{"status":500,"reason":"oh \u001b[1m"}} | 69
    503 | {} | 69
    301 | {} | 76
    200 | {"a":1,"a":2} | 76
route /api/v1/config {code} {answer}
$ counterctl --admin {mock} config
! counterctl: {=[ -~]*}
? {status}

== answers of the wrong shape print nothing wrong
each words
    config
    contended
    connections
    holders k
    loglevel
    top --once
let odd = {"options":[{},3,{"key":7}],"names":[null,{}],"connections":"x","cursor":5,"holders":4,"waiters":[[]],"level":null,"report":1,"killed":{}}
route /api/v1/config {odd}
route /api/v1/contended {odd}
route /api/v1/connections {odd}
route /api/v1/names/k {odd}
route /api/v1/loglevel {odd}
route /api/v1/stats {odd}
route /api/v1/history {odd}
$ counterctl --admin {mock} {words}
...
? 0

== no admin interface, one that is silent, and a wrong address
each at | status | why
    {none} | 69 | ...admin interface at {none}...
    {silent} | 69 | ...imeout...
    'a b' | 64 | ...--admin...
$ counterctl --admin {at} --io-timeout 0.1 --connect-timeout 0.1 config
! counterctl: {why}
? {status}

== proxies are not asked
route /api/v1/loglevel {"level":"info"}
$ http_proxy=http://127.0.0.1:1 ALL_PROXY=http://127.0.0.1:1 counterctl --admin {mock} loglevel
info

== numbers for people
route /api/v1/names/x = {"name": "x", "id": "x", "in_use": 1, "peak": 1, "limit": 1, "waiting": 0, "holders_total": 21, "holders": [{"connection": "c", "protocol": "p", "client": "c", "held_seconds": s, "units": 1, "limit": 2} for s in (0, -1, 1e-6, 0.00099, 0.0009996, 0.0123, 0.0999, 0.25, 0.9996, 1.5, 59.94, 59.96, 3599, 3600, 86399, 86400 * 12 + 3 * 3600, 86400000, 1e15)], "waiters": []}
$ counterctl --admin {mock} holders x | sed -nE 's/.* 1 +2 +(.*)  c$/\1/p' | paste -sd,
> 0,-,1 us,990 us,1.0 ms,12.3 ms,99.9 ms,250 ms,1.0 s,1.5 s,59.9 s,1m 0s,59m 59s,1h 0m,23h 59m,12d 3h,1000d,11574074d
route /api/v1/contended = {"names": [{"name": "n", "exists": True, "refused_per_second": c} for c in (0, 0.01, 0.3, 9.9, 9.96, 999.4, 999.6, 12345, 99960, 999999, 4294967295, -1)]}
$ counterctl --admin {mock} contended | awk 'NR > 1 { print $(NF - 1) }' | paste -sd,
> 0,0,0.3,9.9,10,999,1.0k,12.3k,100k,1.0M,4.3G,-

== a page is asked for again when the connection ends without an answer, as in an upgrade
$ counterctl --admin {play} loglevel
j> GET /api/v1/loglevel HTTP/1.1
j close
jj> GET /api/v1/loglevel HTTP/1.1
jj<< HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"level":"debug"}
> debug

== a page is asked for twice at the most
$ counterctl --admin {play} loglevel
j> GET ...
j close
jj> GET ...
jj close
! counterctl: admin interface at {play}: ...
? 69

== a page that is asked for again has no more time for its answer
needs (shifted counterctl --version)
until shift_clocks '\0\0\0\0\0\0\0\0'
$ shifted counterctl --admin {play} --io-timeout 1000 loglevel
j> GET ...
until shift_clocks '\0\160\311\262\213\0\0\0'
j close
jj> GET ...
until shift_clocks '\0\340\222\145\027\001\0\0'
jj<< HTTP/1.1 200 OK\r\n
! counterctl: admin interface at {play}: no answer in time (--io-timeout)
? 69

== what changes something is not asked for again
$ counterctl --admin {play} loglevel debug
j> POST ...
j close
! counterctl: admin interface at {play}: ...
? 69
