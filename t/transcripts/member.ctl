# member: which processes it runs, what it tells the server, and that nothing of it stays.
let member = counterctl -s {play} member p
let sleeper = sh -c 'echo $$ >>pids.$COUNTER_SLOT; exec sleep 1000'
let run = cat pids.* | wc -l

steps joined
    s> SUPPLY p 1 1
    s< OK
    s< WANT p 1
    s> JOIN p {a={host}-0-\d+}
    s< JOINED
steps leave
    signal TERM
    s> SUPPLY p 0 0
    s< OK
    s> MEMBER DROP p {a} now
    s< OK
    s> QUIT
    s< BYE
    ? 143
steps leave quietly
    s agree
    signal TERM
    ? 143

== it starts as many as are wanted
$ {member} --init 1 --max 4 -- {sleeper}
s> SUPPLY p 1 4
s< OK
s< WANT p 1
s> JOIN p {a={host}-0-\d+}
s< JOINED
s< WANT p 3
s> JOIN p {b={host}-[12]-\d+}
s< JOINED
s> JOIN p {c={host}-[12]-\d+}
s< JOINED
until [ $({run}) = 3 ]
s< WANT p 1
s< WANT p 2
s< STOP p {a} cull
s> MEMBER DROP p {a} now
s< OK
k$ gone $(cat pids.0) && ! gone $(cat pids.1) && ! gone $(cat pids.2)
k? 0
s< WANT p 3
s> JOIN p {a={host}-0-\d+}
s< JOINED
until [ $({run}) = 4 ]
signal TERM
s> SUPPLY p 0 0
s< OK
s> MEMBER DROP p ... now
s< OK
s> MEMBER DROP p ... now
s< OK
s> MEMBER DROP p ... now
s< OK
s> QUIT
s< BYE
? 143
until gone $(cat pids.*)

== names are never used twice
$ {member} -- {sleeper}
do joined
let one = {a}
s< STOP p {a} lifetime
s> MEMBER DROP p {a} now
s< OK
s> JOIN p {a=(?!{one}$){host}-0-\d+}
s< JOINED
do leave
$ {member} -- {sleeper}
s2> SUPPLY p 1 1
s2< OK
s2< WANT p 1
s2> JOIN p {=(?!{one}$|{a}$){host}-0-\d+}
s2< JOINED
s2 agree
signal TERM
? 143

== members know who they are, and nothing of a pool around them
$ COUNTER_MEMBER=outer COUNTER_VALUE=outer COUNTER_FENCE=1 COUNTER_ATTR_A=x COUNTER_VALUE_0=x COUNTER_ATTR_B_1=x \
        {member} --name n --init 2 -- sh -c 'env | grep ^COUNTER_ | sort | xargs >$COUNTER_SLOT; exec sleep 1000'
s> SUPPLY p 2 2
s< OK
s< WANT p 2
s> JOIN p n-0-{a=\d+}
s< JOINED
s> JOIN p n-1-{b=\d+}
s< JOINED
until [ -s 0 ] && [ -s 1 ]
do leave quietly
$ cat 0 1
COUNTER_MEMBER=n-0-{a} COUNTER_POOL=p COUNTER_SLOT=0
COUNTER_MEMBER=n-1-{b} COUNTER_POOL=p COUNTER_SLOT=1

== value and attributes of the command line
$ {member} --value 10.0.0.5:80 --attr gpu=a100 --attr n= -- {sleeper}
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> JOIN p {a=\S+} 10.0.0.5:80 gpu=a100 n=
s< JOINED
do leave

== there are never more than max
$ {member} --init 2 --grace 0.3 -- sh -c 'trap "" TERM; echo $$ >>pids.$COUNTER_SLOT; exec sleep 1000'
s> SUPPLY p 2 2
s< OK
s< WANT p 2
s> JOIN p {a={host}-[01]-\d+}
s< JOINED
s> JOIN p {b={host}-[01]-\d+}
s< JOINED
until [ $({run}) = 2 ]
s< STOP p {a} fail
s< WANT p 9
s> MEMBER DROP p {a} now
s< OK
s> JOIN p {a={host}-[01]-\d+}
k$ n=0; for pid in $(cat pids.*); do gone $pid || n=$((n + 1)); done; [ $n -le 2 ]
k? 0
s< JOINED
do leave quietly

== it joins when it is ready
$ mkfifo go; {member} --ready --value v --attr a=1 --attr b=1 -- sh -c '
    echo begin; cat go; echo "READY v:1 b=2 c=3"; echo READY w; echo end; exec sleep 1000'
s> SUPPLY p 1 1
s< OK
s< WANT p 1
begin
until echo between >go
between
end
s> JOIN p {a=\S+} v:1 a=1 b=2 c=3
s< JOINED
do leave

== what it does not say is as on the command line
each said | words
    READY | v a=1
    READY - | v a=1
    READY  -  a=2 b= | v a=2 b=
$ {member} --ready --value v --attr a=1 -- sh -c "echo '{said}'; exec sleep 1000"
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> JOIN p {a=\S+} {words}
s< JOINED
do leave

== a wrong ready is a failed start
each said
    READY v A=1
    READY v state=down
    READY v x
$ {member} --ready -- sh -c "echo x >>log; echo '{said}'; exec sleep 1000"
s> SUPPLY p 1 1
s< OK
s< WANT p 1
! {=(?!.*{said}).*not of the form.*}
until [ $(wc -l <log) -ge 2 ]
! ...
do leave quietly

== a long value joins
each size
    4090
    4091
    4096
$ {member} --ready -- sh -c "echo READY $(printf %{size}s | tr ' ' x) a=1; exec sleep 1000"
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> JOIN p {a=\S+} {value=x+} a=1
k$ [ $(printf {value} | wc -c) = {size} ]
k? 0
s< JOINED
do leave

== a value that is too long is said and not shown
each size
    4097
    8187
    100000
$ {member} --ready -- sh -c "printf 'READY '; head -c {size} /dev/zero | tr '\0' x; echo; exec sleep 1000"
s> SUPPLY p 1 1
s< OK
s< WANT p 1
! {=(?!.*xx).*too long.*}
! ...
do leave quietly

== a start that takes too long is ended
$ {member} --ready --start-timeout 0.2 -- sh -c 'echo $$ >>pids.0; echo no READY; exec sleep 1000'
s> SUPPLY p 1 1
s< OK
s< WANT p 1
! ...--start-timeout...
until [ $({run}) -gt 1 ] && gone $(head -n1 pids.0)
...
! ...
do leave quietly

== stop is TERM and then kill
$ {member} --ready --grace 3 -- sh -c 'trap "echo x >>log" TERM; echo READY; while :; do sleep 0.05; done'
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> JOIN p {a=\S+}
s< JOINED
k$ date +%s%N >sent
k? 0
s< STOP p {a} operator
s> MEMBER DROP p {a} now
k$ [ $(wc -l <log) = 1 ] && [ $(($(date +%s%N) - $(cat sent))) -ge 3000000000 ]
k? 0
s< OK
s> JOIN p ...
s< JOINED
! ...
do leave quietly

== one that ends is told at once and replaced
$ {member} --init 2 -- {sleeper}
s> SUPPLY p 2 2
s< OK
s< WANT p 2
s> JOIN p {=\S+}
s< JOINED
s> JOIN p {=\S+}
s< JOINED
until [ $({run}) = 2 ] && kill -KILL $(cat pids.0)
s> MEMBER DROP p {host}-0-{=\d+} now
s< OK
! ...signal 9 has ended sh...
s> JOIN p {host}-0-{=\d+}
s< JOINED
do leave quietly

== no fork storm
# In each of the two slots one at once, then after 0.1, 0.2, 0.4 and 0.8 seconds.
$ {member} --init 2 --max 9 -- sh -c 'date +%s%N >>log'
s> SUPPLY p 2 9
s< OK
s< WANT p 2
until [ $(wc -l <log) -ge 10 ]
k$ sort -n log | awk 'NR == 1 { begin = $1 } NR == 10 { exit !($1 - begin > 1.4e9) }'
k? 0
signal TERM
s close
! ...
? 143

== no zombies
# Each leaves one process in its group, and one outside of it whose parent ends at once.
$ {member} --init 3 --grace 0 -- sh -c 'sleep 1000 & (setsid sh -c "exit 0" &); echo x >>log; exit 1'
s> SUPPLY p 3 3
s< OK
s< WANT p 3
until [ $(wc -l <log) -ge 9 ]
until ! for pid in $(children $(child {pid})) $(children {pid}); do state $pid; done | grep -q Z
signal TERM
s close
! ...
? 143

== what cannot be executed is told at once
$ {member} -- /no/such/command
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> QUIT
s< BYE
! counterctl: /no/such/command...
? 127

steps group
    $ {member} --ready --grace {grace} -- sh -c '{trap}sleep 1000 >&- & echo $! >>in; setsid sleep 1000 >&- & echo $! >>apart
        echo $$ >>in; until [ $(ps -o sid= $(tail -n1 apart)) = $(tail -n1 apart) ]; do sleep 0.01; done; echo READY; wait'
    do joined

== signals end everything
each name | status
    TERM | 143
    INT | 130
    HUP | 129
    QUIT | 131
let grace = 20
let trap = :;
do group
signal {name}
s> SUPPLY p 0 0
s< OK
s> MEMBER DROP p {a} now
s< OK
s> QUIT
s< BYE
? {status}
$ gone $(cat in apart)

== at the end they are killed after the grace
$ {member} --ready --grace 0.3 -- sh -c 'trap "" TERM; echo $$ >>pids.0; echo READY; while :; do sleep 0.05; done'
do joined
do leave
$ gone $(cat pids.0)

== what a command has started ends with it
let grace = 1000
let trap = :;
do group
until kill -KILL $(tail -n1 in)
s> MEMBER DROP p {a} now
s< OK
! ...signal 9 has ended sh...
s> JOIN p ...
s< JOINED
until gone $(head -n2 in)
do leave quietly
$ gone $(cat in apart)

== killed it leaves nothing
each victim
    {pid}
    $(child {pid})
let grace = 20
let trap = trap "" TERM;
do group
until kill -KILL {victim}
until gone $(cat in apart)
! ...
? 137

== what the shell before it has started is left alone
# bash executes counterctl in place of itself, so its job becomes a child of counterctl.
$ sleep 1000 >&- 2>&- & echo $! >job; exec {member} -- sleep 1000
do joined
do leave
$ ! gone $(cat job) && kill -KILL $(cat job)

== a stopped one goes on
$ {member} -- {sleeper}
do joined
signal TSTP
until [ $(state {pid})$(state $(child {pid})) = TT ]
s< STOP p {a} cull
signal CONT
s> MEMBER DROP p {a} now
s< OK
s> JOIN p ...
s< JOINED
do leave quietly

== its terminal does not reach them
t$$ {member} -- {sleeper}
do joined
until [ $({run}) = 1 ]
k$ pid=$(cat pids.0); echo $(($(cut -d' ' -f5 /proc/$pid/stat) == pid)) $(readlink /proc/$pid/fd/0)
k> 1 /dev/null
k? 0
t< \x03
s> SUPPLY p 0 0
s< OK
s> MEMBER DROP p {a} now
s< OK
s> QUIT
s< BYE
t? 130

== without the server all end
$ {member} -- {sleeper}
do joined
until [ $({run}) = 1 ]
let old = {a}
s close
! ...
s2> SUPPLY p 1 1
s2< OK
s2< WANT p 1
s2> JOIN p {=(?!{old}$){host}-0-\d+}
s2< JOINED
k$ gone $(head -n1 pids.0)
k? 0
signal TERM
s2> SUPPLY p 0 0
s2 close
? 143

== kept ones join again
$ {member} --init 1 --max 3 --keep --value v -- {sleeper}
s> SUPPLY p 1 3
s< OK
s< WANT p 2
s> JOIN p {a={host}-0-\d+} v
s< JOINED
s> JOIN p {b={host}-1-\d+} v
s< JOINED
until [ $({run}) = 2 ]
s close
s2> SUPPLY p 1 3
s2< OK
s2< WANT p 2
s2> JOIN p {a} v
s2< JOINED
s2> JOIN p {b} v
s2< JOINED
s2 close
until kill -KILL $(cat pids.0)
s3 accept
until [ $({run}) = 3 ]
s3> SUPPLY p 1 3
s3< OK
s3< WANT p 1
s3> JOIN p {=(?!{a} |{b} ){host}-0-\d+ v}
s3< JOINED
s3> JOIN p {b} v
s3< JOINED
! ...
signal TERM
s3> SUPPLY p 0 0
s3 close
? 143

== a name that is still in use is tried again
$ {member} --keep -- {sleeper}
do joined
s close
s2> SUPPLY p 1 1
s2< OK
s2< WANT p 1
s2> JOIN p {a}
s2< ERROR EXISTS
s2> JOIN p {a}
s2< ERROR EXISTS
s2> JOIN p {a}
s2< JOINED
! ...
! ...the name is in use...
! ...
signal TERM
s2> SUPPLY p 0 0
s2 close
? 143

== a full pool ends the command
$ {member} -- {sleeper}
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> JOIN p {=\S+}
until [ $({run}) = 1 ]
s< ERROR POOL_FULL
! ...
s> JOIN p {a=\S+}
s< JOINED
until [ $({run}) = 2 ] && gone $(head -n1 pids.0)
do leave

== a pool that was dropped is supplied again
# It asks again 0.1 seconds after an answer, and its command may take longer to end.
$ {member} -- {sleeper}
do joined
let old = {a}
s< WANT p 0
s< STOP p {a} drop
s> SUPPLY p 1 1
s> MEMBER DROP p {a} now
s< ERROR NO_POOL
s< ERROR NO_POOL
s> SUPPLY p 1 1
s< ERROR NO_POOL
! ...
s> SUPPLY p 1 1
s< OK
s< WANT p 1
s> JOIN p {a=(?!{old}$){host}-0-\d+}
s< JOINED
do leave

== what the server refuses at the start is the end
each answer | status
    NO_POOL | 1
    WRONG_KIND | 1
    DENIED | 77
    TOO_MANY | 69
$ {member} -- true
s> SUPPLY p 1 1
s< ERROR {answer}
s> QUIT
s< BYE
! counterctl: p: ...
? {status}

== what it refuses later is tried again
$ {member} -- {sleeper}
do joined
s close
s2> SUPPLY p 1 1
s2< ERROR NO_POOL
s2> SUPPLY p 1 1
s2< ERROR SHUTTING_DOWN
s2 close
s3> SUPPLY p 1 1
s3< OK
s3< WANT p 1
s3> JOIN p ...
s3< JOINED
! ...
signal TERM
s3> SUPPLY p 0 0
s3 close
? 143

== no server at the start
$ counterctl -s {none} member p -- true
! counterctl: ...can't connect...
? 69

== members are checked
$ {member} --check 'env | grep ^COUNTER_ | sort | xargs >>log; test "$COUNTER_FENCE" != 8' --every 1 -- {sleeper}
do joined
c> TAKE p member={a} for=check by={=\S*}:check
c< TAKEN p {a} 7 v:1 gpu=a100
c> RETURN 7
c< RETURNED
c> TAKE p member={a} for=check by={=\S*}:check
c< TAKEN p {a} 8 v:1 gpu=a100
c> RETURN 8 fail
c< RETURNED
k$ cat log
k> COUNTER_ATTR_GPU=a100 COUNTER_FENCE=7 COUNTER_MEMBER={a} COUNTER_POOL=p COUNTER_SLOT=0 COUNTER_VALUE=v:1
k> ...COUNTER_FENCE=8...
k? 0
c> TAKE p ...
c< TIMEOUT
c> TAKE p ...
do leave quietly

== a check that takes too long has failed
$ {member} --check 'sleep 1000 & echo $! >log; wait' --every 0.5 -- {sleeper}
do joined
c> TAKE ...
c< TAKEN p {a} 7 -
c> RETURN 7 fail
c< RETURNED
until gone $(cat log)
! ...
do leave quietly

== checks go on over another connection
$ {member} --check true --every 1 -- {sleeper}
do joined
c> TAKE ...
c close
c2> TAKE ...
c2< TAKEN p {a} 7 -
c2> RETURN 7
c2< RETURNED
! ...
do leave quietly

== at the end its check is killed
$ {member} --check 'echo $$ >log; exec sleep 1000' --every 3 -- {sleeper}
do joined
c> TAKE ...
c< TAKEN p {a} 7 -
until [ -s log ]
do leave quietly
$ gone $(cat log)

== without a command it is a member itself
$ {member} --value v --attr a=1
s> JOIN p {host}-{pid} v a=1
s< JOINED
signal TERM
s> MEMBER DROP p {host}-{pid} now
s< OK
s> QUIT
s< BYE
? 143

== it joins again under its name
$ {member} --name printer
s> JOIN p printer
s< JOINED
s close
s2> JOIN p printer
s2< ERROR NO_POOL
s2> JOIN p printer
s2< JOINED
! ...
signal TERM
s2> MEMBER DROP p printer now
s2< OK
s2> QUIT
s2< BYE
? 143

== it ends when it is stopped
$ {member} --name printer
s> JOIN p printer
s< JOINED
s< STOP p printer operator
s> MEMBER DROP p printer now
s< OK
s> QUIT
s< BYE
! ...operator...
? 0

== a name in use is told at the start
$ {member} --name printer
s> JOIN p printer
s< ERROR EXISTS
s> QUIT
s< BYE
! ...
? 1

== it is checked too
$ {member} --name printer --check false --every 0.1
s> JOIN p printer
s< JOINED
c> TAKE p member=printer for=check by={=\S*}:check
c< TAKEN p printer 7 -
c> RETURN 7 fail
c< RETURNED
s< STOP p printer fail
s> MEMBER DROP p printer now
s< OK
s> QUIT
s< BYE
! ...
? 0

== wrong words
each words | why
    'a b' -- true | name of a pool
    @p -- true | name of a pool
    p --init 3 --max 2 -- true | --init is 3
    p --name 'a b' -- true | --name
    p --name $(printf %224s|tr ' ' n) -- true | --name
    p --value 'a b' -- true | --value
    p --attr K=v -- true | --attr
    p --attr k -- true | --attr
    p --attr state=down -- true | --attr
    p --ready | need
    p --max 2 | need
    p --start-timeout 2 -- true | needs --ready
    p --every 2 -- true | needs --check
$ counterctl -s {none} member {words}
! counterctl: ...{why}...
? 64

steps real
    daemon counter.threads=2
    c@ {text}
    c< POOL ADD p kind=joined
    c> OK
    let now = counterctl -s {text} pool list p | tail -n1 | xargs
    $ counterctl -s {text} member p --max 3 {options} -- {sleeper}
    until {now} | grep -q '^joined 1 1 '

== demand starts members and idleness ends them
let options = --grace 20
do real
c< TAKE p 1000
c> TAKEN p {one=\S+} {f1=\d+} -
d@ {text}
d< TAKE p 1000
d> TAKEN p {=(?!{one} )\S+ \d+ -}
c< POOL SET p cull_after=0.1
c> OK
c< RETURN {f1}
c> RETURNED
d close
until {now} | grep -q '^joined 1 1 '
until [ $(n=0; for pid in $(cat pids.*); do gone $pid || n=$((n + 1)); done; echo $n) = 1 ]
signal TERM
? 143

== a returned failure is replaced
let options = --grace 20
do real
c< TAKE p 1000
c> TAKEN p {one=\S+} {f1=\d+} -
c< RETURN {f1} fail
c> RETURNED
c< TAKE p 1000
c> TAKEN p {=(?!{one} )\S+ \d+ -}
until gone $(head -n1 pids.0)
! ...
signal TERM
? 143

== a failed check is replaced
let options = --every 0.1 --check 'test -e good'
do real
until [ $({run}) -gt 1 ] && touch good
until gone $(head -n1 pids.0)
until {now} | grep -q '^joined 1 1 '
! ...
signal TERM
? 143

== when it is killed its members are gone
let options = --grace 20
do real
signal KILL
until {now} | grep -q '^joined 0 0 '
? 137

== a dropped pool is supplied when it is there again
let options = --grace 20
do real
c< POOL DROP p
c> OK
until gone $(head -n1 pids.0)
until [ -z "$(counterctl -s {text} pool list p)" ]
c< POOL ADD p kind=joined
c> OK
until {now} | grep -q '^joined 1 1 '
! ...
signal TERM
? 143
