# put, work and jobs, against the real daemon and where it is installed against a plain beanstalkd.
let pids = sh -c 'echo $$ >>pids; exec sleep 1000'
steps one worker
    until [ "$(printf 'stats\r\nquit\r\n' | (exec 3<>/dev/tcp/$(echo {jobs} | tr : /); cat >&3; cat <&3) | tr -d '\r' | sed -n 's/current-workers: //p')" = 1 ]

steps memory
    daemon jobs.enable=true jobs.port={port}

== a job is what the input has
each server
    daemon jobs.enable=true jobs.port={port}
    daemon jobs.enable=true jobs.port={port} jobs.path={dir}/jobs.db
    beanstalkd
{server}
$ python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 250 + b"\r\nstats\r\n")' >body
    counterctl -s {jobs} put t <body
> 1
$ counterctl -s {jobs} put t body --pri 7 --delay 1000 --ttr 9
> 2
$ counterctl -s {jobs} jobs peek 2 | cmp - body
$ counterctl -s {jobs} jobs peek 2 --json | sed 's/"body64".*/"body64"/'
> {"id":2,"tube":"t","state":"delayed","pri":7,...,"ttr":9,..."body64"
$ counts {jobs} t
> 1 1 0 0

== a job for each line
each server
    daemon jobs.enable=true jobs.port={port}
    beanstalkd
{server}
$ (seq 1000; echo; printf last) | counterctl -s {jobs} put t --lines | cmp - <(seq 1002)
$ counterctl -s {jobs} jobs peek 1000; echo; counterctl -s {jobs} jobs peek 1001; counterctl -s {jobs} jobs peek 1002
1000
last
$ counts {jobs} t
> 1002 0 0 0

== a line that came in part waits for its rest
do memory
a$ counterctl -s {jobs} put t --lines
a<< one\ntw
a> 1
a<< o\n
a> 2
a eof
a? 0
$ counterctl -s {jobs} jobs peek 2; echo
two

== memory that is short is said
needs (ulimit -v 60000; counterctl --version)
do memory
$ truncate -s 40M body; ulimit -v 60000; counterctl -s {jobs} put t body 2>said; echo $? $(wc -l <said) "$(cat said)"
70 1 counterctl: out of memory

== a refused line is named
daemon jobs.enable=true jobs.port={port} jobs.max_job_size=10
$ printf 'a\nb\nelevenbytes\nc\n' | counterctl -s {jobs} put t --lines
> 1
> 2
! counterctl: ...standard input, line 3 (the 2 before it are stored)...jobs.max_job_size...
? 1

== a plain server is not sent our verbs
# It would run the body as commands.
each option | value
    --unique | k
    --tries | 2
beanstalkd
$ printf 'kick 1\r\ndelete 1\r\n' | counterctl -s {jobs} put t {option} {value}
! counterctl: put: {jobs} is no counterd: it has no {option}
? 1

== a key that is known is no failure
each known | why
    7 | ...has a job with this key already: 7...
    0 | ...was done...
$ counterctl -s {play} put t --unique k --tries 3 --pri 9
j> tube default
j<< OK 4\r\n---\n\r\n
j> put-into t 9 0 60 0 key=k tries=3
j< DUPLICATE {known}
> {known}
! counterctl: {why}
? 0

== a refusal is explained
each answer | status | why
    READ_ONLY we move\x1b[1m\r\n | 69 | the tube is read-only: we move\x1b[1m
    TUBE_FULL\r\n | 69 | the tube is full
    DRAINING\r\n | 69 | takes no new jobs
    OUT_OF_MEMORY\r\n | 69 | no memory
    BAD_FORMAT\r\n | 76 | BAD_FORMAT
    USING t\r\n | 76 | USING t
    nonsense\r\n | 76 | is this the right port?
    INSERTED 1\n | 76 | is this the right port?
$ counterctl -s {play} put t
j> tube default
j<< OK 4\r\n---\n\r\n
j> put-into t ...
j<< {answer}
! counterctl: ...{why}...
? {status}

== what is wrong with put is said
each words | status | why
    't s' | 64 | not the name of a tube
    t --unique 'a b' | 64 | not a key
    t --unique '' | 64 | not a key
    t /no/such/file | 66 | /no/such/file: No such file
    t --ttr 0 | 64 | from 1
do memory
$ counterctl -s {jobs} put {words}
! counterctl: ...{why}...
? {status}

== put to the wrong port
daemon
$ echo x | counterctl -s {text} put t
! counterctl: ...is this the right port?...
? 76

== the command gets the job
each server
    daemon jobs.enable=true jobs.port={port}
    daemon jobs.enable=true jobs.port={port} jobs.path={dir}/jobs.db
    beanstalkd
{server}
$ printf hello | counterctl -s {jobs} put t
> 1
$ counterctl -s {jobs} work other t --once -- sh -c 'echo "$COUNTER_JOB_ID $COUNTER_JOB_TUBE $COUNTER_JOB_TRY $(cat)"'
> 1 t 1 hello
$ counts {jobs} t

== jobs that fail are tried again later, buried on request and after their tries
each server
    daemon jobs.enable=true jobs.port={port}
    daemon jobs.enable=true jobs.port={port} jobs.path={dir}/jobs.db
    beanstalkd
{server}
$ for t in later request tries; do echo x | counterctl -s {jobs} put $t; done
> 1
> 2
> 3
$ counterctl -s {jobs} work later --once --backoff 1000 -- sh -c 'exit 3'
! counterctl: job 1 of later, try 1: sh exited with 3
! counterctl: job 1 of later, try 1: it is tried again in 1000 s
? 3
$ counts {jobs} later
> 0 1 0 0
$ counterctl -s {jobs} work request --once -- sh -c 'exit 100'
! counterctl: job 2 of request, try 1: sh exited with 100
! counterctl: job 2 of request, try 1: it is buried
? 100
$ counts {jobs} request
> 0 0 0 1
$ counterctl -s {jobs} work tries --once --backoff 0 --tries 3 -q -- sh -c 'echo $COUNTER_JOB_TRY; exit 1'
> 1
> 2
> 3
? 1
$ counts {jobs} tries
> 0 0 0 1

== a job waits longer after each try
do memory
$ echo x | counterctl -s {jobs} put t
> 1
$ counterctl -s {jobs} work t --backoff 1 -- sh -c 'kill -9 $$'
! counterctl: job 1 of t, try 1: signal 9 ended sh
! counterctl: job 1 of t, try 1: it is tried again in 1 s
! counterctl: job 1 of t, try 2: signal 9 ended sh
! counterctl: job 1 of t, try 2: it is tried again in 2 s
signal TERM
! ...
? 143

== a hundred jobs of which some fail
# 3 % fail always, 7 % once: all are done or buried after their tries, and none twice.
each server
    daemon jobs.enable=true jobs.port={port} counter.threads=2
    daemon jobs.enable=true jobs.port={port} jobs.path={dir}/jobs.db
    beanstalkd
{server}
$ seq 100 | counterctl -s {jobs} put t --lines | tail -n1
> 100
let work = counterctl -s {jobs} work t --jobs 4 --tries 3 --backoff 0 -q -- sh -c 'n=$(cat); echo "$n" >>log
    [ $((n % 33)) != 5 ] || exit 1; [ $((n % 14)) != 3 ] || [ $COUNTER_JOB_TRY -gt 1 ]'
a$ {work}
b$ {work}
until [ "$(counts {jobs} t)" = '0 0 0 3' ]
a signal TERM
b signal TERM
a? 143
b? 143
$ sort -n log | uniq -c | awk '{ if ($1 != ($2 % 33 == 5 ? 3 : $2 % 14 == 3 ? 2 : 1)) print } END { print NR }'
> 100

== a killed worker leaves nothing and its job comes back
each server
    daemon jobs.enable=true jobs.port={port}
    beanstalkd
{server}
$ echo x | counterctl -s {jobs} put t
> 1
a$ counterctl -s {jobs} work t -- sh -c "setsid sh -c 'echo \$\$ >>pids; exec sleep 1000' & echo \$\$ >>pids; wait"
until [ $(wc -l <pids) = 2 ]
$ counts {jobs} t
> 0 0 1 0
a signal KILL
until gone $(cat pids)
until [ "$(counts {jobs} t)" = '1 0 0 0' ]
$ counterctl -s {jobs} work t --once -- sh -c 'echo $COUNTER_JOB_TRY'
> 2

== what a command has started ends with it
do memory
$ echo x | counterctl -s {jobs} put t
> 1
$ counterctl -s {jobs} work t --once -- sh -c 'sleep 1000 & echo $! >pids'; gone $(cat pids)

== a first signal waits for the command
each server
    daemon jobs.enable=true jobs.port={port}
    beanstalkd
{server}
$ mkfifo go; echo x | counterctl -s {jobs} put t
> 1
a$ counterctl -s {jobs} work t --jobs 2 -- sh -c 'echo $$ >>pids; cat go'
until [ -s pids ]
a signal TERM
# The place without a job is over; the signal has been taken then.
do one worker
$ echo y | counterctl -s {jobs} put t
> 2
until echo went on >go
a> went on
a? 143
$ counts {jobs} t
> 1 0 0 0

== a second signal ends the command
each server
    daemon jobs.enable=true jobs.port={port}
    beanstalkd
{server}
$ echo x | counterctl -s {jobs} put t
> 1
a$ counterctl -s {jobs} work t --jobs 2 --grace 0.2 -- sh -c 'trap "" TERM; echo $$ >pids; while :; do sleep 0.1; done'
until [ -s pids ]
a signal INT
do one worker
$ counts {jobs} t
> 0 0 1 0
a signal INT
a! ...
a! ...given back...
a? 130
$ gone $(cat pids) && counts {jobs} t
> 1 0 0 0

== a worker comes back when the server does
do memory
$ echo first | counterctl -s {jobs} put t
> 1
a$ counterctl -s {jobs} work t -- cat
a> first
stop daemon
do memory
$ echo second | counterctl -s {jobs} put t
> 1
a> second
a! {=.*(closed the connection|trying again).*}
a! ...
a signal TERM
a? 143

== the command ends when its job is lost
do memory
$ echo x | counterctl -s {jobs} put t
> 1
a$ counterctl -s {jobs} work t --grace 1 -- {pids}
until [ -s pids ]
stop daemon
# The server may know the job when it is back.
$ ! gone $(cat pids)
do memory
until gone $(cat pids)
a! ...
a! ...another worker may run it; sh gets TERM
a signal TERM
a? 143

== a lock bounds what runs at once
do memory
$ seq 12 | counterctl -s {jobs} put t --lines | tail -n1
> 12
# mkdir fails if another one runs.
$ counterctl -s {jobs} work t --once --jobs 4 --lock k --lock-server {text} -- sh -c '
    mkdir one || exit 7; sleep 0.02; rmdir one'
$ counts {jobs} t

== a lock that is taken holds the job back
do memory
$ echo x | counterctl -s {jobs} put t
> 1
c@ {text}
c< ACQ4ME k 1 9 0
c> LOCKED
a$ counterctl -s {jobs} work t --lock k --lock-server {text} -- touch ran
until counterctl -s {text} stats --text | grep -q 'waiting_workers *1'
$ test ! -e ran && counts {jobs} t
> 0 0 1 0
c< RELEASE k
c> RELEASED
until [ "$(counts {jobs} t)" = '0 0 0 0' ] && [ -e ran ]
a signal TERM
a? 143

== what is wrong with work is said
each words | why
    't s' -- true | not the name of a tube
    t --workers 2 -- true | need --lock
    t --lock 'a b' -- true | not a key
    t --tls --lock k -- true | Name it with --lock-server
    t | COMMAND are missing
$ counterctl -s {none} work {words}
! counterctl: ...{why}...
? 64

== a command that cannot be run leaves the job
do memory
$ echo x | counterctl -s {jobs} put t
> 1
$ counterctl -s {jobs} work t -- /no/such/command
! ...
! counterctl: /no/such/command: No such file or directory
! ...
? 127
$ counts {jobs} t
> 1 0 0 0

== tubes and jobs are listed
do memory
$ printf 'x\ny\e[1m%0100d' 0 | counterctl -s {jobs} put b --lines; echo x | counterctl -s {jobs} put a --delay 1000
> 1
> 2
> 3
$ counterctl -s {jobs} jobs | sed -E 's/ +[0-9.]+( s)?  b$/ AGE  b/'
READY  DELAYED  RESERVED  BURIED  ABANDONED  OLDEST  TUBE
>     0        0         0       0          0       0  default
>     2        0         0       0          0 AGE  b
>     0        1         0       0          0       0  a
$ counterctl -s {jobs} jobs list b
...
>  1  ready    0    1 B  x
>  2  ready    0  105 B  y\x1b[1m0000...
$ counterctl -s {jobs} jobs list b --json | sed 's/.*"body"/body/'
> body:"x"}
> body:"y\u001B[1m0000...
$ counterctl -s {jobs} jobs list b --limit 1 | wc -l; counterctl -s {jobs} jobs list b buried
> 2
$ counterctl -s {jobs} jobs list none
! counterctl: ...
? 1

== jobs are kicked and cleared
each server
    daemon jobs.enable=true jobs.port={port}
    daemon jobs.enable=true jobs.port={port} jobs.path={dir}/jobs.db
{server}
$ seq 3 | counterctl -s {jobs} put t --lines; counterctl -s {jobs} work t --once -q -- sh -c 'exit 100'
> 1
> 2
> 3
? 100
$ counts {jobs} t; counterctl -s {jobs} jobs kick t 2; counts {jobs} t
> 0 0 0 3
> kicked: 2
> 2 0 0 1
$ counterctl -s {jobs} jobs clear t ready --json; counterctl -s {jobs} jobs clear t all
> {"cleared":2}
> cleared: 1

== an export can be imported
each server
    daemon jobs.enable=true jobs.port={port}
    daemon jobs.enable=true jobs.port={port} jobs.path={dir}/jobs.db
{server}
let one = {jobs}
$ seq 10 | counterctl -s {one} put t --lines >/dev/null
    counterctl -s {one} work t --once -q --backoff 1000 -- sh -c 'if [ "$(cat)" = 7 ]; then exit 100; else kill -9 $$; fi'
    seq 11 250 | counterctl -s {one} put t --lines >/dev/null; printf '\xff\0\n' | counterctl -s {one} put --pri 3 t
    for n in 0 1 2 4 5; do printf '\xff\xfe\xfd\xfc\xfb' | head -c$n | counterctl -s {one} put t; done >/dev/null
    echo later | counterctl -s {one} put t --delay 1000 --ttr 7; counterctl -s {one} jobs export t >out
> 251
> 257
daemon jobs.enable=true jobs.port=0
$ counterctl -s {jobs} jobs import <out; counts {jobs} t
imported: 257
> 246 10 0 1
$ counterctl -s {jobs} jobs export t >again
    for f in out again; do sed -E 's/"id":[0-9]+,|"try":[0-9]+,?//g; s/"delay":[1-9][0-9]*/"delay":1/' $f | sort >$f.seen; done
    diff out.seen again.seen

== drain lasts over an upgrade and not over a start
daemon jobs.enable=true jobs.port={port} admin.token=hush counter.threads=2
let ctl = COUNTER_ADMIN_TOKEN=hush counterctl --admin {admin}
$ echo x | counterctl -s {jobs} put t; {ctl} jobs drain
> 1
> draining: no new jobs are taken...
$ echo x | counterctl -s {jobs} put t
! counterctl: ...takes no new jobs now...
? 69
$ {ctl} jobs drain --json; counterctl -s {jobs} work t --once -q -- cat
> {"draining":true,"switched":true}
x
$ {ctl} upgrade
...
$ echo x | counterctl -s {jobs} put t
! counterctl: ...takes no new jobs now...
? 69
$ {ctl} jobs drain --off; echo x | counterctl -s {jobs} put t
not draining: new jobs are taken
> {=\d+}
$ {ctl} upgrade; echo x | counterctl -s {jobs} put t
...
> {=\d+}
$ counterctl -s {jobs} jobs tubes --off
! counterctl: ...jobs drain...
? 64
$ counterctl --admin {admin} jobs drain
! ...
? 77
until {ctl} jobs drain
stop daemon
daemon jobs.enable=true jobs.port={port}
$ echo x | counterctl -s {jobs} put t
> 1

== what is wrong with jobs is said
each words | status | why
    lst t | 64 | did you mean: list
    list | 64 | not of the form "counterctl jobs list TUBE [STATE]"
    list t nope | 64 | STATE is none of ready
    kick t 0 | 64 | from 1
    peek x | 64 | not the number of a job
    peek 7 | 1 | no such job
    import /no/such/file | 66 | No such file
do memory
$ counterctl -s {jobs} jobs {words}
! counterctl: ...{why}...
? {status}

== lines that cannot be imported
each line | why
    nope | no JSON
    { | no JSON
    [1] | no JSON object
    {"body":""} | "tube"
    {"tube":7,"body":""} | "tube"
    {"tube":"t s","body":""} | name of a tube
    {"tube":"t"} | body64
    {"tube":"t","body":1} | body64
    {"tube":"t","body":"","body64":""} | body64
    {"tube":"t","body64":"abc"} | body64
    {"tube":"t","body64":"=A=="} | body64
    {"tube":"t","body64":"===="} | body64
    {"tube":"t","body64":"    "} | body64
    {"tube":"t","body64":"a*=="} | body64
    {"tube":"t","body":"","pri":-1} | "pri" is not
    {"tube":"t","body":"","delay":4294967296} | "delay"
    {"tube":"t","body":"","ttr":1.5} | "ttr"
do memory
$ printf '%s\n' '{"tube":"t","body":"x"}' '{line}' '{"tube":"t","body":"x"}' | counterctl -s {jobs} jobs import
! counterctl: ...line 2 (the 1 jobs before it are stored)...{why}...
? 64

== what a line of an import leaves out has defaults
do memory
$ printf '{"tube":"007",%s}\n' '"body":""' '"body64":"/w==","pri":4294967295,"delay":1000,"ttr":3,"other":[]' '"body":"","state":"abandoned"' |
        counterctl -s {jobs} jobs import; for id in 1 2 3; do counterctl -s {jobs} jobs peek $id --json; done
imported: 3
> {"id":1,"tube":"007","state":"ready","pri":1024,"age":{=\d},"delay":0,"ttr":60,...,"body":""}
> {"id":2,"tube":"007","state":"delayed","pri":4294967295,"age":{=\d},"delay":1000,"ttr":3,...,"body64":"/w=="}
> {"id":3,"tube":"007","state":"buried",...}

== a plain server can be looked at
beanstalkd
$ printf 'x\ny' | counterctl -s {jobs} put t --lines; counterctl -s {jobs} jobs peek 1
> 1
> 2
> x
$ for words in 'list t' 'export t' 'clear t all'; do counterctl -s {jobs} jobs $words; echo $?; done
! counterctl: ...is no counterd...
! counterctl: ...is no counterd...
! counterctl: ...is no counterd...
> 1
> 1
> 1
$ echo '{"tube":"t","body":"z","state":"buried"}' | counterctl -s {jobs} jobs import; counts {jobs} t
imported: 1
> 2 0 0 1
$ counterctl -s {jobs} jobs kick t 9
> kicked: 1
