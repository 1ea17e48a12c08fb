# counterctl pool, against a server that the transcript plays.
let POOL = POOL db static open group=dbs members=4 free=2 taken=1 cleaning=0 checking=0 dirty=1 stopping=0 down=0 waiting=1 want=- on_fail=down max=0
let MEMBER = MEMBER db_1 taken 61.500 1700000000000001 0.12.3@10.0.0.7:53122 takes=3 fails=1 then=down by=me@host:cmd note=disk model=A100
let FREE = MEMBER db_2 free 0.000 - - takes=0 fails=0
let WAITER = WAITER 0.1.1@10.0.0.8:1234 2.250 30 count=2 for=use with=model=A100 by=you@host:x

== list
$ counterctl -s {play} pool list d
s> POOL LIST d
s< {POOL}
s< POOL web joined draining group=- members=4 free=2 taken=1 cleaning=0 checking=0 dirty=1 stopping=0 down=0 waiting=1 want=3 on_fail=down max=0
s<
KIND    MEMBERS  FREE  TAKEN  CLEANING  CHECKING  DIRTY  STOPPING  DOWN  WAITING  WANT  NAME
static        4     2      1         0         0      1         0     0        1     -  db  @dbs
joined        4     2      1         0         0      1         0     0        1     3  web  (draining)

== list of none
each words
    list
    list --json
$ counterctl -s {play} pool {words}
s> POOL LIST
s<

== list as json
$ counterctl -s {play} pool list --json
s> POOL LIST
s< {POOL}
s<
> {"type":"pool","name":"db","id":"db","kind":"static","draining":false,"group":"dbs","members":4,"free":2,"taken":1,"cleaning":0,"checking":0,"dirty":1,"stopping":0,"down":0,"waiting":1,"options":{"on_fail":"down","max":"0"}}

== show
$ counterctl -s {play} pool show db
s> POOL SHOW db
s< {POOL}
s< {MEMBER}
s< {FREE}
s< {WAITER}
s<
db: static, group dbs
> options: on_fail=down max=0
members: 4: free 2, taken 1, cleaning 0, checking 0, dirty 1, stopping 0, down 0
>   STATE  SINCE             FENCE  TAKES  FAILS  HOLDER                 NAME
>   taken  1m 1s  1700000000000001      3      1  0.12.3@10.0.0.7:53122  db_1 then=down by=me@host:cmd note=disk model=A100
>   free       0                 -      0      0  -                      db_2
waiters: 1
>   WAITED  TIMEOUT  COUNT  FOR  CLIENT
>    2.2 s   30.0 s      2  use  0.1.1@10.0.0.8:1234 by=you@host:x with model=A100
$ counterctl -s {play} pool show db -j
s2> POOL SHOW db
s2< {POOL}
s2< {MEMBER}
s2< {FREE}
s2< {WAITER}
s2<
> {"type":"pool","name":"db",...
> {"type":"member","name":"db_1","id":"db_1","state":"taken","seconds":61.5,"fence":1700000000000001,"holder":"0.12.3@10.0.0.7:53122","takes":3,"fails":1,"then":"down","by":"me@host:cmd","note":"disk","attributes":{"model":"A100"}}
> {"type":"member","name":"db_2","id":"db_2","state":"free","seconds":0.0,"takes":0,"fails":0,"attributes":{}}
> {"type":"waiter","client":"0.1.1@10.0.0.8:1234","seconds":2.25,"timeout":30.0,"count":2,"for":"use","by":"you@host:x","with":{"model":"A100"}}

== changes
each words | line
    add db kind=static on_fail=down | POOL ADD db kind=static on_fail=down
    set db max=5 | POOL SET db max=5
    drop db | POOL DROP db
    drop db now | POOL DROP db now
    member add db db_1 host:5433 model=A100 zone=b | MEMBER ADD db db_1 host:5433 model=A100 zone=b
    member add db db_1 | MEMBER ADD db db_1
    member set db db_1 state=down note=disk now | MEMBER SET db db_1 note=disk state=down now
    member drop db db_1 now | MEMBER DROP db db_1 now
    -e drop 'a\\b\xc3\xa9' | POOL DROP a\bé
$ counterctl -s {play} pool {words}
s> {line}
s< OK
> ok
$ counterctl -s {play} pool --json {words}
s2> {line}
s2< OK
> {"ok":true}

== wrong words are not sent
each words | why
    lsit | counterctl: pool: no such verb: "lsit"...
    member | counterctl: pool: no such verb: "member"...
    member show db m | counterctl: pool: no such verb...
    show | ..."counterctl pool show POOL"...
    show a,b | ..."counterctl pool show POOL"...
    show db x | ..."counterctl pool show POOL"...
    drop db soon | ..."counterctl pool drop POOL [now]"...
    member set db m | ..."counterctl pool member set POOL MEMBER K=V... [now]"...
    member add db m v K=v | ...member add POOL MEMBER [VALUE...
    show 'a b' | ...argument 2 has a space...
    member set db m note=$'a\nb' | ...argument 5 has a space...
    show '' | ...it is empty...
    show $(printf %256s|tr ' ' x) | ...too long...
$ counterctl -s {none} pool {words}
! {why}
? 64

== refusals are explained
each word | status | why
    ERROR NO_POOL | 1 | there is no such pool
    ERROR NO_MEMBER | 1 | there is no such member
    ERROR EXISTS | 1 | the name is in use
    ERROR WRONG_KIND | 1 | a pool of this kind
    ERROR BAD_VALUE max | 64 | the value of max is wrong
    ERROR DENIED | 77 | pools.operators
    ERROR TOO_MANY | 69 | more than it allows
    ERROR OUT_OF_MEMORY | 69 | no memory
    ERROR BAD_COMMAND | 76 | too old
    RETURNED | 76 | returned
    \x1b[1mhello | 76 | \x1b[1mhello
$ counterctl -s {play} pool set db max=5
s> POOL SET db max=5
s<< {word}\n
! counterctl: pool set db max=5: {play}...{why}...
? {status}

== a server without pools
$ counterctl -s {play} pool list
s> POOL LIST
s< ERROR BAD_COMMAND
! counterctl: ...knows nothing of pools...
? 76

== watch ends with its pool
let EVENTS
    EVENT db db_1 free taken take fence=7 conn=0.1.2 by=me@host:x
    EVENT db - - - set
    LOST 3
$ counterctl -s {play} pool watch db
s> WATCH db
s< OK
s< {EVENTS}
s< EVENT web - - - drop
s< EVENT db - - - drop
> db/db_1 take: free -> taken fence=7 conn=0.1.2 by=me@host:x
> db set
> 3 events were lost, because they were not read in time
> web drop
> db drop
? 0
$ counterctl -s {play} pool watch db --json
s2> WATCH db
s2< OK
s2< {EVENTS}
s2< EVENT db - - - drop
> {"type":"event","pool":"db","member":"db_1","from":"free","to":"taken","why":"take","fence":7,"connection":"0.1.2","by":"me@host:x"}
> {"type":"event","pool":"db",..."why":"set"}
> {"type":"lost","events":3}
> {"type":"event",..."why":"drop"}

== watch of all pools goes on
$ counterctl -s {play} pool watch '*'
s> WATCH *
s< OK
s< EVENT db - - - drop
> db drop
s< EVENT db db_1 free taken take fence=7
> db/db_1 take: free -> taken fence=7
s close
! counterctl: ...the server closed the connection...
? 69

== watch ends when nobody reads
$ counterctl -s {play} pool watch '*' | :; echo ${PIPESTATUS[0]}
s> WATCH *
s< OK
s<* EVENT db - - - set\n
> 141

== output that is closed is said
$ counterctl -s {play} pool list >&-
s> POOL LIST
s< {POOL}
s<
! counterctl: can't write to standard output: Bad file descriptor
? 74
