# Service managers: the sockets that they hand over, and what they are told.
let names = poolcounter, poolcounter-tls, counter, counter-tls, jobs, jobs-tls or admin

== the environment says how many there are, and their names
let none = is not a listening stream socket
let in = inherited sockets
let x = xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
$ while IFS='|' read -r pid fds names said; do
        told=$(
            case $pid in self) export LISTEN_PID=$BASHPID ;; -) ;; *) export LISTEN_PID=$pid ;; esac
            [ "$fds" = - ] || export LISTEN_FDS=$fds
            [ "$names" = - ] || export LISTEN_FDNAMES=$names
            exec 2>&1 3</dev/null 4</dev/null 5</dev/null 6<&- counterd -o poolcounter.listen=192.0.2.1 -o admin.port=0
        )
        [[ $told == *"$said"* ]] || echo "$pid|$fds|$names: $told"
    done <<'END'
    -|-|-|poolcounter: can't listen
    self|-|a:b|poolcounter: can't listen
    -|2|-|poolcounter: can't listen
    1|2|-|poolcounter: can't listen
    1|nonsense|x:y:z|poolcounter: can't listen
    self|0|-|poolcounter: can't listen
    self|0||poolcounter: can't listen
    self|1|-|descriptor 3 {none}
    self|64|-|of 64 that LISTEN_FDS announces: Bad file descriptor
    self|3|poolcounter::admin|descriptor 3 ("poolcounter") {none}
    self|2|:admin|descriptor 3 {none}
    self|1||descriptor 3 {none}
    self|2|:|descriptor 3 {none}
    self|1|{x}{x}{x}{x}{x}|descriptor 3 ("{x}xx
    self|1|{x}{x}{x}{x}{x}x|{in}: LISTEN_FDNAMES: a name is longer than 255 bytes
    x|1|-|{in}: LISTEN_PID: "x" is no process id
    |1|-|{in}: LISTEN_PID: "" is no process id
    4294967338|1|-|{in}: LISTEN_PID: "4294967338" is no process id
    self|-1|-|{in}: LISTEN_FDS: "-1" is not a number from 0 to 64
    self|65|-|{in}: LISTEN_FDS: "65" is not a number from 0 to 64
    self|1x|-|{in}: LISTEN_FDS: "1x" is not a number from 0 to 64
    self|2|a|{in}: LISTEN_FDNAMES has 1 names, and LISTEN_FDS says 2 sockets
    self|1|a:|{in}: LISTEN_FDNAMES has 2 names, and LISTEN_FDS says 1 sockets
    END

== what has no use is told
each sockets | options | said
    web:{net}:0 | -l ::1 | 3 ("web") listens on {net}:{=\d+}, which no option names, and its name is not known; name it {names}
    poolcounter:{net}:0 counter-:{net}:0 | -l ::1 | 4 ("counter-") listens on {net}:{=\d+}, which no option names, and its name is not known; name it {names}
    admin2:{net}:0 | -l ::1 | 3 ("admin2") listens on {net}:{=\d+}, which no option names, ...
    poolcounter2:{net}:0 | -l ::1 | 3 ("poolcounter2") listens on {net}:{=\d+}, which no option names, ...
    :@a-{net} | -o counter.socket=a-{net} | 3 listens on unix socket @a-{net}, which no option names, and its name is not known; name it {names}
    counter:bound | -l ::1 | 3 ("counter") is not a listening stream socket
    :file | -l ::1 | 3 is not a listening stream socket
    :datagram | -l ::1 | 3 is not a listening stream socket
    counter:{net}:0 | -o counter.enable=false | 3 ("counter") is for a protocol that is not served; set counter.enable to true, or leave the socket out
    poolcounter-tls:{net}:0 | -l ::1 | 3 ("poolcounter-tls") is for TLS, and there is no certificate; set tls.cert
    poolcounter-tls:{dir}/s | -o tls.cert=server.pem -o tls.key=server.key | 3 ("poolcounter-tls") is a unix socket, where TLS is not served; name it poolcounter
    poolcounter:{net}:0 | -o poolcounter.plain=false -o poolcounter.socket=x | 3 ("poolcounter") is not for TLS, and poolcounter.plain is false; name it poolcounter-tls, or leave the socket out
$ certificates; handed '{sockets}' counterd -o security.sandbox=false -o counter.enable=true -o admin.port=0 {options} 2>&1
> ...error: descriptor {said}
? 2

== a socket that takes no options of TCP, as one of MPTCP, is told with its address
each sockets | said
    admin:{net}:0 | admin: can't listen on {net}:{=\d+}, which was passed as descriptor 3: {none}
    poolcounter:@a-{net} poolcounter:{net}:0 | poolcounter: can't listen on {net}:{=\d+}, which was passed as descriptor 4: {none}
let none = Protocol not available; pass a TCP or unix socket, or leave it out
$ handed '{sockets}' python3 -B "${BASH_ENV%transcripts/shell}system/confined.py" setsockopt=92 counterd -o security.sandbox=false -o poolcounter.listen={net} 2>&1
> ...error: {said}
? 2

== an option for TCP does not matter to a unix socket, and nobody else gets what was handed over
d$ handed 'counter:{dir}/s admin:{dir}/a :{net}:7531' counterd -o counter.enable=true -o counter.plain=false -o poolcounter.listen={net} -o counter.socket=@x-{net} 2>log
until grep -q 'info: ready' log
$ grep -o '[a-z]*: listening on .*' log
> counter: listening on unix socket {dir}/s (inherited)...
> poolcounter: listening on {net}:7531 (inherited)...
> admin: listening on {dir}/a...
$ python3 -c 'import socket; sock = socket.socket(socket.AF_UNIX); sock.connect("a")
    sock.sendall(b"GET /healthz HTTP/1.0\r\nHost: any.example\r\n\r\n"); print(sock.makefile().readline().strip())'
> HTTP/1.0 200 OK
$ for file in /proc/{dpid}/fdinfo/*; do case ${file##*/} in 0 | 1 | 2) ;; *) grep -q '^flags:.*02[0-7]\{6\}$' $file || echo $file ;; esac; done
? 0
d signal TERM

== every name gets its protocol, and nothing besides
until certificates
d$ handed 'counter-tls:{net}:7604 poolcounter:{net}:7601 admin:{net}:7603 poolcounter-tls:{net}:7605 counter:{net}:7602' counterd -o counter.enable=true -o tls.cert=server.pem -o tls.key=server.key 2>log
until grep -q 'info: ready' log
$ over='--tls --ca ca.pem --tls-name counter.example'
    counterctl -s {net}:7601 run k -- echo text && counterctl -s {net}:7605 $over run k -- echo text over TLS
    counterctl -s {net}:7602 acquire k 1 1 -- echo units && counterctl -s {net}:7604 $over acquire k 1 1 -- echo units over TLS
    ask {net}:7603 <<<'/readyz => 200 ready'
    grep -c 'listening .* (inherited)' log; ss -Htlnp | grep -c pid={dpid},
text
text over TLS
units
units over TLS
4
5

== a socket outlives the daemon: the service manager keeps it, and clients wait for the next one
d$ handed 'poolcounter:{net}:7601' bash -c 'for log in 1 2; do (LISTEN_PID=$BASHPID exec counterd -o admin.port=0 2>$log); read; done'
until grep -q 'info: ready' 1
$ kill $(child {dpid})
until [ -z "$(children {dpid})" ]
c@ {net}:7601
c< ACQ4ME k 1 2 0
d< go on
c> LOCKED

== another name goes by its port or path, and the daemon leaves the files of sockets
d$ handed 'counterd.socket:{net}:7601 :{net}:7602 x:{dir}/c :@c-{net}' counterd -o poolcounter.port=7601 -o poolcounter.socket=@c-{net} -o admin.port=7602 -o counter.enable=true -o counter.socket={dir}/c 2>log
until grep -q 'info: ready' log
$ grep -o '[a-z]*: listening on .*' log
> poolcounter: listening on {net}:7601 (inherited)...
> counter: listening on unix socket {dir}/c (inherited)...
> poolcounter: listening on unix socket @c-{net} (inherited)...
> admin: listening on {net}:7602...
$ counterctl -s unix:{dir}/c acquire k 1 1 -- echo units && counterctl -s unix:@c-{net} run k -- echo text
units
text
? 0
d signal TERM
d? 0
$ [ -S c ]

== a listening standard input is served, as by poolcounterd
d$ handed 'poolcounter:{net}:7601 :{net}:7602' bash -c 'LISTEN_FDS=1 LISTEN_FDNAMES=poolcounter exec counterd -o admin.port=0 <&4 4<&- 2>log'
until grep -q 'info: ready' log
$ counterctl -s {net}:7601 run k -- echo one; counterctl -s {net}:7602 run k -- echo two; readlink /proc/{dpid}/fd/0
one
two
/dev/null

== a client that comes over IPv6 from an IPv4 address counts as IPv4
needs python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::", 0))'
d$ handed 'poolcounter:[::]:{port}' counterd -o access.allow=127.0.0.2 -o admin.port=0 2>log
until grep -q 'info: ready' log
$ python3 - {port} <<'END'
    import socket, sys
    for last in 2, 3:
        with socket.create_connection(("127.0.0.1", sys.argv[1]), 60, ("127.0.0.%d" % last, 0)) as sock:
            try:
                sock.sendall(b"RELEASE\n")
                print(sock.recv(99))
            except ConnectionError:
                print(b"")
    END
b'NOT_LOCKED\n'
b''

== a service manager that watches hears of start, life, reload and end
needs ldd "$(type -P counterd)" | grep libsystemd
m$ heard notify
until [ -S notify ]
d$ NOTIFY_SOCKET={dir}/notify WATCHDOG_USEC=3000000 exec counterd -o counter.threads=2 -o poolcounter.listen={net} -o poolcounter.port=7601 -o admin.port=0 2>log
m> READY=1
m> STATUS=serving poolcounter in 2 threads
c@ {net}:7601
c< RELEASE
c> NOT_LOCKED
m> WATCHDOG=1
m> WATCHDOG=1
d signal HUP
m> ...
m> RELOADING=1
m> MONOTONIC_USEC={=[1-9]\d*}
m> ...
m> READY=1
m> STATUS=serving poolcounter in 2 threads
d signal TERM
m> ...
m> STOPPING=1

== it hears of life amid an upgrade
needs ldd "$(type -P counterd)" | grep libsystemd
m$ heard notify
until [ -S notify ] && cp "$(type -P counterd)" counterd
d$ NOTIFY_SOCKET={dir}/notify WATCHDOG_USEC=900000 exec ./counterd -o poolcounter.listen={net} -o admin.port=0 -o upgrade.timeout=600 2>log
m> READY=1
until printf '%s\n' '#!/bin/sh' 'while [ ! -e {dir}/over ]; do sleep 0.1; done' 'exit 1' >new && chmod 755 new && mv new counterd
d signal USR1
m> ...
m> RELOADING=1
m> MONOTONIC_USEC={=.*}
m> STATUS=reloading
m> WATCHDOG=1
m> WATCHDOG=1
m> WATCHDOG=1
until touch over
m> ...
m> READY=1

== a start that fails is not ready
needs ldd "$(type -P counterd)" | grep libsystemd
m$ heard notify
until [ -S notify ]
$ NOTIFY_SOCKET={dir}/notify counterd -o poolcounter.listen={net} -o admin.port=0 -o pid_file=/no/such/folder/pid 2>log
? 2
$ python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"nothing else", "notify")'
m> nothing else
