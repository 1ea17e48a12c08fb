# The tubes, jobs and pools of the admin interface, as api.ctl.
let M = Authorization: Bearer s3cret
daemon admin.token=s3cret jobs.enable=true jobs.port=0 counter.threads=2

== tubes and jobs are listed, shown and changed
each options
    counter.threads=2
    jobs.path={dir}/jobs.db
daemon {options} jobs.enable=true jobs.port=0 admin.token=s3cret jobs.max_job_size=100000
j@ {jobs}
j< tube a+b read-only=moving
j> OK {=\d+}
j> ...
j< use wiki/mail
j> USING wiki/mail
j<< put 7 0 1000 1\r\nx\r\nput 7 0 1000 1\r\nx\r\nput 9999 0 1000 1\r\nx\r\nput 7 1000 1000 1\r\nx\r\n
j> INSERTED {one=\d+}
j> INSERTED {two=\d+}
j> INSERTED {=\d+}
j> INSERTED {four=\d+}
j< reserve-job {one}
j> RESERVED {one} 1
j> x
j< bury {one} 7
j> BURIED
j< reserve-job {two}
j> RESERVED {two} 1
j> x
$ ask {admin} <<'END'
    shape /api/v1/tubes => {cursor:-,tubes:[{...}...]}
    shape /api/v1/tubes/wiki%2Fmail => {tube:{id:s,jobs:n,name:s,oldest_ready_seconds:n,pause_left_seconds:n,pause_seconds:n,settings:{claim:s,limit:n,order:s,prune:n,read_only:s,remember:n,tries:n},states:{abandoned:n,buried:n,delayed:n,ready:n,reserved:n},totals:{abandoned:n,acks:n,claims:n,dropped:n,duplicates:n,puts:n,recycled:n},urgent:n,using:n,waiting:n,watching:n}}
    /api/v1/tubes tubes.# tubes.0.id tubes.0.settings.read_only tubes.0.oldest_ready_seconds tubes.1.name tubes.2.id => 200 3 a%2Bb moving null default wiki%2Fmail
    /api/v1/tubes/wiki%2Fmail tube.states => 200 {"ready":1,"delayed":1,"reserved":1,"buried":1,"abandoned":0}
    /api/v1/tubes/wiki%2Fmail tube.jobs tube.urgent tube.totals.puts tube.totals.claims tube.settings.order => 200 4 0 4 2 priority
    /api/v1/tubes?prefix=wiki%2F tubes.# => 200 1
    /api/v1/stats resources.tubes.tubes resources.tubes.ready resources.tubes.buried resources.tubes.puts => 200 3 1 1 4
    /api/v1/jobs?tube=wiki/mail&state=buried jobs.# jobs.0.tries jobs.0.buries => 200 1 1 1
    shape /api/v1/jobs?tube=wiki/mail&state=delayed => {jobs:[{age_seconds:n,body_bytes:n,buries:n,delay_seconds:n,id:n,kicks:n,left_seconds:n,pri:n,releases:n,reserves:n,state:s,timeouts:n,tries:n,ttr_seconds:n}],next:-}
    /api/v1/jobs?tube=default jobs.# => 200 0
    POST /api/v1/jobs/{two}/kick | {M} => 409 ...
    POST /api/v1/jobs/{two}/delete | {M} => 409 ...
    POST /api/v1/jobs/{four}/kick done | {M} => 200 true
    POST /api/v1/jobs/{four}/kick | {M} => 409 ...
    POST /api/v1/jobs/{one}/kick done | {M} => 200 true
    POST /api/v1/jobs/{one}/delete done | {M} => 200 true
    POST /api/v1/jobs/{one}/delete | {M} => 404 ...
    POST /api/v1/jobs/{one}/kick | {M} => 404 ...
    /api/v1/jobs/{four} job.state => 200 ready
    POST /api/v1/tubes/wiki%2Fmail/pause?seconds=1000 done | {M} => 200 true
    /api/v1/tubes/wiki%2Fmail tube.pause_seconds => 200 1000
    POST /api/v1/tubes/wiki%2Fmail/pause?seconds=0 done | {M} => 200 true
    /api/v1/tubes/wiki%2Fmail tube.pause_seconds => 200 0
    POST /api/v1/tubes/a%2Bb/clear?state=all | {M} => 409 ...moving...
    END
$ for ((i = 0; i < 2500; i++)); do echo '{"tube":"many","body":"x"'$([ $i -lt 100 ] && echo ',"delay":1000')'}'; done | counterctl -s {jobs} jobs import >/dev/null 2>&1
$ ask {admin} <<'END'
    walk /api/v1/jobs?tube=many&limit=70 jobs.id => 2500 items, 2500 different, in order
    /api/v1/jobs?tube=many&state=delayed&limit=1000 jobs.# => 200 100
    POST /api/v1/tubes/many/clear?state=ready done deleted | {M} => 200 true 2400
    POST /api/v1/tubes/many/clear?state=all done deleted | {M} => 200 true 100
    /api/v1/jobs/{two} job.state => 200 reserved
    END

== a body is shown as text or base64
daemon admin.token=s3cret jobs.path={dir}/jobs.db jobs.enable=true jobs.port=0 jobs.max_job_size=100000
j@ {jobs}
j< use bodies/+
j> USING bodies/+
each body | encoding | cut | shown
    b"a\t\"\\x41\\\r\n\x7f\x1b[2J\xc3\xa4\xe2\x80\xae</script>" | text | false | a...</script>
    b"" | text | false |
    b"\xff" | base64 | false | /w==
    b"\xff\xfe" | base64 | false | //4=
    b"\xff\xfe\xfd" | base64 | false | //79
    b"a\0b" | base64 | false | YQBi
    b"cut \xc3" | base64 | false | Y3V0IMM=
    65536 * b"x" | text | false | x...x
    65537 * b"x" | text | true | x...x
    65534 * b"x" + b"\xe2\x80\xae" + 9 * b"x" | text | true | x...x
    65540 * b"\0" | base64 | true | AAA...AA==
j<= b"put 7 0 9 %d\r\n%b\r\n" % (len({body}), {body})
j> INSERTED {id=\d+}
$ ask {admin} <<'END'
    /api/v1/jobs/{id} job.tube job.tube_id job.encoding job.cut job.body => 200 bodies/+ bodies%2F%2B {encoding} {cut} {shown}
    END

== jobs are changed on disk, and a restarted daemon reads bodies from there
daemon jobs.enable=true jobs.port=0 jobs.path={dir}/jobs.db admin.token=s3cret
j@ {jobs}
j< use b
j> USING b
j<< put 7 1000 9 1\r\nx\r\nput 7 1000 9 1\r\nx\r\nput 7 1000 9 7\r\non disk\r\n
j> INSERTED {one=\d+}
j> INSERTED {two=\d+}
j> INSERTED {three=\d+}
$ ask {admin} <<'END'
    POST /api/v1/jobs/{one}/kick done | {M} => 200 true
    POST /api/v1/jobs/{two}/delete done | {M} => 200 true
    POST /api/v1/tubes/b/pause?seconds=1000 done | {M} => 200 true
    END
? 0
kill daemon
daemon jobs.enable=true jobs.port=0 jobs.path={dir}/jobs.db admin.token=s3cret
$ ask {admin} <<'END'
    /api/v1/tubes/b tube.states.ready tube.states.delayed tube.pause_left_seconds => 200 1 1 9...
    /api/v1/jobs?tube=b jobs.0.id jobs.1.id jobs.# => 200 {one} {three} 2
    /api/v1/jobs/{three} job.body job.tube => 200 on disk b
    POST /api/v1/jobs/{three}/delete done | {M} => 200 true
    /api/v1/jobs/{three} => 404 ...no such job...
    /metrics => 200 ...counterd_jobs_store_failing 0...
    END

== every tube is listed once while others come and go
$ for ((i = 0; i < 300; i++)); do printf '{"tube":"s%03d","body":""}\n' $((i * 7919 % 300)); done | counterctl -s {jobs} jobs import >/dev/null 2>&1
$ ask {admin} <<'END'
    walk /api/v1/tubes?prefix=s&limit=7 tubes => 300 items, 300 different, in order
    walk /api/v1/tubes?prefix=s&limit=30 tubes for i in 1 9; do counterctl -s {jobs} put $(printf 's%03d-' $(($1 * 31 % 30 * i))) <<<x; done >/dev/null => 30...different, in order
    END
$ ask {admin} <<<'/api/v1/tubes?prefix=s&limit=1000 tubes' | grep -o '"name":"s[0-9]*"' | sort -u | wc -l
> 300

== draining is switched on and off
$ ask {admin} <<'END'
    /api/v1/drain draining switched => 200 false false
    POST /api/v1/drain?jobs=on draining switched | {M} => 200 true true
    POST /api/v1/drain?jobs=on draining switched | {M} => 200 true true
    /api/v1/drain draining switched => 200 true true
    /metrics => 200 ...counterd_jobs_draining 1...
    /api/v1/stats resources.tubes.draining => 200 true
    POST /api/v1/drain?jobs=off draining switched | {M} => 200 false false
    END

== metrics have the largest tubes and the rest
$ for ((i = 0; i < 60; i++)); do for ((n = 0; n <= i; n++)); do echo '{"tube":"t'$i'","body":""}'; done; done | counterctl -s {jobs} jobs import >/dev/null 2>&1
$ echo '{"tube":"t3","body":"","state":"buried"}' | counterctl -s {jobs} jobs import >/dev/null 2>&1
$ ask {admin} <<'END'
    /metrics => 200 ...counterd_jobs{state="ready"} 1830...counterd_jobs_tubes 61...counterd_jobs_puts_total 1831...
    /metrics => 200 ...counterd_tube_jobs{tube="t59",state="ready"} 60...counterd_tube_jobs{tube="t10",state="ready"} 11...
    /metrics => 200 ...counterd_tube_jobs{tube="",state="ready"} 55...counterd_tube_jobs{tube="",state="buried"} 1...
    /metrics => 200 ...counterd_tube_waiting{tube=""} 0...counterd_tube_puts_total{tube="t59"} 60...
    END
$ ask {admin} <<<'/metrics' | grep -cE 'tube_jobs.tube="(t9|default)"|puts_total.tube=""|samples are left out'
> 0
? 1

== pools are listed and shown
a@ {text}
b@ {text}
$ ask {admin} <<<'/api/v1/pools => 200 {"pools":[],"cursor":null}'
? 0
a< POOL ADD db group=g clean_after=0.25 hold_warn=7
a> OK
a< MEMBER ADD db m1 s3cret-value k=v
a> OK
a< MEMBER ADD db m2 - k=w
a> OK
a< MEMBER SET db m2 state=down note=why
a> OK
a< TAKE db by=me
a> TAKEN db m1 ...
a< MEMBER SET db m1 state=dirty
a> OK
a< POOL ADD j kind=joined max=2
a> OK
a< SUPPLY j 1 2
a> OK
a> WANT j 1
a< JOIN j m 10.0.0.1:9222 size=big
a> JOINED
a< TAKE j
a> TAKEN j m ...
b< TAKE j 1000 by=you for=use member=m with=size=big
a> WANT j 2
until ask {admin} <<<'/api/v1/pools/j pool.waiting pool.want => 200 1 2'
$ ask {admin} <<'END'
    shape /api/v1/pools => {cursor:-,pools:[...{group:s,id:s,kind:s,late:n,late_starts:n,longest_hold_seconds:n,members:n,name:s,of_file:b,oldest_wait_seconds:-,options:{clean_after:n,clean_tries:n,hold_max:n,hold_warn:n,max:n,on_crash:s,on_fail:s,on_return:s,on_start:s,order:s,overtakes:n,queue_max:n},state:s,states:{checking:n,cleaning:n,dirty:n,down:n,free:n,stopping:n,taken:n},suppliers:n,waiting:n,want:-}]}
    shape /api/v1/pools/db => {cursor:-,members:[{attributes:{k:s},by:-,fails:n,fence:-,holder:-,id:s,joined_by:-,name:s,note:s,seconds:n,since:n,state:s,takes:n,then:-}|{attributes:{k:s},by:s,fails:n,fence:n,holder:{client:s,connection:s},id:s,joined_by:-,name:s,note:-,seconds:n,since:n,state:s,takes:n,then:s}],pool:{...},suppliers:[],waiters:[],waiters_cursor:-}
    shape /api/v1/pools/j => ...options:{cull_after:n,hold_max:n,hold_warn:n,lifetime_jitter:n,max:n,max_lifetime:n,min_free:n,on_crash:s,order:s,overtakes:n,queue_max:n,start_timeout:n,stop_timeout:n}...suppliers:[{client:s,connection:s,init:n,late:b,max:n,members:n,want:n}],waiters:[{by:s,client:s,connection:s,count:n,for:s,member:s,seconds:n,since:n,timeout_seconds:n,with:{size:s}}],waiters_cursor:-}
    /api/v1/pools pools.0.group pools.0.kind pools.0.options.clean_after pools.0.options.hold_warn pools.0.options.order => 200 g static 0.25 7 lifo
    /api/v1/pools pools.0.members pools.0.states.taken pools.0.states.down pools.0.want => 200 2 1 1 null
    /api/v1/pools/db members.0.name members.0.state members.0.by members.0.then members.0.attributes members.0.takes => 200 m1 taken me dirty {"k":"v"} 1
    /api/v1/pools/db members.1.note members.0.holder.client => 200 why 127.0.0.1:...
    /api/v1/pools/j waiters.0.by waiters.0.member waiters.0.for waiters.0.with waiters.0.timeout_seconds => 200 you m use {"size":"big"} 1000
    /api/v1/pools/j suppliers.0.init suppliers.0.max suppliers.0.members suppliers.0.want pool.want pool.suppliers => 200 1 2 1 2 2 1
    END
$ for target in /api/v1/pools /api/v1/pools/db /api/v1/stats /metrics /api/v1/names; do ask {admin} <<<$target; done | grep s3cret-value
? 1

== clients that clean or check do not queue
a@ {text}
b@ {text}
c@ {text}
a< POOL ADD db clean_after=0.25
a> OK
b< TAKE db 1000 for=clean
c< TAKE db 1000 for=check
until ask {admin} <<<'/api/v1/pools/db waiters.# => 200 2'
$ ask {admin} <<'END'
    /api/v1/pools/db pool.waiting pool.oldest_wait_seconds => 200 0 null
    /api/v1/stats resources.pools.waiting waiting => 200 0 0
    END
? 0
a< MEMBER ADD db m1 host:1
a> OK
c> TAKEN db m1 ...
$ ask {admin} <<<'/metrics => 200 ...counterd_pool_waiting{pool="db"} 0...counterd_pool_wait_duration_seconds_count{pool="db"} 0...'

== pools of any bytes are shown and found
a@ {text}
each bytes | name | id
    b"\xff" | \xff | %FF
    b"\\xff" | \\xff | %5Cxff
    b"\x01\x7f\"" | \x01\x7f" | %01%7F%22
    b"%2F/?#&" | %2F/?#& | %252F%2F%3F%23%26
    b"<b>\xe2\x80\xae" | <b>‮ | %3Cb%3E%E2%80%AE
a<= b"POOL ADD X group=X\nMEMBER ADD X X - k=X\nMEMBER SET X X note=X\nTAKE X by=X\n".replace(b"X", {bytes})
a> OK
a> OK
a> OK
a> TAKEN ...
$ ask {admin} <<'END'
    /api/v1/pools/{id} pool.name pool.id pool.group members.0.name members.0.id => 200 {name} {id} {name} {name} {id}
    /api/v1/pools/{id} members.0.by members.0.note members.0.attributes.k => 200 {name} {name} {name}
    /api/v1/pools?prefix={id} pools.# => 200 1
    POST /api/v1/pools/{id}/members/drop?member={id}&now=true done | {M} => 200 true
    END

== pools and their members are listed page by page while others come and go
a@ {text}
a<= b"POOL ADD db queue_max=100\n" + b"".join(b"POOL ADD pa%03d\nPOOL ADD pz%03d\nMEMBER ADD db ma%03d\nMEMBER ADD db mz%03d -\n" % (i, i, i, i) for i in range(300))
until ask {admin} <<<'/api/v1/pools/db pool.members => 200 600'
$ ask {admin} <<'END'
    walk /api/v1/pools?limit=7 pools => 601 items, 601 different, in order
    walk /api/v1/pools?limit=33&prefix=pa pools => 300 items, 300 different, in order
    walk /api/v1/pools?limit=200 pools for name in o pz; do counterctl -s {text} pool add $name$1; counterctl -s {text} pool drop pz$1; done >/dev/null 2>&1 => 6...different, in order
    walk /api/v1/pools/db?limit=7&waiters_limit=0 members => 600 items, 600 different, in order
    walk /api/v1/pools/db?limit=1000 members => 600 items, 600 different, in order
    walk /api/v1/pools/db?limit=200 members counterctl -s {text} pool member add db ma$1- -; counterctl -s {text} pool member drop db mz$(($1 - 1)) >/dev/null 2>&1 => 6...different, in order
    /api/v1/pools/db?limit=0&waiters_limit=0 members.# cursor waiters_cursor => 200 0 null null
    /api/v1/pools/db?limit=0&cursor=6d61&waiters_limit=0 members.# cursor => 200 0 null
    END
a> OK
...

== waiters are listed page by page
a@ {text}
a< POOL ADD db
a> OK
h$ python3 -c '
    import socket, sys
    all = [socket.create_connection(sys.argv[1].split(":")) for _ in range(40)]
    [sock.sendall(b"TAKE db 1000\n") for sock in all]
    sys.stdin.read()' {text}
until ask {admin} <<<'/api/v1/pools/db pool.waiting => 200 40'
$ ask {admin} <<'END'
    walk /api/v1/pools/db?waiters_limit=7 waiters.connection => 40 items, 40 different, ...
    END
? 0
h eof

== a page with long names and many attributes ends early
a@ {text}
a<= b"POOL ADD db\n" + b"".join(b"MEMBER ADD db m%03d.%b -%b\n" % (i, 195 * b"\1", b"".join(b" k%d=%b" % (k, 128 * b"\2") for k in range(16))) for i in range(200))
until ask {admin} <<<'/api/v1/pools/db?limit=0 pool.members => 200 200'
$ ask {admin} <<'END'
    walk /api/v1/pools/db?limit=1000 members => 200 items, 200 different, in order
    END
$ ask {admin} <<<'/api/v1/pools/db?limit=1000 members.#' | awk '{ print ($2 > 10 && $2 < 100) }'
> 1
a> OK
...

== members are changed and dropped
a@ {text}
b@ {text}
a< POOL ADD db
a> OK
a< MEMBER ADD db m
a> OK
$ ask {admin} <<'END'
    POST /api/v1/pools/db/members/set?member=m&state=down&note=f%C3%A4n done | {M} => 200 true
    /api/v1/pools/db members.0.state members.0.note => 200 down fän
    POST /api/v1/pools/db/members/set?member=m&note= done | {M} => 200 true
    /api/v1/pools/db members.0.state members.0.note => 200 down null
    END
? 0
a< TAKE db 1000
until ask {admin} <<<'/api/v1/pools/db pool.waiting => 200 1'
$ ask {admin} <<<'POST /api/v1/pools/db/members/set?member=m&state=free done | {M} => 200 true'
a> TAKEN db m ...
b< TAKE db 1000 for=clean
until ask {admin} <<<'/api/v1/pools/db waiters.# => 200 1'
$ ask {admin} <<'END'
    POST /api/v1/pools/db/members/set?member=m&state=dirty&now=false done | {M} => 200 true
    /api/v1/pools/db members.0.then => 200 dirty
    POST /api/v1/pools/db/members/set?member=m&state=dirty&now=true done | {M} => 200 true
    END
b> TAKEN db m ...
a< RETURN
a> GONE
$ ask {admin} <<'END'
    POST /api/v1/pools/db/members/drop?member=m done | {M} => 200 true
    /api/v1/pools/db members.0.then => 200 drop
    POST /api/v1/pools/db/members/drop?member=m&now=true done | {M} => 200 true
    /api/v1/pools/db members => 200 []
    END
? 0
b< RETURN
b> GONE

== pools are dropped
a@ {text}
b@ {text}
a< POOL ADD db
a> OK
a< MEMBER ADD db m
a> OK
a< TAKE db
a> TAKEN db m ...
b< TAKE db 1000
until ask {admin} <<<'/api/v1/pools/db pool.waiting => 200 1'
$ ask {admin} <<<'POST /api/v1/pools/db/drop done | {M} => 200 true'
b> ERROR NO_POOL
$ ask {admin} <<'END'
    /api/v1/pools/db pool.state => 200 draining
    POST /api/v1/pools/db/drop?now=true done | {M} => 200 true
    /api/v1/pools/db => 404 ...no such pool...
    POST /api/v1/pools/db/drop | {M} => 404 ...no such pool...
    END
? 0
a< RETURN
a> GONE
