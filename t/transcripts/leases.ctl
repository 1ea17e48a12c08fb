# work whose connection is lost, against a server that the transcript plays.
let OK = OK 2\r\n{}\r\n
let run = sh -c 'echo $$ >pid; echo $COUNTER_JOB_ID $COUNTER_JOB_TRY; cat go; echo went on'

steps claimed
    $ mkfifo go; counterctl -s {play} --io-timeout 600 work t --grace 1 -- {run}
    j> tube default
    j<< {OK}
    j> claim 1 2147483647 t
    j<< CLAIMED 1\r\nRESERVED 7 5 11 t 2\r\nhello\r\n
    j> stats-job 7
    j<< OK 18\r\n---\npri: 5\nttr: 3\n\r\n
    7 2
    j> renew 7 11
    j< TOUCHED

== a leased job outlives the connection
# The command goes on, the worker renews over a new connection, and acknowledges there.
do claimed
j close
j2> tube default
j2<< {OK}
j2> renew 7 11
j2< TOUCHED
until echo more >go
more
went on
...
j2> ...
j2> ack 7 11
j2< DELETED
j2> claim ...
! counterctl: ...the server closed the connection
signal TERM
? 143

== an end without a server is reported later
do claimed
listen off
j close
until echo more >go
...
more
went on
until gone $(cat pid)
! ...
! counterctl: ...Connection refused...
listen on
j2> tube default
j2<< {OK}
j2> ack 7 11
j2< DELETED
j2> claim ...
signal TERM
! ...
? 143

== an end is reported once, when the server has said what it is
do claimed
j close
j2> tube default
until echo more >go
more
went on
until gone $(cat pid)
j2<< {OK}
j2> ack 7 11
j2< DELETED
j2> claim ...
! counterctl: ...the server closed the connection
signal TERM
? 143

== a lost job is followed by one claim, when the server has said what it is
$ mkfifo go; counterctl -s {play} --io-timeout 600 work t -- sh -c 'trap "" TERM; echo $$ >pid; cat go'
j> tube default
j< UNKNOWN_COMMAND
j> watch t
j< WATCHING 2
j> ignore default
j< WATCHING 1
j> reserve-with-timeout ...
j<< RESERVED 7 5\r\nhello\r\n
j> stats-job 7
j<< OK 40\r\n---\npri: 5\nttr: 600\ntube: t\nreserves: 2\n\r\n
until test -s pid
j close
! counterctl: ...
! counterctl: job 7 of t, try 2: ...so another worker may run it; sh gets TERM
j2> tube default
until echo more >go
more
until gone $(cat pid)
j2< UNKNOWN_COMMAND
j2> watch t
j2< WATCHING 2
j2> ignore default
j2< WATCHING 1
j2> reserve-with-timeout ...
signal TERM
? 143

== a job without room for its input is given back
$ bash -c 'trap "" XFSZ; ulimit -f 0; exec counterctl -s {play} work t -- true'
j> tube default
j<< {OK}
j> claim ...
j<< CLAIMED 1\r\nRESERVED 7 5 11 t 2\r\nhello\r\n
j> stats-job 7
j<< OK 18\r\n---\npri: 5\nttr: 3\n\r\n
! counterctl: job 7 of t, try 2: no memory for its input: ...
j> nack 7 11 0
j< RELEASED
! counterctl: job 7 of t, try 2: given back
? 71

== a second signal waits no longer for what the server says of a job
$ counterctl -s {play} --io-timeout 600 work t -- true
j> tube default
j<< {OK}
j> claim ...
j<< CLAIMED 1\r\nRESERVED 7 5 11 t 2\r\nhello\r\n
j> stats-job 7
signal INT
signal TERM
? 130

== a reservation that is over ends the command
do claimed
j> renew 7 11
j< NOT_FOUND
! counterctl: job 7 of t, try 2: its reservation is over, so another worker may run it; sh gets TERM
j> claim ...
signal TERM
? 143
$ gone $(cat pid)

== a lost job ends its command on a plain server
$ mkfifo go; counterctl -s {play} --io-timeout 600 work t --grace 1 -- {run}
j> tube default
j< UNKNOWN_COMMAND
j> watch t
j< WATCHING 2
j> ignore default
j< WATCHING 1
j> reserve-with-timeout ...
j<< RESERVED 7 5\r\nhello\r\n
j> stats-job 7
j<< OK 38\r\n---\npri: 5\nttr: 3\ntube: t\nreserves: 2\n\r\n
7 2
j> touch 7
j close
! counterctl: ...
! counterctl: job 7 of t, try 2: ...so another worker may run it; sh gets TERM
until gone $(cat pid)
signal TERM
! ...
? 143

== a claimed job without a time to run is renewed each third of a second
$ mkfifo go; counterctl -s {play} work t -- {run}
j> tube default
j<< {OK}
j> claim ...
j<< CLAIMED 1\r\nRESERVED 7 5 11 t 2\r\nhello\r\n
j> stats-job 7
j<< OK 11\r\n---\npri: 5\n\r\n
7 2
j> renew 7 11
j< TOUCHED
until echo more >go
more
went on
j> ...
j> ack 7 11
j< DELETED
signal HUP
? 129

== tries that workers were lost with bury a job
$ counterctl -s {play} work t --tries 1 -- echo ran
j> tube default
j<< {OK}
j> claim ...
j<< CLAIMED 1\r\nRESERVED 7 5 11 t 2\r\nhello\r\n
j> stats-job 7
j<< OK 19\r\n---\npri: 5\nttr: 30\n\r\n
j> {=(bury 7|nack 7).*}
j< BURIED
! counterctl: job 7 of t, try 2: workers were lost with it, and its tries are used up (--tries)
signal TERM
! ...
? 143

== a job that waits for its lock is renewed
daemon
c@ {text}
c< ACQ4ME k 1 9 0
c> LOCKED
$ counterctl -s {play} work t --lock k --lock-server {text} -- echo ran
j> tube default
j<< {OK}
j> claim ...
j<< CLAIMED 1\r\nRESERVED 7 5 11 t 2\r\nhello\r\n
j> stats-job 7
j<< OK 18\r\n---\npri: 5\nttr: 3\n\r\n
j> renew 7 11
j< TOUCHED
c< RELEASE k
ran
...
j> ...
j> ack 7 11
j< DELETED
signal TERM
? 143
