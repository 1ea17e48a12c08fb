# counterbench: what it prints and refuses. t/system/test_counterbench.py has its workloads.

== help and version
$ counterbench --version
{=counterbench \d+\.\d+\S*}
$ counterbench --help | grep -c '^  pairs '
1

== wrong arguments
# A line each: the arguments, and a part of what is said.
$ while read -r line; do
        said=$(eval "counterbench ${line% => *}" 2>&1)
        [[ $? == 2 && $said == "counterbench: "*${line##* => }* ]] || echo "$line: $said"
    done <<'END'
    -q => no workload is named; it is one of pairs churn
    xyzzy => "xyzzy"
    pairs churn => give one workload
    pairs --no-such => --no-such
    pairs -Z => -Z
    pairs -c => --connections needs a value
    pairs --tls=1 => takes no value
    pairs -c 0 => whole number from 1
    pairs -n 4294967296 => whole number
    pairs -s x => number of seconds
    pairs -s 0 => measures nothing; give more, or --requests
    dump -s 0 => measures nothing; give more
    pairs -p http => none of text binary
    pairs --pid 0 => whole number from 1
    idle -n 1 => idle takes no --requests
    churn --depth 2 => churn takes no --depth
    take-jobs --batch 2 => take-jobs takes no --batch
    put-jobs --batch 2 => only with -p jobs
    put-jobs -p jobs --batch 1000 => too long
    pairs --depth 3 => 1 or even
    pairs --depth 2 --limit 1 => --limit needs --depth 1
    pairs -c 2 -d 8 --limit 7 => nothing is refused
    pairs -l 2 -k 257 => at most 256
    pairs -p redis-tokens => at most 1,000,000
    pairs --tls-ca x => needs --tls
    pools -p redis-pool -d 2 => must know what it has taken
    hot -p binary => can't be done with binary
    hot -k 3 --waiters 2 => more names than
    names -k 3 -c 4 => more than --names
    mixed -t a -t b -t c => two targets
    pairs $(printf ' -t a%.0s' {1..9}) => more than 8
    pairs $(printf ' --pid 1%.0s' {1..9}) => more than 8
    jobs --waiters 2 -d 2 => one job at a time
    jobs --waiters 9 -c 2 -T 3 => fewer --connections
    jobs -l 101 => at most 100
    jobs -b 19 => whole number from 20
    END
$ for cpus in "''" , 1, ,1 1- -1 2-1 1,,2 x 1-2-3 0-99 4096; do
        eval counterbench pairs --cpu=$cpus 2>&1
    done | grep -c 'is not a list of processors'
12

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
$ for json in --json '--json -' '--json -q' --json=-; do counterbench -t {text} -n 4 -s 0 -w 0 pairs $json; done |
        python3 -c 'import json, sys; print(*(json.loads(line)["operations"] for line in sys.stdin))'
2 2 2 2
$ counterbench -t {text} -n 4 -s 0 -w 0 --json pairs | head -c 20
{"workload":"pairs",
$ counterbench -qc2 -d8 --limit=8 -l 2 -k 256 --cpu 0,0-0 pairs -t {text} -n 16 -s 0 -w 0 --json=more
{=pairs, text: 8 operations in \d.*}
...
$ python3 -c 'import json; print(*(json.load(open("more"))[key] for key in ("connections", "depth", "threads", "errors")))'
2 8 1 0
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

== TLS that does not fit
until certificates
daemon poolcounter.tls_port={port} tls.cert={dir}/server.pem tls.key={dir}/server.key
each at | authority | why
    {tls} | other.pem | handshake failed
    {text} | ca.pem | handshake failed
    {tls} | no.pem | no.pem
$ counterbench pairs -t {at} --tls --tls-ca {authority} -n 10 -w 0
...
! ...{why}...
? 1
