# The admin interface of the real daemon, without counterctl: every route, its errors and its values.
# ask.py says what the lines of its input mean.
let M = Authorization: Bearer s3cret
let routes = grep -ohE '{HTTP_(GET|POST), "[^"]*"' {top}/src/admin/routes.c {top}/src/service/*.c | tr -d '{,"' | sed 's/HTTP_//; s/\*/x/'
daemon admin.token=s3cret jobs.enable=true jobs.port=0 counter.threads=2

== health and the page
$ ask {admin} <<'END'
    /healthz => 200 ok
    /readyz => 200 ready
    HEAD /readyz @Content-Length => 200 6
    / @Content-Type @Referrer-Policy @X-Content-Type-Options => 200 text/html... no-referrer nosniff
    / @Content-Security-Policy => 200 default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
    /metrics @Content-Type => 200 text/plain; version=0.0.4...
    END
$ for path in / /page.js /page.css /favicon.svg; do
        tag=$(ask {admin} <<<"$path @ETag")
        printf '%s | If-None-Match: %s => %s\n' $path "${tag#200 }" '304 ' $path '"other"' '200 ...' | ask {admin}
    done
$ cd {top}/src/admin/page; for file in index.html favicon.svg; do
        ask {admin} <<<"/$(echo $file | sed s/index.html//)" | tail -c+5 | cmp - $file
    done
$ cd {top}/src/admin/page; ask {admin} <<</page.css | tail -c+5 | sort | diff - <(cat css/* | sort)
$ cd {top}/src/admin/page; ask {admin} <<</page.js | tail -c+5 | sort | diff - <((printf "(function () {\n'use strict';\n})();\n"; cat js/*) | sort)
$ for path in / /page.js /page.css /favicon.svg; do ask {admin} <<<"$path @ETag"; done | grep '^200 "[^" ]*"$' | sort -u | wc -l
> 4

== only what there is is found
$ for path in /nothing /index.html /page.j /page.jsx /Page.js /favicon.svg/ /healthz/ //healthz /api /api/v1/ /api/v1/statsx /api/v1/stats/ /api/v1/names/a/b \
        /api/v1/connections/1.2.3 /api/v1/connections/1/2/kill /API/v1/stats /api/v1/pools/none/members; do
        echo "$path => 404 ...counterd-admin(7)..."
    done | ask {admin}

== other methods are refused and told which there are, and changes need the token
$ {routes} >routes; wc -l <routes
> {=3\d}
$ while read -r method path; do
        allowed=$(sed -n "s,^\(.*\) $path$,\1,p" routes | xargs | sed 's/GET/GET, HEAD/; s/HEAD POST/HEAD, POST/')
        for other in GET HEAD POST PUT DELETE OPTIONS TRACE PATCH; do
            case $allowed in *$other*) ;; *) echo "$other $path @Allow | {M} => 405 ... $allowed" ;; esac
        done
        if [ $method = POST ]; then
            echo "POST $path @WWW-Authenticate => 401 ...send... Bearer"
            echo "POST $path | Authorization: Basic s3cret => 401 ...send..."
            echo "POST $path | Authorization: Bearer => 401 ...send..."
            echo "POST $path | X-Authorization: Bearer s3cret => 401 ...send..."
            for wrong in x s3cre s3creu s3cret2; do
                echo "POST $path @WWW-Authenticate | Authorization: Bearer $wrong => 401 ...not the token... Bearer"
            done
        fi
        echo "$method $path | {M} | Sec-Fetch-Site: cross-site | Sec-Fetch-Mode: cors => 403 ...page of another site..."
        echo "$method $path | {M} | Host: evil.example:7532 => 421 ...evil.example...admin.hosts..."
    done <routes | ask {admin}
$ ask {admin} <<'END'
    /api/v1/loglevel => 200 {"level":"info"}
    /api/v1/reload tried at => 200 0 null
    /api/v1/upgrade tried running pause_seconds report => 200 0 false null []
    POST /api/v1/loglevel?level=info | authorization: bearer   s3cret => 200 {"level":"info"}
    END

== without a token nothing can be changed
daemon admin.port=0
$ ask {admin} <<'END'
    POST /api/v1/loglevel?level=debug => 403 ...admin.token...
    POST /api/v1/reload | {M} => 403 ...admin.token...
    POST /api/v1/loglevel?level=debug | Authorization: Bearer  => 403 ...admin.token...
    /api/v1/loglevel => 200 {"level":"info"}
    END

== a page of another site cannot ask
each site | mode | dest | page | other | post
    cross-site | cors | empty | 403 ...another site... | 403 ... | 403
    cross-site | no-cors | image | 403 ... | 403 ... | 403
    same-site | cors | empty | 403 ... | 403 ... | 403
    cross-site | navigate | iframe | 403 ... | 403 ... | 403
    Cross-Site | NAVIGATE | IFRAME | 403 ... | 403 ... | 403
    something-new | cors | empty | 403 ... | 403 ... | 403
    cross-site | none | none | 403 ... | 403 ... | 403
    cross-site | navigate | none | 403 ... | 403 ... | 403
    cross-site | navigate | document | 200 <!... | 403 ... | 403
    same-site | navigate | document | 200 <!... | 403 ... | 403
    same-origin | cors | empty | 200 <!... | 200 ... | 401
    none | navigate | document | 200 <!... | 200 ... | 401
$ let() { echo "$1 | Sec-Fetch-Site: {site} | Sec-Fetch-Mode: {mode} | Sec-Fetch-Dest: {dest} => $2"; }
    {
        let / '{page}'
        let /?name=k '{page}'
        let /metrics '{other}'
        let /api/v1/names '{other}'
        let 'POST /api/v1/loglevel?level=debug' '{post} ...'
    } | ask {admin}

== names of this server
let good = {admin} none 127.0.0.1 192.0.2.7:1 [::1] [::1]:7532 [2001:db8::7] [::ffff:10.0.0.1]:80 localhost localhost:7532 LocalHost localhost. localhost.:7532 {host} {host}:7532 locks:1 counter.example Counter.Example.:7532 locks.example:1 a.b
let bad = '' :7532 . example.net 127.0.0.1.example localhost.example xlocalhost xlocks 127.0.0 [] [box] [127.0.0.1] ::1 '*' evil:127.0.0.1 [evil]:127.0.0.1 counter.example.evil a.b.c a localhost.. evil.example:7532
daemon admin.port=0 'admin.hosts=counter.example, locks a.b,locks.example.'
$ for host in {good}; do echo "/api/v1/loglevel | Host: $host => 200 ..."; done | ask {admin}
$ for host in {bad}; do echo "/metrics | Host: $host => 421 ...admin.hosts..."; done | ask {admin}
daemon 'admin.hosts=a *'
$ ask {admin} <<<'/api/v1/loglevel | Host: evil.example => 200 ...'

== wrong parameters are named with what would be right
c@ {text}
c< POOL ADD db
c> OK
c< MEMBER ADD db m
c> OK
c< POOL ADD j kind=joined
c> OK
c< JOIN j jm
c> JOINED
$ ask {admin} <<'END'
    /api/v1/stats?x=1 => 400 ...no parameter "x"...
    /api/v1/config?x => 400 ...no parameter "x"...
    /api/v1/loglevel?level=info => 400 ...no parameter "level"...
    /api/v1/names/a?limit=1 => 400 ...no parameter "limit"...
    /api/v1/history?secondz=1 => 400 ...there is seconds...
    /api/v1/history?=1 => 400 ...no parameter ""...
    /api/v1/history?seconds=0 => 400 ...a number from 1 to 600...
    /api/v1/history?seconds=601 => 400 ...a number from 1 to 600...
    /api/v1/history?seconds= => 400 ...a number from 1 to 600...
    /api/v1/history?seconds => 400 ...a number from 1 to 600...
    /api/v1/history?seconds=-1 => 400 ...seconds=-1...
    /api/v1/history?seconds=1x => 400 ...seconds=1x...
    /api/v1/history?seconds=99999999999999999999 => 400 ...a number from...
    /api/v1/history?seconds=1&seconds=2 => 400 ...given twice...
    /api/v1/contended?by=size => 400 ...waiting, refused or peak...
    /api/v1/contended?by= => 400 ...waiting, refused or peak...
    /api/v1/contended?limit=0 => 400 ...from 1 to 1000...
    /api/v1/contended?names=1 => 400 ...there is by or limit...
    /api/v1/names?limit=1001 => 400 ...from 1 to 1000...
    /api/v1/names?sort=size => 400 ...none, name, in_use, peak or waiting...
    /api/v1/names?prefix=%4 => 400 ...two hexadecimal digits...
    /api/v1/names?prefix=%zz => 400 ...two hexadecimal digits...
    /api/v1/names?cursor=x => 400 ...previous page...
    /api/v1/names?cursor= => 400 ...previous page...
    /api/v1/names?cursor=1.2 => 400 ...previous page...
    /api/v1/names?cursor=1.2.3x => 400 ...previous page...
    /api/v1/names?cursor=40.0.0 => 400 ...previous page...
    /api/v1/names?cursor=0.0.100000001 => 400 ...previous page...
    /api/v1/names?cursor=0.0.0&sort=name => 400 ...only with sort=none...
    /api/v1/connections?protocol=smtp => 400 ...poolcounter, counter or jobs...
    /api/v1/connections?limit=9999 => 400 ...from 1 to 1000...
    /api/v1/connections?cursor=0 => 400 ...previous page...
    /api/v1/connections?cursor=9.0 => 400 ...previous page...
    /api/v1/connections?cursor=0.0.0 => 400 ...previous page...
    /api/v1/names/%4 => 400 ...two hexadecimal digits...
    /api/v1/names/% => 400 ...two hexadecimal digits...
    /api/v1/names/ => 400 ...the path has no name...
    POST /api/v1/loglevel | {M} => 400 ...which level?...
    POST /api/v1/loglevel?level=loud | {M} => 400 ...error, warning, info or debug...
    POST /api/v1/reload?x=1 | {M} => 400 ...no parameter...
    /api/v1/reload?x=1 => 400 ...x...
    /api/v1/tubes?limit=0 => 400 ...from 1 to 1000...
    /api/v1/tubes?prefix=%4 => 400 ...two hexadecimal...
    /api/v1/tubes?state=ready => 400 ...there is no parameter...
    /api/v1/tubes/ => 400 ...the path has no tube...
    /api/v1/tubes/%zz => 400 ...two hexadecimal...
    /api/v1/tubes/none => 404 ...no such tube...
    /api/v1/tubes/default?limit=1 => 400 ...there is no parameter...
    /api/v1/jobs => 400 ...tube=TUBE is missing...
    /api/v1/jobs?tube=none => 404 ...no such tube...
    /api/v1/jobs?tube=default&state=gone => 400 ...abandoned...
    /api/v1/jobs?tube=default&after=x => 400 ...after...
    /api/v1/jobs?tube=default&after=18446744073709551616 => 400 ...after...
    /api/v1/jobs?tube=default&after=18446744073709551615 jobs.# => 200 0
    /api/v1/jobs?tube=default&limit=1001 => 400 ...from 1 to 1000...
    /api/v1/jobs/ => 400 ...the path has no job...
    /api/v1/jobs/1x => 400 ...the path has no job...
    /api/v1/jobs/0 => 404 ...no such job...
    /api/v1/jobs/18446744073709551615 => 404 ...no such job...
    POST /api/v1/jobs/x/kick | {M} => 400 ...the path has no job...
    POST /api/v1/tubes/default/clear | {M} => 400 ...state=ready...
    POST /api/v1/tubes/default/pause | {M} => 400 ...seconds=SECONDS...
    POST /api/v1/tubes/none/pause?seconds=1 | {M} => 404 ...no such tube...
    POST /api/v1/tubes/none/clear?state=all | {M} => 404 ...no such tube...
    POST /api/v1/drain | {M} => 400 ...jobs=on or jobs=off is missing...
    POST /api/v1/drain?jobs=maybe | {M} => 400 ...off or on...
    /api/v1/drain?jobs=on => 400 ...no parameter...
    /api/v1/pools?limit=0 => 400 ...1 to 1000...
    /api/v1/pools?limit=1001 => 400 ...1 to 1000...
    /api/v1/pools?prefix=%4 => 400 ...two hexadecimal...
    /api/v1/pools?cursor= => 400 ...previous page...
    /api/v1/pools?cursor=4 => 400 ...previous page...
    /api/v1/pools?cursor=4g => 400 ...previous page...
    /api/v1/pools?name=x => 400 ...prefix, limit or cursor...
    /api/v1/pools/ => 400 ...POOL...
    /api/v1/pools/%4 => 400 ...two hexadecimal...
    /api/v1/pools/none => 404 ...no such pool...
    /api/v1/pools/db?limit=-1 => 400 ...0 to 1000...
    /api/v1/pools/db?cursor=0 => 400 ...previous page...
    /api/v1/pools/db?waiters_limit=x => 400 ...0 to 1000...
    /api/v1/pools/db?waiters_cursor= => 400 ...waiters_cursor...
    /api/v1/pools/db?waiters_cursor=x => 400 ...waiters_cursor...
    /api/v1/pools/db?waiters_cursor=fffffffffffffffff => 400 ...waiters_cursor...
    /api/v1/stats? version => 200 ...
    /api/v1/history?&seconds=5&& end => 200 ...
    END
$ printf '/api/v1/pools?cursor=%0512d => 400 ...previous page...\n' 0 | ask {admin}
$ while read -r target expected; do
        echo "POST /api/v1/pools/$target | {M} => $expected"
        echo "POST /api/v1/pools/$target => 401 ...token..."
    done <<'END' | ask {admin}
    db/members/set?member=m 400 ...state=free, dirty or down...
    db/members/set?state=down 400 ...member=MEMBER...
    db/members/set?member=&state=down 400 ...member=MEMBER...
    db/members/set?member=%4&state=down 400 ...two hexadecimal...
    db/members/set?member=m&state=taken 400 ...free, dirty or down...
    db/members/set?member=m&state=down&now=1 400 ...false or true...
    db/members/set?member=m&note=a%20b 400 ...without spaces...
    db/members/set?member=m&note=a%00b 400 ...without spaces...
    db/members/set?member=m&note=a%0ab 400 ...without spaces...
    db/members/set?member=m&value=x 400 ...there is no parameter...
    db/members/set?member=none&state=down 404 ...no such member...
    none/members/set?member=m&state=down 404 ...no such pool...
    j/members/set?member=jm&state=dirty 409 ...can't get this state...
    db/members/drop 400 ...member=MEMBER...
    db/members/drop?member=none 404 ...no such member...
    db/members/drop?member=m&state=down 400 ...there is no parameter...
    db/drop?member=m 400 ...there is no parameter...
    /drop 400 ...the path has no pool...
    none/drop 404 ...no such pool...
    END
$ printf 'POST /api/v1/pools/db/members/set?member=m&note=%0129d | {M} => 400 ...128 bytes...\n' 0 | ask {admin}
$ ask {admin} <<<'/api/v1/pools/db members.0.state => 200 free'

== log level
$ for level in error warning debug info; do
        echo "POST /api/v1/loglevel?level=$level | {M} => 200 {\"level\":\"$level\"}"
        echo "/api/v1/loglevel => 200 {\"level\":\"$level\"}"
    done | ask {admin}

== options are shown without secrets
$ ask {admin} <<'END'
    shape /api/v1/config => {options:[{default:s,help:s,is_default:b,key:s,reloadable:b,unit:s,value:s}]}
    END
$ ask {admin} <<<'/api/v1/config options' | cut -c5- | python3 -c '
    import json, sys
    text = sys.stdin.read()
    at = {option["key"]: option for option in json.loads(text)}
    for key in "counter.threads", "admin.token", "log.level", "counter.port":
        print(*(at[key][part] for part in ("value", "default", "unit", "is_default", "reloadable")))
    assert "s3cret" not in text'
> 2 {=.*} False False
> (set) {=.*} False True
> info info  True True
{=\d+} 11215  False False

== the file is read again
$ printf 'admin.token = s3cret\npoolcounter.port = 0\ncounter.port = 0\nadmin.port = {port}\nlog.level = info\n' >conf
d$ exec counterd -f conf 2>log
until ask 127.0.0.1:{port} <<<'/readyz => 200 ready'
let a = 127.0.0.1:{port}
$ sed -i 's/info/debug/' conf; ask {a} <<<'POST /api/v1/reload reloaded report | {M} => 200 true [...log.level...]'
$ ask {a} <<<'/api/v1/loglevel => 200 {"level":"debug"}'
$ sed -i 's/debug/loud/' conf; ask {a} <<'END'
    POST /api/v1/reload | {M} => 409 ...nothing was changed...
    /api/v1/reload tried good => 200 2 false
    shape /api/v1/reload => {at:n,good:b,tried:n}
    END
$ sed -i 's/loud/info/; s/s3cret/other/' conf; ask {a} <<'END'
    POST /api/v1/reload reloaded | {M} => 200 true
    /api/v1/reload good => 200 true
    POST /api/v1/reload | {M} => 401 ...
    END
$ sed -i '/token/d' conf; ask {a} <<'END'
    POST /api/v1/reload reloaded | Authorization: Bearer other => 200 true
    POST /api/v1/reload | Authorization: Bearer other => 403 ...admin.token...
    END
? 0
d signal HUP
until ask {a} <<<'/api/v1/reload tried => 200 5'
d signal TERM

== stats are as agreed and true
$ ask {admin} <<'END'
    /api/v1/stats names protocols.0.requests.# protocols.0.waits.granted.p50_seconds => 200 0 0 null
    shape /api/v1/stats => {holdings:n,memory:{limit_bytes:n,resident_bytes:n,used_bytes:n},names:n,now:n,protocols:[...],recent:{answers:{...},granted_per_second:n,holds:{...},refused_per_second:n,requests_per_second:n,timed_out_per_second:n,waits:{count:n,max_seconds:-,p50_seconds:-,p90_seconds:-,p99_seconds:-},window_seconds:n},resources:{...},started:n,threads:n,units:n,uptime_seconds:n,version:s,waiting:n,workers:[{busy_seconds:n,connections:n,cpu_seconds:n,worker:n}]}
    shape /api/v1/stats => ...protocols:[...{answers:{count:n,max_seconds:-,p50_seconds:-,p90_seconds:-,p99_seconds:-,sum_seconds:n},bytes:{received:n,sent:n},connections:{accept_errors:n,closed:{denied:n,error:n,handshake:n,killed:n,memory:n,peer:n,per_source:n,protocol:n,records:n,refused:n,request_timeout:n,reset:n,shutdown:n,unfinished:n,upgrade:n,vanished:n,write_timeout:n},made:n,max:n,open:n,send_errors:n},enabled:b,holds:{...},listeners:[s],name:s,refused:n,requests:[],waiting:n,waits:{cancelled:{...},done:{...},granted:{...},timed_out:{...}}}...
    shape /api/v1/stats => ...resources:{cluster:{asks:n,calls:n,closed:n,enabled:b,grace:b,ops:n,state:s,waits:n},job store:{commits:n,damages:n,enabled:b,failing:b,failures:n,file_bytes:n,log_bytes:n,stopped:s},pools:{held:n,members:n,pools:n,waiting:n},tubes:{abandoned:n,buried:n,delayed:n,draining:b,memory_bytes:n,memory_limit_bytes:n,puts:n,ready:n,reserved:n,timeouts:n,tubes:n,urgent:n,waiting:n}}...
    END
? 0
a@ {text}
b@ {text}
u@ {binary}
a< ACQ4ME k 1 9 0
a> LOCKED
a< ACQ4ME l 1 9 0
a> LOCKED
b< ACQ4ME k 1 9 0
b> TIMEOUT
b< ACQ4ME k 1 1 0.01
b> QUEUE_FULL
b< ACQ4ANY k 1 9 0.01
b> TIMEOUT
a< POOL ADD db
a> OK
b< TAKE db 0.01 for=clean
b> TIMEOUT
a< RELEASE l
a> RELEASED
b< ACQ4ME k 1 9 1000
until ask {admin} <<<'/api/v1/stats waiting protocols.0.waiting => 200 1 1'
$ ask {admin} <<'END'
    /api/v1/stats threads names units holdings => 200 2 2 1 2
    /api/v1/stats protocols.0.name protocols.1.name protocols.0.enabled => 200 poolcounter counter true
    /api/v1/stats protocols.0.listeners.0 protocols.1.listeners.0 => 200 {text} {binary}
    /api/v1/stats protocols.0.connections.open protocols.1.connections.made => 200 2 1
    /api/v1/stats protocols.0.refused protocols.1.refused protocols.0.waits.timed_out.count => 200 2 0 1
    /api/v1/stats protocols.0.waits.granted.count protocols.0.holds.count => 200 0 1
    /api/v1/stats protocols.0.requests => 200 ...{"verb":"ACQ4ME","outcome":"LOCKED","count":2}...
    /metrics => 200 ...counterd_refused_total{protocol="poolcounter"} 2...counterd_refused_total{protocol="counter"} 0...
    /metrics => 200 ...counterd_requests_total{protocol="poolcounter",verb="ACQ4ME",outcome="LOCKED"} 2...
    END
$ ask {admin} <<<'/api/v1/stats' | cut -c5- | python3 -c '
    import json, sys, time
    stats = json.load(sys.stdin)
    assert abs(stats["now"] - time.time()) < 600
    assert abs(stats["now"] - stats["started"] - stats["uptime_seconds"]) < 5
    assert stats["memory"]["resident_bytes"] > 100000 and stats["memory"]["used_bytes"] > 0
    assert sum(worker["connections"] for worker in stats["workers"]) == 3
    assert all(worker["cpu_seconds"] > 0 for worker in stats["workers"])
    text = stats["protocols"][0]
    waits = text["waits"]["timed_out"]
    assert 0.01 <= waits["max_seconds"] == waits["sum_seconds"]
    assert 0.95 * waits["max_seconds"] <= waits["p50_seconds"] <= waits["p99_seconds"] <= waits["max_seconds"]
    assert text["answers"]["count"] > 3 and text["bytes"]["received"] > 80 and text["bytes"]["sent"] > 30'
$ ask {admin} <<<'/metrics' | sed 's/^200 //' >metrics; if [ -x /usr/bin/promtool ]; then /usr/bin/promtool check metrics <metrics; fi

== metrics are what happened
a@ {text}
b@ {text}
c@ {text}
a< ACQ4ME k 1 9 0
a> LOCKED
b< ACQ4ME k 1 9 0.01
b> TIMEOUT
b< ACQ4ME k 1 9 100
until ask {admin} <<<'/api/v1/stats waiting => 200 1'
c< ACQ4ANY k 1 9 100
until ask {admin} <<<'/api/v1/stats waiting => 200 2'
a< NONSENSE
a> ERROR BAD_COMMAND
a close
b> LOCKED
c< RELEASE k
c> RELEASED
b close
c<= b'POOL ADD p\nMEMBER ADD p m\nMEMBER ADD p "m\\\xff\nTAKE p member=none\nTAKE p with=k=v\nPOOL ADD j kind=joined\nPOOL ADD \xff\nPOOL ADD \\xff\nPOOL ADD {"\x01\n'
until ask {admin} <<<'/api/v1/pools pools.# => 200 5'
c close
until ask {admin} <<<'/api/v1/stats protocols.0.connections.open => 200 0'
$ ask {admin} <<<'/metrics' >metrics; while read -r sample; do grep -qxF "counterd_$sample" metrics || echo "$sample"; done <<'END'
    requests_total{protocol="poolcounter",verb="ACQ4ME",outcome="LOCKED"} 2
    requests_total{protocol="poolcounter",verb="ACQ4ME",outcome="TIMEOUT"} 1
    requests_total{protocol="poolcounter",verb="invalid",outcome="error"} 1
    names 0
    units 0
    holdings 0
    waiting{protocol="poolcounter"} 0
    wait_duration_seconds_count{protocol="poolcounter",outcome="granted"} 1
    wait_duration_seconds_count{protocol="poolcounter",outcome="timed_out"} 1
    wait_duration_seconds_count{protocol="poolcounter",outcome="cancelled"} 1
    wait_duration_seconds_count{protocol="poolcounter",outcome="done"} 0
    wait_duration_seconds_bucket{protocol="poolcounter",outcome="timed_out",le="0.001"} 0
    wait_duration_seconds_bucket{protocol="poolcounter",outcome="timed_out",le="+Inf"} 1
    hold_duration_seconds_count{protocol="poolcounter"} 2
    connections{protocol="poolcounter"} 0
    connections_opened_total{protocol="poolcounter"} 3
    connections_closed_total{protocol="poolcounter",reason="peer"} 3
    connections_closed_total{protocol="counter",reason="killed"} 0
    accept_errors_total{protocol="counter"} 0
    send_errors_total{protocol="poolcounter"} 0
    output_full_total{protocol="poolcounter"} 0
    received_bytes_total{protocol="counter"} 0
    table_memory_limit_bytes 1073741824
    table_names_made_total 1
    collections_total 0
    worker_connections{worker="0"} 0
    worker_connections{worker="1"} 0
    log_lines_total{level="error"} 0
    log_lines_dropped_total{reason="rate"} 0
    log_lines_dropped_total{reason="lost"} 0
    pool_members{pool="p",state="free"} 2
    pool_members{pool="\\\\xff",state="down"} 0
    pool_members{pool="\\xff",state="down"} 0
    pool_members{pool="{\"\\x01",state="down"} 0
    pool_waiting{pool="p"} 0
    pool_want{pool="j"} 0
    pool_late{pool="p"} 0
    pool_takes_total{pool="p",for="use",outcome="busy"} 1
    pool_moves_total{pool="p",why="add"} 2
    pool_hold_duration_seconds_count{pool="p"} 0
    END
$ grep -E '^(counterd_(received|sent)_bytes_total.protocol="poolcounter"|counterd_wait_duration_seconds_sum.protocol="poolcounter",outcome="timed_out"|counterd_answer_duration_seconds_count.protocol="poolcounter"|counterd_table_memory_bytes|counterd_worker_cpu_seconds_total|process_(resident|virtual)_memory_bytes|process_(open|max)_fds|process_cpu)' metrics | awk '$2 <= 0'
$ awk -v now=$(date +%s) '/^(process|counterd)_start_time_seconds/ { n += now - $2 < 600 && $2 < now + 2 } /^counterd_worker_busy/ { busy += $2 } END { print n, (busy > 0) }' metrics
> 2 1
$ grep -o 'answer_duration_seconds_bucket{protocol="poolcounter",le="[^"]*' metrics | cut -d'"' -f4 | xargs
> 0.000001 0.0000025 0.000005 0.00001 0.000025 0.00005 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 25 50 100 250 500 1000 +Inf
$ grep 'answer_duration_seconds_bucket{protocol="poolcounter"' metrics | awk '$2 < last { print } { last = $2 }'

== samples beyond the bound of a metric are left out and counted
daemon admin.port=0 pools.max=1003
a@ {text}
a<= b"".join(b"POOL ADD p%d\n" % i for i in range(1003))
until ask {admin} <<<'/api/v1/stats resources.pools.pools => 200 1003'
$ ask {admin} <<<'/metrics' >metrics; grep -E '^# counterd_pool_(waiting|hold).* left' metrics
> # counterd_pool_waiting: 3 samples are left out
> # counterd_pool_hold_duration_seconds: 3 samples are left out
$ grep -c '^counterd_pool_waiting' metrics
> 1000
a> OK
...

== history has what happened second by second
until ask {admin} <<<'/api/v1/history?seconds=1 series.names => 200 [0.0]'
a@ {text}
b@ {text}
a< ACQ4ME k 1 9 0
a> LOCKED
b< ACQ4ME k 1 9 0
b> TIMEOUT
b< ACQ4ME k 1 1 0
b> QUEUE_FULL
b< ACQ4ME k 1 9 0.01
b> TIMEOUT
$ cat >sums <<'END'
    import json, sys
    history = json.load(sys.stdin)
    sums = {name: sum(value or 0 for value in values) for name, values in history["series"].items()}
    # Rates are over a little more or less than a second.
    for name, most in ("requests", 4), ("granted", 1), ("refused", 2), ("timed_out", 1):
        assert 0.7 * most < sums[name] < 1.5 * most, (name, sums)
    assert history["series"]["requests"][0] is None and len(history["series"]["busy"]) == 600
    assert [history["series"][name][-1] for name in ("units", "names", "connections")] == [1, 1, 2]
    END
until ask {admin} <<<'/api/v1/history?seconds=600' | cut -c5- | python3 sums
$ ask {admin} <<'END'
    shape /api/v1/history => {end:n,interval_seconds:n,seconds:n,series:{busy:[-|n],connections:[-|n],granted:[-|n],names:[-|n],refused:[-|n],requests:[-|n],timed_out:[-|n],units:[-|n],wait_max_seconds:[-|n],wait_p50_seconds:[-|n],wait_p99_seconds:[-|n],waiting:[-|n]}}
    /api/v1/history seconds series.requests.# => 200 300 300
    /api/v1/history?seconds=1 series.names => 200 [1.0]
    /api/v1/stats recent.waits.count => 200 1
    END

== names of any bytes are listed and found
h$ counterctl -s {binary} batch
each n | name | text | id
    1 | plain | plain | plain
    2 | a/b | a/b | a%2Fb
    3 | \x00 | \\x00 | %00
    4 | a\x00b | a\\x00b | a%00b
    5 | \xff\xfe | \\xff\\xfe | %FF%FE
    6 | \xc3\xa9 | é | %C3%A9
    7 | \\xff | \\\\xff | %5Cxff
    8 | "&?#%\x20+ | \"&?#% + | %22%26%3F%23%25%20%2B
    9 | .. | .. | ..
h< acquire {name} {n} 10
h> ok {n}
$ ask {admin} <<'END'
    /api/v1/names names => 200 [{"name":"{text}","id":"{id}","in_use":{n},"peak":{n},"limit":10,"waiting":0,"holders":1}]
    /api/v1/names/{id} id in_use limit holders_total holders.0.units holders.0.protocol => 200 {id} {n} 10 1 {n} counter
    /api/v1/names?prefix={id} names.# => 200 1
    /api/v1/names?prefix=x names.# examined cursor => 200 0 1 null
    /api/v1/names/{id}x => 404 ...no such name...
    /api/v1/names/{id}%00 => 404 ...no such name...
    END
? 0
h eof
h? 0
until ask {admin} <<<'/api/v1/names/{id} in_use => 200 0'

== pages have every name once
h$ { for ((i = 0; i < 5000; i++)); do printf 'acquire %s%04d %d 1000\n' $([ $((i % 10)) = 0 ] && echo m || echo n) $i $((i * 7919 % 500 + 1)); done; cat; } | counterctl -s {binary} batch >/dev/null
until ask {admin} <<<'/api/v1/stats names => 200 5000'
$ ask {admin} <<'END'
    walk /api/v1/names?limit=1000 names => 5000 items, 5000 different, in no order
    walk /api/v1/names?limit=70 names => 5000 items, 5000 different, in no order
    walk /api/v1/names?limit=100&prefix=m names => 500 items, 500 different, in no order
    walk /api/v1/names names => 5000 items, 5000 different, in no order
    /api/v1/names?sort=name&limit=10 names.0.name names.9.name cursor examined => 200 m0000 m0090 null 5000
    /api/v1/names?sort=waiting&limit=10 names.0.name names.9.name => 200 m0000 m0090
    /api/v1/names?sort=in_use names.# cursor => 200 100 null
    /api/v1/names?sort=in_use&limit=1 names.# names.0.in_use => 200 1 500
    /api/v1/names?sort=in_use&limit=11 names.9.in_use names.10.in_use => 200 500 499
    /api/v1/names?sort=peak&limit=1000 names.# names.999.in_use => 200 1000 401
    /api/v1/names?sort=in_use&prefix=n001 names.# => 200 9
    END
$ ask {admin} <<<'/api/v1/names?sort=in_use&limit=1000 names' | cut -c5- | python3 -c '
    import json, sys
    rows = [(-name["in_use"], name["name"]) for name in json.load(sys.stdin)]
    print(rows == sorted(rows))'
> True
? 0
h eof

== long names are listed fewer at a time
h$ python3 -c '
    import socket, struct, sys
    sock = socket.create_connection(sys.argv[1].split(":"))
    for i in range(1, 13):
        name = struct.pack(">I", i) + 60000 * b"\xff"
        sock.sendall(struct.pack(">BBHIIIIH", 0x90, 2, 0, len(name) + 10, i, i, 1000, len(name)) + name)
        assert sock.recv(99)[2] == 0
    sys.stdin.read()' {binary}
until ask {admin} <<<'/api/v1/stats names => 200 12'
$ ask {admin} <<'END'
    walk /api/v1/names?limit=1000 names => 12 items, 12 different, in no order
    /api/v1/names?sort=in_use&limit=1000 names.0.in_use => 200 12
    END
$ for query in limit=1000 'sort=in_use&limit=1000'; do
        ask {admin} <<<"/api/v1/names?$query @Content-Length names.#" | awk '{ print ($2 < 4194304), ($3 >= 1 && $3 <= 8) }'
    done
> 1 1
> 1 1
? 0
h eof

== a client that holds members and units of their counter is one holder
a@ {text}
b@ {text}
c@ {text}
a<= b"POOL ADD db\n" + b"".join(b"MEMBER ADD db m%d\n" % i for i in range(6)) + b"TAKE db count=4\n"
a> ...
a> TAKEN db ...
b< TAKE db count=2
b> TAKEN db ...
a< ACQ4ME pool:db 50 999 0
a> ...
a> LOCKED
c< ACQ4ME pool:db 50 999 0
c> LOCKED
$ ask {admin} <<'END'
    /api/v1/names/pool%3Adb in_use holders_total holders.# => 200 8 4 3
    /api/v1/names/pool%3Adb holders.0.units holders.0.limit holders.1.units holders.2.units holders.2.limit => 200 5 50 2 1 50
    END

== holders and waiters are named
a@ {text}
b@ {text}
c@ {text}
d@ {text}
a< ACQ4ME k 2 9 0
a> LOCKED
b< ACQ4ANY k 2 9 0
b> LOCKED
c< ACQ4ME k 2 9 1000
until ask {admin} <<<'/api/v1/names/k waiting => 200 1'
d< ACQ4ANY k 2 9 1000
until ask {admin} <<<'/api/v1/names/k waiting => 200 2'
$ ask {admin} <<'END'
    shape /api/v1/names/k => {holders:[{client:s,connection:s,held_seconds:n,limit:n,protocol:s,since:n,transport:s,units:n}],holders_total:n,id:s,in_use:n,limit:n,name:s,peak:n,waiters:[{client:s,connection:s,kind:s,limit:n,protocol:s,since:n,transport:s,units:n,waited_seconds:n}],waiting:n}
    /api/v1/names/k in_use peak limit holders_total holders.# waiters.# => 200 2 2 2 2 2 2
    /api/v1/names/k waiters.0.kind waiters.1.kind waiters.0.transport holders.1.client => 200 me any tcp 127.0.0.1:...
    shape /api/v1/connections => {connections:[{age_seconds:n,client:s,connection:s,holds:n,opened:n,protocol:s,queued_bytes:n,transport:s,waits:n}],cursor:-}
    END
$ ask {admin} <<<'/api/v1/connections connections' | cut -c5- | python3 -c '
    import json, sys, time
    rows = sorted(json.load(sys.stdin), key=lambda row: row["opened"])
    print(sorted((row["holds"], row["waits"], row["queued_bytes"]) for row in rows))
    assert all(0 <= row["age_seconds"] < 600 and abs(row["opened"] - time.time()) < 600 for row in rows)'
> [(1, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 0)]
$ ask {admin} <<<'/api/v1/names/k holders.0.connection'
> 200 {id=[0-9.]+}
$ ask {admin} <<'END'
    POST /api/v1/connections/{id}/kill?x=1 | {M} => 400 ...no parameter...
    POST /api/v1/connections/{id}/kill => 401 ...
    POST /api/v1/connections/{id}/kill | {M} => 200 {"killed":"{id}"}
    END
c> LOCKED
$ ask {admin} <<'END'
    POST /api/v1/connections/{id}/kill | {M} => 404 ...{id}...
    POST /api/v1/connections/0.0.99999/kill | {M} => 404 ...no connection...
    POST /api/v1/connections/9.0.1/kill | {M} => 404 ...no connection...
    POST /api/v1/connections/255.0.1/kill | {M} => 404 ...no connection...
    POST /api/v1/connections/0.16777213.1/kill | {M} => 404 ...no connection...
    /api/v1/stats protocols.0.connections.closed.killed => 200 1
    END
$ for bad in x 0 0.0 0.0.0.0 0.0.-1 %30.0.1 '' 00000000000000000000000000000000000000000000.0.1; do
        echo "POST /api/v1/connections/$bad/kill | {M} => 400 ...names no connection..."
    done | ask {admin}

== connections are listed page by page
h$ python3 -c '
    import socket, sys
    all = [socket.create_connection(at.split(":")) for at in sys.argv[1:] for _ in range(300)]
    sys.stdin.read()' {text} {binary}
until ask {admin} <<<'/api/v1/stats protocols.0.connections.open protocols.1.connections.open => 200 300 300'
$ ask {admin} <<'END'
    walk /api/v1/connections?limit=1000 connections.connection => 600 items, 600 different, ...
    walk /api/v1/connections?limit=7 connections.connection => 600 items, 600 different, ...
    walk /api/v1/connections?limit=250&protocol=counter connections.connection => 300 items, 300 different, ...
    walk /api/v1/connections?limit=250&protocol=counter connections.protocol => 300 items, 1 different, ...
    walk /api/v1/connections?protocol=poolcounter connections.connection => 300 items, 300 different, ...
    END
? 0
h eof

== contended names are listed
a@ {text}
b@ {text}
a< ACQ4ME busy 1 9 0
a> LOCKED
b< ACQ4ME busy 1 9 0
b> TIMEOUT
b< ACQ4ME busy 1 9 0
b> TIMEOUT
a<= b"ACQ4ME " + 300 * b"l" + b" 1 9 0\n"
a> LOCKED
b<= b"ACQ4ME " + 300 * b"l" + b" 1 9 0\n"
b> TIMEOUT
$ ask {admin} <<'END'
    shape /api/v1/contended?by=refused => {bound:n,by:s,half_life_seconds:n,names:[{exists:b,holders:n,id:-,in_use:n,limit:n,name:s,peak:n,refused_error:n,refused_per_second:n,truncated:b,waiting:n,waiting_error:n,waiting_load:n}|{...id:s,...}]}
    /api/v1/contended?by=refused by names.# names.0.name names.0.id names.0.in_use names.0.limit names.0.exists => 200 refused 2 busy busy 1 1 true
    /api/v1/contended?by=refused names.0.truncated names.1.truncated names.1.id names.1.name.# => 200 false true null 255
    /api/v1/contended?by=refused names.0.refused_per_second => 200 0.02...
    /api/v1/contended?by=refused&limit=1 names.# => 200 1
    /api/v1/contended?by=peak names.# => 200 2
    END
? 0
b< ACQ4ME busy 1 9 100
until ask {admin} <<<'/api/v1/contended by names.# names.0.waiting => 200 waiting 1 1'
