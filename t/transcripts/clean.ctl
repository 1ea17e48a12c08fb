# clean, against a server that the transcript plays.
# cannot: signal because it waits 30 s for the answer when it returns a member

== members are cleaned one after another
$ counterctl -s {play} clean db -- sh -c 'echo $COUNTER_POOL/$COUNTER_MEMBER $COUNTER_VALUE $COUNTER_FENCE'
s> TAKE db 4294967295 for=clean by={user}@{host}:sh
s< TAKEN db a 1 v_a
db/a v_a 1
s> RETURN 1
s< RETURNED
s> TAKE db 4294967295 for=clean by={user}@{host}:sh
s< TAKEN db b 2 v_b
db/b v_b 2
s> RETURN 2
s< RETURNED
s> TAKE db ...
signal TERM
s? closed
? 143

== a failure is said and tried again later
$ counterctl -s {play} clean db -- sh -c 'test -e good || exit 5'
s> TAKE db ...
s< TAKEN db a 1 -
s> RETURN 1 fail
s< RETURNED
! counterctl: db/a: sh exited with 5: it is not clean
s> TAKE db ...
s< TAKEN db a 2 -
s> RETURN 2 fail
s< RETURNED
! counterctl: db/a: sh exited with 5: it is not clean
s> TAKE db ...
until touch good
s< TAKEN db a 3 -
s> RETURN 3
signal TERM
s< RETURNED
? 143

== jobs clean at once
$ counterctl -s {play} clean db --jobs 3 -- sh -c 'echo ready; exec sleep 1000'
s1> TAKE db ...
s2> TAKE db ...
s3> TAKE db ...
s1< TAKEN db a 1 -
s2< TAKEN db b 2 -
s3< TAKEN db c 3 -
ready
ready
ready
signal TERM
s1> RETURN 1 fail
s2> RETURN 2 fail
s3> RETURN 3 fail
s1< RETURNED
s2< RETURNED
s3< RETURNED
? 143

== what ignores the end is killed and what says done is not believed
$ counterctl -s {play} clean db --jobs 2 --grace 0.2 -- sh -c '
    trap "" TERM; [ $COUNTER_MEMBER = a ] || trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done'
s1> TAKE db ...
s1< TAKEN db a 1 -
s2> TAKE db ...
s2< TAKEN db b 2 -
ready
ready
signal INT
s2> RETURN 2 fail
s2< RETURNED
s1> RETURN 1 fail
s1< RETURNED
! ...
? 130

== a cleaner that is killed takes its commands with it
each victim
    {pid}
    $(cat /proc/{pid}/task/{pid}/children)
$ counterctl -s {play} clean db -- sh -c '
    trap "" TERM; setsid sleep 1000 >/dev/null 2>&1 & daemon=$!
    until kill -s 0 -- -$daemon 2>/dev/null; do sleep 0.01; done
    sleep 1000 >/dev/null 2>&1 & echo $daemon $! $$; wait'
s> TAKE db ...
s< TAKEN db a 1 -
> {apart=\d+} {child=\d+} {command=\d+}
k$ kill -KILL {victim}
k? 0
until gone {child} {command}
k$ ! gone {apart} && kill -KILL {apart}
k? 0
s close
! ...
? 137

== what a command leaves in its group ends before the member is returned
$ counterctl -s {play} clean db --grace 0 -- sh -c '
    trap "" TERM; setsid sleep 1000 >/dev/null 2>&1 & daemon=$!
    until kill -s 0 -- -$daemon 2>/dev/null; do sleep 0.01; done
    sleep 1000 >/dev/null 2>&1 & echo $daemon $! $$'
s> TAKE db ...
s< TAKEN db a 1 -
> {apart=\d+} {child=\d+} {command=\d+}
s> RETURN 1
k$ gone {child} {command} && ! gone {apart} && kill -KILL {apart}
k? 0
signal TERM
s< RETURNED
? 143

== a lost connection ends the command and is made again
$ counterctl -s {play} clean db -- sh -c 'echo ready; [ $COUNTER_MEMBER = b ] || exec sleep 1000'
s> TAKE db ...
s< TAKEN db a 1 -
ready
s close
! counterctl: ...sh gets TERM
s2> TAKE db ...
s2< TAKEN db b 2 -
ready
s2> RETURN 2
s2< RETURNED
s2> TAKE db ...
signal TERM
? 143

== a server that is away is awaited
$ counterctl -s {play} clean db --jobs 2 -- true
s1> TAKE db ...
s2> TAKE db ...
listen off
s1 close
s2 close
! ...
! counterctl: ...Connection refused; trying again
listen on
s3> TAKE db ...
s4> TAKE db ...
signal TERM
! ...
? 143

== trouble that may pass is said once
each answer | why
    ERROR NO_POOL | there is no such pool
    QUEUE_FULL | queue_max
    ERROR SHUTTING_DOWN | shutting down
$ counterctl -s {play} clean db --jobs 2 -- true
s1> TAKE db ...
s2> TAKE db ...
s1< {answer}
s2< {answer}
s1> TAKE db ...
s1< {answer}
s2> TAKE db ...
s2< {answer}
s1> TAKE db ...
! counterctl: pool db: {play} answers: ...{why}...; trying again
signal TERM
? 143

== trouble that stays ends it
each answer | status | why
    ERROR WRONG_KIND | 1 | a pool of this kind
    ERROR BAD_COMMAND | 76 | too old
    HTTP/1.1 400 Bad | 76 | HTTP/1.1 400 Bad
$ counterctl -s {play} clean db --jobs 3 -- true
s1> TAKE db ...
s2> TAKE db ...
s3> TAKE db ...
s1< {answer}
s2< {answer}
s3< {answer}
! counterctl: {=(?!.*trying again)}...{why}...
? {status}

== a command that is not there ends it
$ counterctl -s {play} clean db -- /no/such/command
s> TAKE db ...
s< TAKEN db a 1 -
s> RETURN 1 fail
s< RETURNED
! counterctl: /no/such/command: No such file or directory
? 127

== a member that was taken away is said
$ counterctl -s {play} clean db -- true
s> TAKE db ...
s< TAKEN db a 1 -
s> RETURN 1
s< GONE
! counterctl: db/a: it was taken away meanwhile
s> TAKE db ...
signal TERM
? 143

== once cleans what is dirty now
$ counterctl -s {play} clean db --once -- sh -c '[ $COUNTER_MEMBER = a ] || exit 5'
s> POOL SHOW db
s< POOL db static open group=dbs members=4 free=1 taken=0 cleaning=0 checking=0 dirty=3 stopping=0 down=0 waiting=1 want=-
s< MEMBER a dirty 1.000 - - takes=0 fails=0
s< MEMBER b free 1.000 - - takes=0 fails=0
s< MEMBER c dirty 1.000 - - takes=0 fails=0
s< MEMBER d dirty 1.000 - - takes=0 fails=0
s<
s1> TAKE db member=a for=clean by={user}@{host}:sh
s1< TAKEN db a 97 -
s1> RETURN 97
s1< RETURNED
s1> TAKE db member=c for=clean by=...
s1< TIMEOUT
s1> TAKE db member=d for=clean by=...
s1< TAKEN db d 100 -
s1> RETURN 100 fail
s1< RETURNED
! counterctl: db/d: sh exited with 5: it is not clean
? 5

== once by several at a time
$ counterctl -s {play} clean db --once --jobs 9 -- sh -c 'echo $COUNTER_MEMBER'
s> POOL SHOW db
s< POOL db static open group=dbs members=2 free=0 taken=0 cleaning=0 checking=0 dirty=2 stopping=0 down=0 waiting=1 want=-
s< MEMBER a dirty 1.000 - - takes=0 fails=0
s< MEMBER d dirty 1.000 - - takes=0 fails=0
s<
s1> TAKE db member={one=[ad]} for=clean by=...
s2> TAKE db member={two=[ad]} for=clean by=...
s1< TAKEN db {one} 1 -
s1> RETURN 1
s2< TAKEN db {two} 2 -
s2> RETURN 2
s1< RETURNED
s2< RETURNED
> {one}
> {two}

== once with nothing to do
$ counterctl -s {play} clean db --once -- false
s> POOL SHOW db
s< POOL db static open group=dbs members=1 free=1 taken=0 cleaning=0 checking=0 dirty=0 stopping=0 down=0 waiting=1 want=-
s< MEMBER b free 1.000 - - takes=0 fails=0
s<
$ counterctl -s {play} clean db --once -- false
s2> POOL SHOW db
s2< ERROR NO_POOL
! counterctl: pool db: {play} answers: there is no such pool
? 1

== once does not try again
$ counterctl -s {play} clean db --once -- false
s> POOL SHOW db
s< POOL db static open group=dbs members=1 free=0 taken=0 cleaning=0 checking=0 dirty=1 stopping=0 down=0 waiting=1 want=-
s< MEMBER a dirty 1.000 - - takes=0 fails=0
s<
s1> TAKE ...
s1 close
! counterctl: {=(?!.*trying again).*}
? 69

== clean checks the name
each name
    ''
    a,b
    @g
    'a b'
$ counterctl -s {none} clean {name} -- true
! counterctl: ...not the name of a pool...
? 64

== an example: databases that are reset behind those who leave (doc/pools/databases)
# cannot: upgrade reload lost signal because it kills, and looks for children
daemon "pool.dbs.members=db_1={dir}/1.sqlite, db_2={dir}/2.sqlite, db_3={dir}/3.sqlite" pool.dbs.on_start=dirty pool.dbs.on_return=dirty
cleaner$ cd {top}/doc/pools/databases && exec counterctl -s {text} clean dbs -- ./reset
$ cd {top}/doc/pools/databases; exec 2>/dev/null
    for user in {1..10}; do counterctl -s {text} run --pool dbs -- ./work >>{dir}/out 2>>{dir}/said & users="$users $!"; done
    victim() { for user in $users; do [ -z "$(children $user)" ] || { echo $user; return; }; done; false; }
    for times in 1 2 3; do
        until user=$(victim); do sleep 0.01; done
        kill -KILL $user
        until gone $user; do sleep 0.01; done
    done
    for user in $users; do wait $user; echo $?; done >{dir}/statuses; sort {dir}/statuses | uniq -c
    grep 'somebody has left' {dir}/said
> {= +}7 0
> {= +}3 137
? 1
until counterctl -s {text} pool list --json dbs | grep '"free":3'
