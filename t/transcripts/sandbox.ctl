# What the daemon gives up, seen from outside, and machines where it can't. What each kind of thread may still do:
# t/unit/daemon/sandbox_test.c.
needs counterd -o security.sandbox=true -o poolcounter.listen={net} -o admin.port=0 -t
let counterd = counterd -o counter.threads=1 -o poolcounter.listen={net} -o admin.listen={net}

== every thread has given up its rights
d$ exec {counterd} -o jobs.enable=true -o jobs.listen={net} -o jobs.path={dir}/jobs.db 2>log
until grep -q 'info: ready' log
$ rights {dpid}
admin: none, 1, 2, 2
counterd: none, 1, 2, 1
job store: none, 1, 2, 2
worker 0: none, 1, 2, 2

== with false all is as it was
d$ exec {counterd} -o admin.port=0 -o security.sandbox=false 2>log
until grep -q 'info: ready' log
$ rights {dpid} | sed 's/.*: //' | sort -u; rights $$ | sed 's/.*: //'
{rights=.*}
{rights}

== a capability or root that it has at the start is given up
needs (as_nobody test -x "$(type -P counterd)" -a -r {top}/t/system/confined.py)
each command | said
    as_nobody --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service {counterd} -o poolcounter.port=777 | on {net}:777;
    exec {counterd} -o user=nobody | ready
    as_nobody /usr/bin/python3 -B {top}/t/system/confined.py capset=1 {counterd} | ready
d$ {command} -o admin.port=0 2>log
until grep -q 'info: ready' log
$ rights {dpid} | cut -d, -f-3; grep -q '{said}' log; awk '/^Uid/ { print $2 != 0, $3 != 0 }' /proc/{dpid}/status; grep -c 'warning: running as root' log
counterd: none, 1, 2
worker 0: none, 1, 2
1 1
0
? 1

== asked for by name it is had, or an error
each option
    -o counter.enable=false
    -t
$ without seccomp=38 {counterd} -o admin.port=0 -o security.sandbox=true {option}
! ...security.sandbox: ...can't filter system calls: ...; ...false...
? 2

== by default it does without, where the kernel has no filters
d$ without seccomp=38 {counterd} -o admin.port=0 -o poolcounter.port=7601 2>log
until grep -q 'info: ready' log
$ grep -c "info: security.sandbox: threads are not sandboxed: .*can't filter" log; rights {dpid} | cut -d, -f1
1
counterd: none
worker 0: none
$ counterctl -s {net}:7601 run k -- echo ran
ran

== a token is not kept
let find = import re, sys
    found = [0] * len(sys.argv[2:])
    with open("/proc/%s/maps" % sys.argv[1]) as maps, open("/proc/%s/mem" % sys.argv[1], "rb") as memory:
        for line in maps:
            begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if "r" in rights and "[v" not in line:  # "[v": kernel memory
                memory.seek(int(begin, 16))
                data = memory.read(int(end, 16) - int(begin, 16))
                found = [count + data.count(word.encode()) for count, word in zip(found, sys.argv[2:])]
    print(*(count and "kept" for count in found))
needs python3 -c 'open("/proc/%d/mem" % __import__("os").getppid())'
each option | value
    admin.token | $1
    admin.token_file | {dir}/token
until tokens() { echo $1 >token; { printf '#%3000s\n' ''; echo "{option} = {value}"; } >conf; }; declare -f tokens >give; tokens first-$$-0123456789; cp token one
until . ./give; tokens $(cat one)
d$ exec {counterd} -f {dir}/conf 2>log
until grep -q 'info: ready' log
$ python3 -c '{find}' {dpid} {dir}/conf $(cat one)
kept 0
$ . ./give; tokens second-$$-0123456789
until kill -HUP {dpid}; grep -q 'token has changed' log
$ python3 -c '{find}' {dpid} $(cat one) $(cat token)
0 0

== metrics still tell of the process
d$ exec {counterd} -o poolcounter.port=7601 -o admin.port=7603 2>log
until grep -q 'info: ready' log
$ metric() { ask {net}:7603 <<<'/metrics' | awk -v name=$1 '$1 == name { print $2 }'; }; near() { awk "BEGIN { print ($1) - ($2) < $3 && ($2) - ($1) < $3 }"; }
    before=$(metric process_open_fds); exec 9<>/dev/tcp/{net}/7601; echo RELEASE >&9; read -r answer <&9
    echo $answer $(($(metric process_open_fds) - before))
    near $(metric process_resident_memory_bytes) "1024 * $(awk '/^VmRSS/ { print $2 }' /proc/{dpid}/status)" 8388608
    near $(metric process_start_time_seconds) $(stat -c %Y /proc/{dpid}) 20
NOT_LOCKED 1
1
1
