# The daemon as a process: its user, its log, its end.
let counterd = counterd -o poolcounter.listen={net} -o admin.listen={net} -o poolcounter.port=7601 -o admin.port=7603

== a syslog that was started again gets lines of a confined daemon
needs mkdir dev && mknod dev/null c 1 3 && unshare --mount cat dev/null
until mknod dev/random c 1 8; mknod dev/urandom c 1 9
s$ heard dev/log
until [ -S dev/log ]
d$ exec unshare --mount sh -c 'mount --bind dev /dev && exec {counterd} -o log.output=syslog'
s> ...
s> <30>{=[A-Z]\w\w [ \d]\d \d\d:\d\d:\d\d} counterd[{dpid}]: ready: ...
s signal TERM
s? 143
until rm dev/log; kill -USR2 {dpid}; ask {net}:7603 <<<'/metrics' | grep 'log_lines_dropped_total.reason="lost". [1-9]'
t$ heard dev/log >lines
until kill -USR2 {dpid}; grep '^<30>... .. ..:..:.. counterd\[{dpid}]: stats: ' lines

== the user keeps its other groups
needs unshare --mount true
until echo counted:x:54321:54321::/nonexistent:/bin/sh | cat /etc/passwd - >passwd
until printf 'counted:x:54321:\nkeys:x:54322:counted\n' | cat /etc/group - >group
d$ exec unshare --mount sh -c 'mount --bind passwd /etc/passwd && mount --bind group /etc/group && exec {counterd} -o user=counted' 2>log
until grep -q 'info: ready' log
$ grep -oP '^[UG](id|roups):\t\K.*\d' /proc/{dpid}/status
54321	54321	54321	54321
54321	54321	54321	54321
54321 54322

== a hangup does not disturb the end
d$ exec {counterd} 2>log
until grep -q 'info: ready' log
c@ {net}:7601
c< ACQ4ME k 1 9 60
c> LOCKED
d signal TERM
until kill -HUP {dpid}; gone {dpid}
d? 0
c? 0
