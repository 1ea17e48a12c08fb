# counterbench: what it prints and refuses. t/system/test_counterbench.py has its workloads.

== help and version
$ counterbench --version
{=counterbench \d+\.\d+\S*}
$ counterbench --help | grep -c '^  pairs '
1

== wrong arguments
each command
    ''
    xyzzy
    pairs --no-such
    pairs -c 0
    idle -n 1
    pools -p redis-pool -d 2
$ eval counterbench {command}
! counterbench: ...
! ...
? 2

== nobody is there
each command | why
    -t {none} | Connection refused
    -t no-such-host.invalid | no-such-host.invalid
$ counterbench pairs {command} -n 10
! ...{why}...
? 1

== as text, as JSON and to a file
daemon
$ counterbench pairs -t {text} -n 100 -s 0 -w 0 --json found
{=pairs, text: 50 operations in \d.*}
...
{=latency: mean .*}
...
$ python3 -c 'import json; print(json.load(open("found"))["operations"])'
50
$ counterbench pairs -t {text} -n 100 -s 0 -w 0 --json no/such >out
! ...No such file...
? 1
$ counterbench pairs -t {text} -n 10 --pid 4194303
! ...4194303...
? 1

== a bar on a terminal only
daemon
b$$ counterbench pairs -t {text} -s 3 -w 0
b> measuring [
b? 0

== what the daemon refuses is said
daemon pools.operators=192.0.2.1/32 jobs.enable=true jobs.port=0 jobs.max_job_size=99
$ counterbench pools -t {text}
! ...ERROR DENIED...
? 1
$ counterbench jobs -t {jobs} -b 100 -n 300
...
! ...JOB_TOO_BIG...
? 1

== wrong answers are counted
b$ counterbench pairs -t {play} -c 1 -n 4 -s 0 -w 0 --json
s> RELEASE ...
s< NOT_LOCKED
s> ACQ4ME ...
s<< ERROR \x1b[31mBAD\n
s> ...
s<< ERROR \x1b[31mBAD\n
b! ...ERROR .[31mBAD...
b> ..."errors":2,...
b? 1

== a server that goes away
b$ counterbench pairs -t {play} -c 1 -n 100 -s 0 -w 0 --json
s> ...
s< NOT_LOCKED
s> ...
s close
b! ...1 errors...
b> ..."errors":1...
b? 1

== a signal while it connects
b$ counterbench pairs -t {play}
s> ...
b signal TERM
b! ...interrupted...
b? 1

== closed standard descriptors do no harm
$ counterbench pairs -t {none} -n 10 <&- >&- 2>&-
? 1
