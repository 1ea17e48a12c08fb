# run, and acquire with a command: every end that there can be.
daemon
let waiting = counterctl -s {text} stats --text | grep -q 'waiting_workers *'
let held = ! counterctl -s {text} run -qt 0 k -- true

== its exit status is passed through
each status
    0
    1
    3
    75
    255
$ counterctl -s {text} run k -- sh -c 'exit {status}'
? {status}
$ counterctl -s {text} run -t 0 k -- true

== a signal that ended it is 128 and its number
each name | status
    KILL | 137
    TERM | 143
    SEGV | 139
$ counterctl -s {text} run k -- sh -c 'ulimit -c 0; kill -{name} $$'
? {status}

== what is not there and what cannot be executed
$ counterctl -s {text} run k -- /no/such/command
! counterctl: /no/such/command: No such file or directory
? 127
$ counterctl -s {text} run k -- no-such-command-in-path
! counterctl: no-such-command-in-path: No such file or directory
? 127
$ >file; counterctl -s {text} run k -- ./file
! counterctl: ./file: Permission denied
? 126
$ counterctl -s {text} run k -- {dir}
! counterctl: {dir}: ...
? 126
$ counterctl -s {text} run -t 0 k -- true

== its input and output are ours
$ printf 'one\ntwo\n' | counterctl -s {text} run k -- sh -c 'read line; echo "out $line"; echo "err $line" >&2; cat'
out one
two
! err one

== the arguments behind the dashes are its own
$ counterctl -s {text} run k -w 2 -- echo --any -n -- 'a b'
> --any -n -- a b

== it inherits no descriptor, mask or disposition, and stays in our group
$ script="ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f5,6 /proc/\$\$/stat"
    bare=$(sh -c "$script"); run=$(counterctl -s {text} run k -- sh -c "$script"); [ "$run" = "$bare" ] || echo "$run"

== ignored children do not confuse it
$ env --ignore-signal=CHLD counterctl -s {text} run k -- sh -c 'exit 4'
? 4

== the lock is held while it runs and no longer
$ counterctl -s {text} run k -- cat
< held
held
a$ {held}
a? 0
eof
$ counterctl -s {text} run -t 0 k -- true

== the second of two waits for the first
a$ counterctl -s {text} run k -- sh -c 'echo begin; cat'
a> begin
b$ counterctl -s {text} run k -- echo second
until {waiting}1
a< first
a> first
a eof
a? 0
b> second
b? 0

== as many run at once as workers
a$ counterctl -s {text} run -w 2 k -- cat
b$ counterctl -s {text} run -w 2 k -- cat
a< x
a> x
b< x
b> x
$ counterctl -s {text} run -w 2 -t 0 k -- true
! counterctl: lock k: ...
? 75

== a timeout is 75 and a full queue is 69
each options | status | why
    -t 0 | 75 | ...--workers...
    -t 0.05 | 75 | ...--workers...
    -Q 1 | 69 | ...--queue...
c@ {text}
c< ACQ4ME k 1 100 0
c> LOCKED
$ counterctl -s {text} run {options} k -- echo ran
! counterctl: lock k: {why}
? {status}
$ counterctl -s {text} run {options} -q k -- echo ran
? {status}

== any does not run what another has done
a$ counterctl -s {text} run k -- cat
a< x
a> x
$ counterctl -s {text} run --any k -- echo ran
until {waiting}1
a eof
! counterctl: ...another client has just done the work...
? 0

== any runs what another has failed to do
a$ counterctl -s {text} run k -- sh -c 'echo x; cat; exit 1'
a> x
$ counterctl -s {text} run --any k -- echo ran
until {waiting}1
a eof
a? 1
ran

== keys are sent as they are, and a space as MediaWiki does
each key | sent
    'a b ' | a%20b%20
    -e '\x61\\' | a\
    -e 'g\xc3\xbcn' | gün
    %2 | %2
c@ {text}
c< ACQ4ME {sent} 1 100 0
c> LOCKED
$ counterctl -s {text} run -q -t 0 {key} -- true
? 75

== bytes of a key are sent as they are
c@ {text}
c<< ACQ4ME \xff\xfe\\ 1 100 0\n
c> LOCKED
$ counterctl -s {text} run -qet0 '\xff\xfe\\' -- true
? 75

== keys with controls are refused
each key
    $'a\nb'
    $'a\tb'
    $'a\x7f'
    ''
$ counterctl -s {text} run {key} -- echo ran
! counterctl: {=.*(key|empty).*}
? 64

== signals are passed on
# cannot: lost signal because its command takes them
$ counterctl -s {text} run k -- sh -c '
    for s in INT TERM HUP QUIT USR1 USR2; do trap "echo $s" $s; done
    echo ready; until test -e end; do sleep 0.01; done; exit 5'
ready
signal INT
INT
signal TERM
TERM
signal HUP
HUP
signal QUIT
QUIT
signal USR1
USR1
signal USR2
USR2
until touch end
? 5

== a command that a passed signal ends is 128 and its number
$ counterctl -s {text} run k -- sh -c 'echo ready; exec sleep 1000'
ready
signal TERM
? 143
$ counterctl -s {text} run -t 0 k -- true

== a signal ends the wait
each name | status
    INT | 130
    TERM | 143
    HUP | 129
    QUIT | 131
    USR1 | 138
    USR2 | 140
c@ {text}
c< ACQ4ME k 1 100 0
c> LOCKED
$ counterctl -s {text} run k -- echo ran
until {waiting}1
signal {name}
? {status}
until {waiting}0

== a signal ends connecting
$ counterctl -s {play} --tls --connect-timeout 1000 run k -- x
s accept
signal INT
? 130

== what was ignored stays ignored
# cannot: signal because it ignores one
c@ {text}
c< ACQ4ME k 1 100 0
c> LOCKED
$ env --ignore-signal=HUP counterctl -s {text} run k -- cat
until {waiting}1
signal HUP
c< RELEASE k
c> RELEASED
< still here
still here

== a stop stops both and the lock stays
$ counterctl -s {text} run k -- sh -c 'echo $$; exec cat'
{command=\d+}
signal TSTP
until [ "$(state {pid})$(state {command})" = TT ]
a$ {held}
a? 0
signal CONT
until [ "$(state {pid})$(state {command})" = SS ]
< on
on

== a stopped wait goes on
c@ {text}
c< ACQ4ME k 1 100 0
c> LOCKED
$ counterctl -s {text} run k -- echo ran
until {waiting}1
signal TSTP
until [ "$(state {pid})" = T ]
signal CONT
c< RELEASE k
ran

== ctrl c reaches the command once
# cannot: lost signal because its command takes them
t$$ counterctl -s {text} run k -- sh -c '
    n=0; trap "n=\$((n+1)); echo INT \$n" INT; trap "echo USR1" USR1
    echo ready; until test -e end; do sleep 0.01; done; exit 5'
t> ready
t signal STOP
until [ "$(state {tpid})" = T ]
t< \x03
t> INT 1
t signal USR1 CONT
t> USR1
t without INT 2
t signal INT
t> INT 2
until touch end
t? 5

== ctrl z stops the job and fg goes on
t$$ set -m
    counterctl -s {text} run k -- sh -c 'echo ready; read line; echo read $line; exit 6' </dev/tty
    echo stopped $?
    fg >/dev/null
    echo over $?
t> ready
t< \x1a
t> stopped 148
a$ {held}
a? 0
t< line\n
t> read line
t> over 6
t? 0

== a lost connection is said and the command goes on
$ counterctl -s {text} run k -- sh -c 'echo x; cat; exit 3'
x
kill daemon
! counterctl: ...goes on without it...
< still here
still here
eof
? 3

== strict ends the command
# cannot: signal because its command ignores that
each options | trap | told
    run --strict k | echo told; exit 0 | told
    run --strict --grace 0.1 k |  | ...
    acquire --strict k 1 1 | echo told; exit 0 | told
$ case '{options}' in acquire*) at={binary} ;; *) at={text} ;; esac
    counterctl -s $at {options} -- sh -c "trap '{trap}' TERM; echo x; while :; do sleep 0.01; done"
x
kill daemon
{told}
! counterctl: ...gets TERM...
? 79

== strict ends a stopped command
$ counterctl -s {text} run --strict --grace 1000 k -- sh -c 'echo $$; exec sleep 1000'
{command=\d+}
a$ kill -STOP {command}
a? 0
kill daemon
! ...
? 79

== strict ends the command when we are killed
$ counterctl -s {text} run --strict k -- sh -c "trap 'echo told >told; exit' TERM; echo x; while :; do sleep 0.01; done"
x
signal KILL
until [ -s told ]
? 137

== a connection lost while waiting is 69
c@ {text}
c< ACQ4ME k 1 100 0
c> LOCKED
$ counterctl -s {text} run k -- echo ran
until {waiting}1
kill daemon
! counterctl: {=.*(closed|reset).*}
? 69

== no server is 69
$ counterctl -s {none} run k -- echo ran
! counterctl: ...can't connect to {none}: Connection refused...
? 69

== a name that is none is 69
each server
    no-such-host.invalid
    1.2.3.4.5
    '[a:b]'
$ counterctl -s {server} run k -- echo ran
! counterctl: {=(?!.*counter_).*}
? 69

== names of hosts are looked up
$ at={text}; counterctl -s localhost:${at#*:} run k -- echo ran
ran

== a server that does not answer is 69
$ counterctl -s {silent} --io-timeout 0.1 run -t 0 k -- echo ran
! counterctl: ...no answer in time...
? 69

== a server that talks nonsense is 76
each said | why
    HTTP/1.1 400 Bad\r\n | ...
    ERROR BAD_SYNTAX\n | ...
    RELEASED\n | ...
    \x1b]0;title\x07\n | ...\x1b]0;title\x07...
$ counterctl -s {play} run k -- echo ran
s> ACQ4ME k 1 ...
s<< {said}
! counterctl: {why}
? 76

== over a unix socket
daemon poolcounter.socket={dir}/so%&ck counter.socket=@{dir}/socket
$ counterctl -s 'unix:{dir}/so%&ck' run k -- echo ran
ran
$ counterctl -s unix:@{dir}/socket acquire k 1 1 -- echo ran
ran

== the server is named by the environment
$ COUNTER_SERVER={text} counterctl run k -- echo ran
ran
$ COUNTER_SERVER='a b' counterctl run k -- echo ran
! counterctl: ...$COUNTER_SERVER...
? 64

== the wrong port is told
$ counterctl -s {text} --io-timeout 0.2 get k
! ...
? 69|76
$ counterctl -s {binary} run k -- true
! ...
? 69|76

== acquire holds units while a command runs
$ counterctl -s {binary} acquire u 2 5 -- cat
< x
x
a$ counterctl -s {binary} get u
a> 2
a? 0
eof
? 0
$ counterctl -s {binary} get u
> 0

== acquire passes the status through and says what is not available
$ counterctl -s {binary} acquire u 1 1 -- sh -c 'exit 7'
? 7
a$ counterctl -s {binary} acquire u 1 1
a> acquired 1
$ counterctl -s {binary} acquire u 1 1 -- echo ran
! counterctl: ...Resource not available...
? 75
$ counterctl -s {binary} acquire -q u 1 1 -- echo ran
? 75
