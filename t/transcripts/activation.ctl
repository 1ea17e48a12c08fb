# Sockets that a service manager hands over: what is said of those without a use. system/test_activation.py has those that
# are served.
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

== an option for TCP does not matter to a unix socket, and nobody else gets what was handed over
d$ handed 'counter:{dir}/s admin:{dir}/a :{net}:7531' counterd -o counter.enable=true -o counter.plain=false -o poolcounter.listen={net} -o counter.socket=@x-{net} 2>log
until grep -q 'info: ready' log
$ grep -o '[a-z]*: listening on .*' log
> counter: listening on unix socket {dir}/s (inherited)...
> poolcounter: listening on {net}:7531 (inherited)...
> admin: listening on {dir}/a...
$ for file in /proc/{dpid}/fdinfo/*; do case ${file##*/} in 0 | 1 | 2) ;; *) grep -q '^flags:.*02[0-7]\{6\}$' $file || echo $file ;; esac; done
? 0
d signal TERM
