# The admin interface of the daemon.
daemon admin.token=s3cret-token counter.threads=2
until echo s3cret-token >token; chmod 600 token

== holders and waiters are listed, and their connections are killed
a$ counterctl -s {text} run 'odd key' --strict -- cat
a< x
a> x
c@ {text}
c< ACQ4ANY odd%20key 1 9 1000
until counterctl -s {text} stats --text | grep -q 'waiting_workers *1'
$ counterctl --admin {admin} holders -j odd%20key
> {..."id":"odd%2520key",..."in_use":1,...,"holders":[{"connection":"{id=[0-9.]+}",...}],"waiters":[{..."kind":"any"...}]}
$ counterctl --admin {admin} holders odd%20key
odd%20key: 1 in use...
> holders: 1 of 1
...
> waiters: 1 of 1
...
$ counterctl --admin {admin} connections | grep -c ' *{id} '
> 1
$ counterctl --admin {admin} kill {id}
! counterctl: ...
! ...
? 77
$ counterctl --admin {admin} kill {id} --token-file token
> killed {id}
a! ...gets TERM...
a? 79
c> LOCKED
$ counterctl --admin {admin} kill {id} --token-file token
! counterctl: ...
? 1
$ counterctl --admin {admin} kill x.y --token-file token
! counterctl: ...
? 1|64
$ counterctl --admin {admin} holders none
! counterctl: ...
? 1

== lists
h$ counterctl -s {binary} batch
h< acquire busy\x20\x01\xff 3 3
h> ok 3
$ counterctl -s {binary} acquire -qe 'busy \x01\xff' 1 3
? 75
$ counterctl --admin {admin} contended --by refused -j
> {..."names":[{"name":"busy \\x01\\xff",...
$ counterctl --admin {admin} contended --by peak
...
> {= *3 +3 +3 .*}busy \x01\xff
$ counterctl --admin {admin} connections -j --protocol counter
> {..."protocol":"counter"...}
c@ {text}
c< STATS COUNTERS
c> ...
$ counterctl --admin {admin} connections --limit 1 | wc -l
> 2

== config, reload and loglevel
# cannot: upgrade reload because both set the level again
$ counterctl --admin {admin} config | grep -E 's3cret|threads'
counter.threads {= +}2 ...
$ counterctl --admin {admin} loglevel debug --token-file token
debug
$ counterctl --admin {admin} loglevel
debug
$ counterctl --admin {admin} reload --token-file token
{=.+}
...
$ counterctl --admin {admin} reload
! counterctl: ...
! ...
? 77

== one frame of top, as the metrics have it
c@ {text}
c< ACQ4ME busy-name 1 9 0
c> LOCKED
d@ {text}
d< ACQ4ME busy-name 1 9 0
d> TIMEOUT
$ counterctl --admin {admin} top --once --by refused
...
> ...names 1  units 1  waiting 0  conns {=\d}...
...
> ...*REFUSED...
...
> ...busy-name
...
$ counterctl --admin {admin} top --once --json >top; python3 -c '
    import json, urllib.request
    top = json.load(open("top"))
    print(sorted(top), len(top["history"]["series"]["requests"]))
    refused = {p["name"]: p["refused"] for p in top["stats"]["protocols"]}["poolcounter"]
    metrics = urllib.request.urlopen("http://{admin}/metrics").read().decode()
    print(refused, "counterd_refused_total{protocol=\"poolcounter\"} %d\n" % refused in metrics)'
> ['contended', 'history', 'pools', 'stats', 'tubes'] 600
> 1 True

== top shows percentiles that no wait exceeds
c@ {text}
c< ACQ4ME waited-name 1 9 0
c> LOCKED
d@ {text}
d< ACQ4ME waited-name 1 9 0.21
d> TIMEOUT
until counterctl --admin {admin} top --once --json >top; python3 -c '
    import json
    waits = json.load(open("top"))["stats"]["recent"]["waits"]
    most = waits["max_seconds"]
    assert waits["count"] == 1 and most >= 0.2
    assert all(0.95 * most <= waits[p + "_seconds"] <= most for p in ("p50", "p90", "p99"))'
