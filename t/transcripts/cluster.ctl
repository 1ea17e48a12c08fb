# cluster: what it asks, and what it makes of the answers. The last part is with real nodes and a Redis.
let live = {"enabled":true,"state":"live","node":"a:7531","session":"0123456789abcdef","engine":"127.0.0.1:6379","term":"3f2a1b9c00000000000000000000000000000000:9d8e7f6a11111111111111111111111111111111","grace":false,"refused":"","advice":[],"lease":10.0,"lease_left":8.125,"patience":1.0,"prefix":"counterd","strict":"licence:*,b","loose":"render:*","requests":3,"waits":2,"beats":21,"calls":4,"ops":10,"round_trip":0.000244140625,"asserted":7,"reaped":8,"leases_lost":1,"connections_closed":6,"reconnects":{"closed":2,"slow":1,"deaf":0},"nodes":[{"node":"a:7531","session":"00aa","state":"live","this":true,"same_patterns":true,"beat":17,"beat_age":0.5,"names":3,"waits":1,"units":5}]}
let a = {"node":"a:7531","session":"00aa","state":"live","this":true,"same_patterns":true,"beat":17,"beat_age":0.5,"names":3,"waits":1,"units":5}
let b = {"node":"b:7531","session":"00bb","state":"live","this":false,"same_patterns":true,"beat":17,"beat_age":-1,"names":3,"waits":0,"units":-1}
let other = {"node":"b:1","session":"00bb","state":"live","this":false,"same_patterns":false,"beat":17,"beat_age":1,"names":3,"waits":0,"units":1}
let ended = {"node":"c:7531","session":"00cc","state":"ended","this":false,"same_patterns":false,"beat":17,"beat_age":12.0,"names":3,"waits":1,"units":5}
let page = /api/v1/cluster
let cluster = counterctl --admin {mock} cluster

== this node and all nodes
route {page} {live} + {"nodes":[{a},{b},{ended}],"advice":["a fourth Sentinel helps nobody: have an odd number","and this"]}
$ {cluster}
a:7531: live, session 0123456789abcdef
>   engine      127.0.0.1:6379, term 3f2a1b9c:9d8e7f6a
>   lease       8.1 s left of 10.0 s
>   patience    1.0 s
>   prefix      counterd
>   strict      licence:*,b
>   loose       render:*
>   requests    3 now, 2 of them waits
>   calls       4, 2.5 ops a call, 244 us round trip; 21 beats
>   asserted    7; reaped 8
>   leases lost 1, with 6 connections closed
>   reconnects  3: closed 2, slow 1
>
STATE  LAST BEAT  NAMES  UNITS  WAITS  NODE
live      500 ms      3      5      1  a:7531  (this node)
live           -      3      -      0  b:7531
ended     12.0 s      3      5      1  c:7531
>
advice: a fourth Sentinel helps nobody: have an odd number
advice: and this
asked GET {page}
asked none

== other patterns are marked
route {page} {live} + {"nodes":[{a},{other}]}
$ {cluster} | tail -n1
> ...b:1  (other patterns)

== grace
route {page} {live} + {"grace":true}
$ {cluster} | grep lease
>   lease       8.1 s left of 10.0 s; grace: nothing strict is granted
>   leases lost ...
$ {cluster} check
> live, and nothing to set

== a lease that is over
route {page} {live} + {"state":"away","lease_left":0,"engine":"","term":"","session":"","calls":0,"ops":0,"strict":"","reconnects":{},"nodes":[]}
$ {cluster}
a:7531: away
>   engine      none is connected
>   lease       over, of 10.0 s: nothing strict is granted
>   patience    1.0 s
>   prefix      counterd
>   strict      none
>   loose       render:*
>   requests    3 now, 2 of them waits
>   calls       0, - ops a call, - round trip; 21 beats
>   asserted    7; reaped 8
>   leases lost 1, with 6 connections closed
>   reconnects  0

== a node that is away says why
route {page} {live} + {"state":"away","reason":"h:1: Connection refused","reason_age":75.2,"reason_times":61,"nodes":[],"reasons_before":[{"reason":"too slow","reason_age":80,"reason_times":1}]}
$ {cluster} | sed -n 2,5p
>   reason      h:1: Connection refused
>   times       61, the first 1m 15s ago
>   before      too slow
>   times       1, the first 1m 20s ago
$ {cluster} check
not live: away
reason: h:1: Connection refused
? 1

== a node that is refused says why
route {page} {live} + {"state":"refused","refused":"maxmemory-policy is allkeys-lru: set noeviction","nodes":[]}
$ {cluster} | grep refused
> a:7531: refused...
>   refused     maxmemory-policy is allkeys-lru: set noeviction
$ {cluster} check
not live: refused
refused: maxmemory-policy is allkeys-lru: set noeviction
? 1

== what check says
each change | line | status
    {"x":1} | live, and nothing to set | 0
    {"state":"connecting"} | not live: connecting; the server's log says why | 1
    {"advice":["set save \"\" at the engine"]} | advice: set save "" at the engine | 1
    {"nodes":[{a},{other},{ended}]} | b:1: has other patterns; set cluster.strict and cluster.loose... | 1
    {"nodes":[{a},{other}],"advice":["b:1 has other patterns"]} | advice: b:1 has other patterns | 1
route {page} {live} + {change}
$ {cluster} check
> {line}
? {status}

== check says advice and other patterns
route {page} {live} + {"nodes":[{a},{other}],"advice":["set save, b:1"]}
$ {cluster} check | sort
advice: set save, b:1
> b:1: has other patterns...

== json is the answer as it is
each words
    -j
    check -j
    licence:x --json
route {page} {live}
$ {cluster} {words}
> {live}

== a name by node
route {page} {live} + {"name":{"name":"odd\\x0a\\\\name","class":"strict","units":4,"waits":2,"nodes":[{"node":"a:7531","units":3,"waits":0},{"node":"b:7531","units":1,"waits":2}]}}
$ {cluster} $'odd\n\\name'
odd\x0a\\name: strict, 4 in use and 2 waiting on all nodes
> UNITS  WAITS  NODE
>     3      0  a:7531
>     1      2  b:7531
asked GET {page}?name=odd%0A%5Cname
asked none
$ {cluster} -e 'odd\x0a\\name' | head -n1
odd\x0a\\name: strict...
asked GET {page}?name=odd%0A%5Cname

== names that are words of the command
each name | given
    acl | \x61cl
    check | \x63heck
route {page} {live} + {"name":{"name":"{name}","class":"strict","units":0,"waits":0,"nodes":[]}}
$ {cluster} --escapes '{given}'
{name}: strict, ...
...
asked GET {page}?name={name}
$ {cluster} -e '\x6'
! counterctl: ...the name is wrong...
? 64

== a name that is not shared
route {page}?name=mine 404 {"error":{"status":404,"reason":"the name is not shared"}}
route {page} {live}
$ {cluster} mine
! counterctl: ...the name is not shared (404)...
? 1
route {page}?name=mine {live} + {"name":{"name":"mine","class":"own","units":0,"waits":0,"nodes":[]}}
$ {cluster} mine
! counterctl: ...this node's own...
? 1

== a name while the engine is away
route {page} 503 {"error":{"status":503,"reason":"the engine is away"}}
$ {cluster} licence:x
! counterctl: ...the engine is away (503)...
? 69

== a server without an engine
each words
    -q
    check
    name
route {page} {"enabled":false}
$ words='{words}'; {cluster} ${words#-q}
! counterctl: ...the server at {mock} shares no limits: it has no cluster.engine...
? 1
$ words='{words}'; {cluster} -j ${words#-q}
> {"enabled":false}
! ...
? 1

== a server that is too old
$ {cluster}
! counterctl: ...older than this counterctl...
? 1
$ {cluster} check
! counterctl: ...older than this counterctl...
? 1
asked GET {page}
asked GET {page}
$ {cluster} name
! counterctl: ...older than this counterctl...
? 1
asked GET {page}?name=name
asked GET {page}
asked none

== answers of the wrong shape
route {page} {"enabled":true,"nodes":[null,{},{"node":7,"this":1}],"reconnects":[1],"advice":[{}],"term":":","name":{"nodes":[3]}}
$ {cluster}
...
$ {cluster} n
...
$ {cluster} check
...
? 1

== answers that are none
each answer
    no JSON
    [1]
route {page} {answer}
$ {cluster}
! counterctl: ...
? 76

== hostile bytes do no harm
let bad = \u001b[2J\u202e\u0007\n
route {page} {live} + {"node":"{bad}","state":"{bad}","engine":"{bad}","strict":"{bad}","loose":"{bad}","refused":"{bad}","advice":["{bad}"],"reconnects":{"{bad}":1},"prefix":"{bad}","session":"{bad}","term":"{bad}:{bad}","nodes":[{"node":"{bad}","state":"{bad}","same_patterns":false}],"name":{"name":"{bad}","class":"{bad}","units":1,"waits":0,"nodes":[{"node":"{bad}","units":1,"waits":0}]}}
$ for words in '' check x; do {cluster} $words >out; grep -c '\\x1b\[2J\\xe2\\x80\\xae\\x07\\x0a' out; LC_ALL=C grep '[^ -~]' out; done
> {=[1-9]\d*}
> 4
> {=[1-9]\d*}
? 1

== the access list
let acl = ACL SETUSER USER on >PASSWORD resetkeys ~{counterd}:* resetchannels &{counterd}:* -@all +info +evalsha +script|load +subscribe +publish +hget +hmget +hset +hdel +hincrby +hgetall +hlen +hscan +exists +unlink +sadd +srem +sismember +srandmember +zadd +zrem +zrange +zpopmin +zcard +zscore
$ counterctl cluster acl
> {acl}
$ counterctl cluster acl --db 0
> {acl}
$ counterctl cluster acl --db=3 -p wiki_1-b | sed 's/wiki_1-b/counterd/g'
> {acl} +select
$ counterctl cluster acl --json
> {"acl":"{acl}"}
$ counterctl cluster acl --prefix $(printf %32s | tr ' ' x)
...

== the access list is what scripts call and what a node asks for
$ cd {top}/src/cluster/scripts; allowed=$(counterctl cluster acl | grep -o '+[a-z|]*' | cut -c2- | sort)
    called=$(grep -ohE "\bcall\(\s*['\"][A-Za-z]+" *.lua | sed "s/.*['\"]//" | tr A-Z a-z | sort -u)
    [ $(wc -w <<<$called) -gt 10 ]; comm -23 <(echo "$called") <(echo "$allowed")
    sed -n '/local needed = {/,/^}/p' open.lua | grep -oE "\{'[a-z|]+'" | tr -d "{'" | sort | diff - <(echo "$allowed")

== an access list that makes no sense
each words | why
    acl --prefix '' | cluster.prefix
    acl --prefix A | cluster.prefix
    acl --prefix 'a b' | cluster.prefix
    acl --prefix a:b | cluster.prefix
    acl --prefix ä | cluster.prefix
    acl --prefix $(printf %33s|tr ' ' x) | cluster.prefix
    acl --db -1 |
    acl --db x | --db
    acl --db 2147483648 | --db
    --db 0 | --prefix and --db of cluster are for acl
    check --db 0 | --prefix and --db of cluster are for acl
    name --db 0 | --prefix and --db of cluster are for acl
$ counterctl cluster {words}
! counterctl: ...{why}...
? 64

== Redis takes the access list
redis
$ counterctl cluster acl --db 1 | redis-cli -s {redis}
OK
$ ask() { redis-cli -s {redis} ACL DRYRUN USER "$@"; }; key={counterd}:units none=$(printf %040d 0)
    ask INFO server; ask SELECT 1; ask SCRIPT LOAD 'return 1'; ask EVALSHA $none 1 {counterd}:; ask SUBSCRIBE {counterd}:to:00
    ask PUBLISH {counterd}:to:00 'B 1'; ask HINCRBY $key n 1; ask ZPOPMIN $key; ask UNLINK $key
OK
OK
OK
OK
OK
OK
OK
OK
OK
$ ask() { redis-cli -s {redis} ACL DRYRUN USER "$@" | grep -cx OK; }
    ask HGET {else}:units n; ask EVALSHA $(printf %040d 0) 1 {else}:; ask DEL {counterd}:units; ask SUBSCRIBE {else}:to:00
    ask FLUSHALL; ask CONFIG GET '*'; ask SCRIPT FLUSH; ask EVAL 'return 1' 0; ask KEYS '*'
> 0
> 0
> 0
> 0
> 0
> 0
> 0
> 0
> 0
? 1

== two nodes, and a third that has other patterns
redis
let node = cluster.engine=unix:{redis} cluster.lease=2 cluster.loose=l-* admin.port=0
daemon {node} cluster.node=a cluster.strict=s-*
let a = {admin}
let one = {text}
daemon {node} cluster.node=b cluster.strict=s-*
let b = {admin}
let two = {text}
let ask = counterctl --admin {a} cluster
let live = curl -sf http://{a}/api/v1/cluster
until {ask} | grep -q '^live .*  b$' && {ask} check && counterctl --admin {b} cluster check
c@ {one}
c< ACQ4ME s-x 2 9 5
c> LOCKED
d@ {two}
d< ACQ4ME s-x 2 9 5
d> LOCKED
e@ {two}
e< ACQ4ME s-x 2 9 1000
until {ask} s-x | grep ' 1 waiting'
$ {ask} s-x | (read -r line; echo "$line"; read -r line; echo "$line"; sort -k3)
s-x: strict, 2 in use and 1 waiting on all nodes
UNITS  WAITS  NODE
>     1      0  a
>     1      1  b
$ {ask} | sed -n '1p; /this node/p'
a: live, session ...
> live ...  a  (this node)
$ {ask} own
! counterctl: ...the name is not shared...
? 1
$ {ask} -e 's-\x00\xff' | head -n1
s-\x00\xff: strict, 0 in use...
daemon {node} cluster.node=c cluster.strict=s-*,t-*
until {ask} | grep 'c  (other patterns)'
$ {ask} check
advice: node c has other patterns: set cluster.strict...
? 1
redis off
until {ask} check | grep '^not live: '
$ {ask} s-x
! counterctl: ...the engine is away...
? 69
