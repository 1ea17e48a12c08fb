# What clients of two nodes, a and b, see of the limits that these share, and what operators do with such nodes.
# The names of a story are its own: s is strict, l loose, x not shared, all perhaps with a number; both protocols
# have the same. Steps are lines, or follow each other with `; `; `times N: ` does one N times, with $# from 0.
#
#     CLIENT LINE -> ANSWERS    a text client: its node and a number; \n is the end of a line. Without -> nothing
#                               is read; `waits`: the node has one more wait; `silent`: no answer comes; `closed`
#     CLIENT end, CLIENT eof    the connection ends; the client sends no more, and reads up to the end
#     CLIENT until LINE -> ANSWER               asks until it is answered so
#     CLIENT binary WORD 2/5 NAME -> STATUS     at1, at2: clients over TLS
#     NODE shares NAME -> a 1 0, b 0 1          the units and waits of each node
#
# A story that starts nodes has its own, and an engine; the others go on with the same two.
#
#     NODE start OPTION...      and waits until it is live; `begin` does not. `clocks`, `tls`: see `clock`, at1
#     NODE set OPTION...        in its file: of cluster.* without that word
#     NODE reload, upgrade, live, ends, exits, killed, signal NAME      `ends` by SIGTERM, `exits` by itself
#     NODE program PART: DEED   a program in its place that does this in one part of an upgrade
#     NODE clock 7              its clocks are 7 s ahead
#     NODE said PATTERN, unsaid, page, reason   a line of its log; what /api/v1/cluster says; `metric LINE`
#     NODE sh COMMAND           in the folder of the files
#     NODE checks OPTION... -> PATTERN          what `counterd -t` says; `right`: nothing
#     engine pause, resume, end, start, COMMAND -> WORDS
#     engine tls [elsewhere]    another one, over TLS; `elsewhere`: with a certificate of another host

story A lock of one node is waited for on another
each l | s
a1 ACQ4ME $1 1 5 3 -> LOCKED
b1 ACQ4ME $1 1 5 60 -> waits
b1 -> silent
a1 RELEASE $1 -> RELEASED
b1 -> LOCKED
b1 RELEASE -> RELEASED
a1 ACQ4ME $1 1 5 0 -> LOCKED

story Names that are not shared are each node's own
a1 ACQ4ME x 1 5 0 -> LOCKED
b1 ACQ4ME x 1 5 0 -> LOCKED
a1 ACQ4ME x 1 5 0 -> TIMEOUT
a shares x -> not shared

story Waits are served in order over nodes
each l | s
a1 ACQ4ME $1 1 50 0 -> LOCKED
b1 ACQ4ME $1 1 50 60 -> waits
a2 ACQ4ME $1 1 50 60 -> waits
b2 ACQ4ME $1 1 50 60 -> waits
a3 ACQ4ME $1 1 50 60 -> waits
a shares $1 -> a 1 2, b 0 2
a1 RELEASE -> RELEASED
b1 -> LOCKED
a2 -> silent
b1 end
a2 -> LOCKED
b2 -> silent
a2 RELEASE -> RELEASED
b2 -> LOCKED
b2 RELEASE -> RELEASED
a3 -> LOCKED

story Done goes to all nodes
a1 ACQ4ANY l 1 50 0 -> LOCKED
a2 ACQ4ANY l 1 50 60 -> waits
b1 ACQ4ANY l 1 50 60 -> waits
b2 ACQ4ANY l 1 50 60 -> waits
a1 RELEASE l -> RELEASED
a2 -> DONE
b1 -> DONE
b2 -> DONE

story The end of a connection gives back and finishes nobody
a1 ACQ4ANY l 1 50 0 -> LOCKED
b1 ACQ4ANY l 1 50 60 -> waits
a2 ACQ4ANY l 1 50 60 -> waits
a1 end
b1 -> LOCKED
a2 -> silent
b1 end
a2 -> LOCKED

story A full queue counts the clients of all nodes
a1 ACQ4ME l 1 2 0 -> LOCKED
b1 ACQ4ME l 1 2 60 -> waits
a2 ACQ4ME l 1 2 60 -> QUEUE_FULL
a2 ACQ4ME l 1 2 0 -> QUEUE_FULL
a2 ACQ4ME l 1 3 0 -> TIMEOUT

story Waits run out and are gone
each ACQ4ME | ACQ4ANY
a1 ACQ4ME l 1 9 0 -> LOCKED
b1 $1 l 1 9 0.05 -> TIMEOUT
a shares l -> a 1 0
b1 STATS waiting_workers -> waiting_workers: 0
a1 RELEASE -> RELEASED
b1 ACQ4ME l 1 9 0 -> LOCKED

story Release ends a wait
each RELEASE | RELEASE l
a1 ACQ4ME l 1 9 0 -> LOCKED
b1 ACQ4ME l 1 9 60 -> waits
b1 ACQ4ME l 1 9 60 -> ERROR WAIT_FOR_RESPONSE
b1 RELEASE other -> NOT_LOCKED
b1 $1 -> RELEASED
b1 RELEASE -> NOT_LOCKED
a1 RELEASE -> RELEASED
a shares l ->

story Requests in a pipeline are answered in order
a1 ACQ4ME l 1 5 0\nACQ4ME x 1 5 0\nRELEASE l\nRELEASE x\nRELEASE\nACQ4ME l 1 5 3 -> LOCKED LOCKED RELEASED RELEASED NOT_LOCKED LOCKED

story How many locks a client may hold is decided by its node
a1 ACQ4ME l 1 5 0 -> LOCKED
a1 ACQ4ME x 1 5 0 -> LOCKED
a1 ACQ4ME l2 1 5 0 -> LOCK_HELD
a1 RELEASE -> RELEASED
a1 ACQ4ME l2 1 5 0 -> LOCKED
a1 RELEASE l -> RELEASED
a1 QUIT -> BYE
a shares l2 ->

story A client that waits may release what it holds
each l ~ l2 | s ~ s2 | l ~ s | x ~ l
a1 ACQ4ME $1 1 9 0 -> LOCKED
b1 ACQ4ME $2 1 9 0 -> LOCKED
a1 ACQ4ME $2 1 9 600 -> waits
a1 RELEASE $1 -> RELEASED
a1 ACQ4ME $1 1 9 5 -> ERROR WAIT_FOR_RESPONSE
b1 RELEASE -> RELEASED
a1 -> LOCKED
a1 RELEASE -> RELEASED

story A client that sends no more is answered
each l | s | x
a1 ACQ4ME $1 1 9 0\nRELEASE $1\nACQ4ME $1 1 9 5
a1 eof -> LOCKED RELEASED LOCKED
a2 ACQ4ME $1 1 9 5 -> LOCKED

story A wait whose client sends no more ends
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 600 -> waits
a2 eof ->
a shares l -> a 1 0

story Quit gives back locks and ends waits
a1 ACQ4ME l 1 9 0 -> LOCKED
b1 ACQ4ME l 1 9 60 -> waits
b2 ACQ4ANY l 1 9 60 -> waits
b1 QUIT -> BYE
a shares l -> a 1 0, b 0 1
a1 QUIT -> BYE
b2 -> DONE

story Units are counted over nodes
each l | s
b1 binary get $1 -> None
a1 binary acquire 3/5 $1 -> 0
b1 binary acquire 3/5 $1 -> 33
b1 binary acquire 2/5 $1 -> 0
a1 binary get $1 -> 5
a1 binary release 4 $1 -> 34
a1 binary release 2 $1 -> 0
b1 binary get $1 -> 3
a1 end
a shares $1 -> b 2 0

story Both protocols share names
a1 ACQ4ME both 2 9 0 -> LOCKED
b1 binary acquire 1/2 both -> 0
b2 binary acquire 1/2 both -> 33
a2 ACQ4ME both 2 9 60 -> waits
b1 binary release 1 both -> 0
a2 -> LOCKED

story A node that ends leaves nothing in the engine
a start; b start
times 20: a$# ACQ4ME l1 1 9 60\nSTATS UPTIME; times 20: b$# ACQ4ME s1 1 9 60\nSTATS UPTIME
times 20: a2$# ACQ4ME s1 1 9 60\nSTATS UPTIME; times 20: b2$# ACQ4ME l1 1 9 60\nSTATS UPTIME
times 50: a99 binary acquire 2/9 l10$# -> 0
a ends; b ends
a unsaid could not leave|units or waits; b unsaid could not leave|units or waits
engine KEYS * -> {counterd}:meta

# Workers end while what other nodes gave back is granted to them.
story A grant that comes while the node ends goes back
each | | |
a start; b start
times 20: a$# ACQ4ME l$# 1 9 0 -> LOCKED; times 20: b$# ACQ4ME l$# 1 9 60 -> waits
times 20: a$# end
b ends; b unsaid units or waits
a ends
engine KEYS * -> {counterd}:meta

story A drain ends when shared units are given back
a start shutdown.drain=600; b start
a1 ACQ4ME l 1 9 0 -> LOCKED
b1 ACQ4ME l 1 9 60 -> waits
a signal TERM; a said draining: no new acquires
a2 ACQ4ME l2 1 9 5 -> ERROR SHUTTING_DOWN
a1 RELEASE -> RELEASED
b1 -> LOCKED
a exits
b page "nodes": \[{"node": "b"[^{]*\]

story A reload changes which names are shared
a start; b start loose=l*,x*
a1 ACQ4ME x 1 9 0 -> LOCKED
a2 ACQ4ME x 1 9 60 -> waits
b1 ACQ4ME x 1 9 0 -> LOCKED
b1 RELEASE -> RELEASED
a set loose=l*,x*; a reload
b shares x -> a 1 1
b1 ACQ4ME x 1 9 0 -> TIMEOUT
a1 RELEASE -> RELEASED
a2 -> LOCKED
a set loose=l*; a reload
b shares x ->
b1 ACQ4ME x 1 9 0 -> LOCKED
a1 ACQ4ME x 1 9 0 -> TIMEOUT
a2 RELEASE -> RELEASED

story An upgrade keeps locks and waits
a start; b start
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME s 1 9 0 -> LOCKED
a3 binary acquire 3/9 l2 -> 0
a4 ACQ4ME l 1 9 600 -> waits
b1 ACQ4ME l 1 9 600 -> waits
a4 ACQ4ME l2 1 9 0 -> ERROR WAIT_FOR_RESPONSE
a upgrade; a live
a shares l -> a 1 1, b 0 1
a4 -> silent
b1 -> silent
a3 binary get l2 -> 3
b2 ACQ4ME s 1 9 0 -> TIMEOUT
a1 RELEASE l -> RELEASED
a4 -> LOCKED
b1 -> silent
a4 RELEASE -> RELEASED
a4 STATS lock_while_waiting -> lock_while_waiting: 1
b1 -> LOCKED
a2 RELEASE s -> RELEASED
a3 binary release 3 l2 -> 0
a3 binary get l2 -> 0

story After an upgrade that failed the node goes on
a start; b start
a program rehearse: exit 1
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 600 -> waits
a signal USR1; a said goes on as before; a live
b shares l -> a 1 1
a1 RELEASE l -> RELEASED
a2 -> LOCKED

story What needs a restart is not changed by an upgrade
each engine= ~ engine has changed, which needs a restart | engine=unix:/other ~ engine has changed, which needs a restart | prefix=other ~ prefix has changed, which needs a restart | lease=11 ~ lease can't change from 5 . to 11 . in an upgrade: restart | node=other ~ node can't change from a to other in an upgrade: restart
a start
a set $1; a reload; a said restart it
a signal USR1; a said goes on as before; a said cluster.$2
a1 ACQ4ME l 1 9 0 -> LOCKED

# Nothing renews the lease while the second client waits.
story An upgrade waits for another lease, and ends with the daemon
a start lease=40
a1 ACQ4ME s 1 9 0 -> LOCKED
a1 ACQ4ME x 1 9 0 -> LOCKED
engine pause; a signal USR1; a said upgrade: to
a2 ACQ4ME x 1 9 2 -> TIMEOUT
a ends; engine resume
a said it is given up, because this program is to end; a unsaid has taken over

# The new program has 20 s to say that it can take over. A request wakes the thread of the cluster.
story No pause of an upgrade begins with an old lease
a start clocks lease=6
a1 ACQ4ME s 1 9 0 -> LOCKED
engine pause; a signal USR1; a said upgrade: to; a clock 7
a2 ACQ4ME l 1 9 0
a said has taken over; engine resume; a said (?s)the lease is over.*to copy the state

story The way back after the lease closes what is strict first
a start lease=2
a1 ACQ4ME s 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 0 -> LOCKED
a program take: late and damaged; a signal USR1; a begun
a1 RELEASE s
a2 RELEASE l
a said counterd .* goes on again
a1 -> closed
a2 -> RELEASED
a page "leases_lost": 1, "connections_closed": 1
a metric counterd_cluster_closed_total 1; a metric counterd_cluster_leases_lost_total 1

story A new program that reads for longer than the lease does not take over
a start upgrade.timeout=60
a1 ACQ4ME s 1 9 0 -> LOCKED
a program rehearse: late; a signal USR1; a said is not enough to take over
a1 RELEASE s -> RELEASED

story An upgrade gives back what connections over TLS had
a start tls; b start
at1 ACQ4ME l 1 9 0 -> LOCKED
at2 ACQ4ME l2 1 9 0 -> LOCKED
at3 binary acquire 3/9 l3 -> 0
at4 ACQ4ME l 1 9 600 -> waits
at5 ACQ4ANY l2 1 9 600 -> waits
b1 ACQ4ME l 1 9 600 -> waits
a upgrade
at1 -> closed; at2 -> closed; at3 -> closed; at4 -> closed; at5 -> closed
b1 -> LOCKED
b shares l -> b 1 0; b shares l2 -> ; b shares l3 ->

story Without the engine loose names go on alone
a start patience=0
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 600 -> waits
engine end; a said patience is over
a3 ACQ4ME l2 1 9 0 -> LOCKED
a3 ACQ4ME l 1 9 0 -> TIMEOUT
a4 ACQ4ME s 1 9 0 -> ERROR ENGINE_AWAY
a5 binary acquire 1/9 s -> 33
a5 binary acquire 1/9 l2 -> 0
a5 binary get l2 -> 2
a1 RELEASE -> RELEASED
a2 -> LOCKED
engine start; a live
a shares l2 -> a 2 0
a shares l -> a 1 0

story A wait does not get the place of an earlier one
a start patience=0
a1 ACQ4ME l 1 9 0 -> LOCKED
a3 ACQ4ME l 1 9 600 -> waits
a shares l -> a 1 1
engine end; a said patience is over
a1 RELEASE -> RELEASED
a3 -> LOCKED
a3 RELEASE -> RELEASED
a1 ACQ4ME l2 1 9 0 -> LOCKED
a2 ACQ4ME l2 1 9 600 -> waits
a3 ACQ4ME l2 1 9 600 -> waits
engine start; a live
a shares l2 -> a 1 2
a1 RELEASE -> RELEASED
a2 -> LOCKED
a3 -> silent

story A wait keeps its place while its node is alone
engine ACL SETUSER a on >secret ~* &* +@all
a start patience=0 lease=60 user=a password=secret; b start lease=60
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 600 -> waits
b1 ACQ4ME l 1 9 600 -> waits
engine ACL SETUSER a off; engine CLIENT KILL USER a; a said patience is over; engine ACL SETUSER a on
a live; b shares l -> a 1 1, b 0 1
a1 RELEASE -> RELEASED
a2 -> LOCKED
b1 -> silent

story A request that times out before the engine answers
a start patience=20
engine pause
a1 ACQ4ME l 1 9 0.2 -> TIMEOUT
engine resume
a metric counterd_wait_duration_seconds_count{protocol="poolcounter",outcome="timed_out"} 1
a metric counterd_refused_total{protocol="poolcounter"} 0
a upgrade
a metric counterd_wait_duration_seconds_count{protocol="poolcounter",outcome="timed_out"} 1
a metric counterd_refused_total{protocol="poolcounter"} 0

story The end with an engine that hangs
each a asks l; a page "requests": [3-9] |
a start lease=60
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 600 -> waits
engine pause
a2 RELEASE
a1 ACQ4ME l2 1 9 5
$1
a ends; engine resume

story A name that becomes strict without the engine
a start patience=0 counter.threads=1
engine end; a said patience is over
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME l 1 9 600 -> waits
a set strict=l* loose=x; a reload
a3 until ACQ4ME l2 1 9 0 -> ERROR ENGINE_AWAY
a1 RELEASE -> RELEASED
a2 -> silent
engine start
a2 -> LOCKED
a shares l -> a 1 0

story A node that is killed and starts again frees its units at once, long before the lease is over
a start lease=300; b start lease=300
a1 ACQ4ME l 1 9 0 -> LOCKED
b1 ACQ4ME l 1 9 600 -> waits
a killed; a start
b1 -> LOCKED

story A node that stood still closes strict holders before it reads
a start clocks
a5 ACQ4ME l 1 9 0 -> LOCKED
times 4: a1$# ACQ4ME s$# 1 9 0 -> LOCKED; times 4: a2$# binary acquire 1/9 s2$# -> 0
a signal STOP; times 4: a1$# RELEASE s$#; times 4: a2$# binary release 1 s2$#
a5 RELEASE l
a clock 7; a signal CONT
times 4: a1$# -> closed; times 4: a2$# -> closed
a5 -> RELEASED
a page "connections_closed": 8; a metric counterd_cluster_closed_total 8

# It closes strict holders, whose units others get; each part admits loose names by what it holds.
story A node that is cut off
engine ACL SETUSER a on >secret ~* &* +@all
a start user=a password=secret; b start
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 until ACQ4ME s 1 9 5 -> LOCKED
b1 ACQ4ME s 1 9 600 -> waits
engine ACL SETUSER a off; engine CLIENT KILL USER a
a2 -> closed
b1 -> LOCKED
a3 ACQ4ME s 1 9 0 -> ERROR ENGINE_AWAY
b2 until ACQ4ME l 1 9 0 -> LOCKED
engine ACL SETUSER a on
b shares l -> a 1 0, b 1 0
b3 ACQ4ME l 2 9 0 -> TIMEOUT
a1 RELEASE -> RELEASED

story A wrong password is refused and a reload mends it
engine ACL SETUSER counterd on >pass-one ~{counterd}:* &{counterd}:* +@all
a begin user=counterd password=pass-two patience=0
a page "state": "refused".*"refused": "[^"]*password
a1 ACQ4ME l 1 9 0 -> LOCKED
a set password=pass-one; a reload; a live; a unsaid pass-

# Each connect looks again.
story Snapshots that can stop writes are advised against
each '' ~ yes ~ [^"]*\] | '3600 1' ~ no ~ [^"]*\] | '3600 1' ~ yes ~ ["]the engine saves snapshots
engine CONFIG SET save $1 stop-writes-on-bgsave-error $2
a start loose=*; a said names that begin with pool: are units of this node's own pools
a page "advice": \[$3
engine CONFIG SET save ''; engine CLIENT KILL TYPE pubsub
a live; a page "advice": \[\]

story Only strict units limit how long an upgrade may take
a start upgrade.timeout=60
a1 ACQ4ME l 1 9 0 -> LOCKED
a program rehearse: late; a upgrade
a1 RELEASE -> RELEASED

story Holders that become strict when the lease is over do not limit an upgrade
a start clocks patience=0
a1 ACQ4ME l 1 9 0 -> LOCKED
a2 ACQ4ME s 1 9 0 -> LOCKED
engine end; a said patience is over; a clock 7
a2 -> closed
a set strict=l* loose=x; a reload; a upgrade
a1 -> closed

story A private CA, and a certificate that a reload replaces
engine tls; a start patience=0
a1 ACQ4ME l 1 9 0 -> LOCKED
# The engine now wants certificates of the other CA.
engine CONFIG SET tls-ca-cert-file $dir/other.pem; engine CLIENT KILL TYPE pubsub
a reason the server does not know the CA of its client's certificate.*set cluster.cert
a sh cp other-node.pem node.pem; a sh cp other-node.key node.key; a sh chmod 644 node.key; a reload
a said cluster: the certificates were read again
a said cluster.key: \S+ can be read by every user
a live
engine HVALS {counterd}:units -> 1
a1 RELEASE -> RELEASED

story Without a certificate a node is told that it needs one
engine tls; a begin patience=0 cert= key=
a reason TLS: the server wants a certificate of its client: set cluster.cert and cluster.key

story A CA that is not the engine's
engine tls; a sh cp other.pem ca.pem; a begin patience=0
a reason certificate.*set cluster.ca to the CA of the engine's certificate
a sh echo no certificate >ca.pem; a reload
a said cluster.ca: CA certificates \S+: the file has no certificate in PEM format; a said nothing was changed
a sh cp ours.pem ca.pem; a reload; a live

story A bad file leaves the old one in force
engine tls; a start patience=0
a sh rm node.key; a reload
a said cluster.key: key \S+: No such file or directory; a said nothing was changed
engine CLIENT KILL TYPE pubsub; a said (?s)is live.*is live; a live

story An upgrade reads the files
engine tls; a start patience=0
a sh mv node.key away; a signal USR1; a said goes on as before
a said cluster.key: key \S+: No such file or directory; a live
a sh mv away node.key; a upgrade; a live

story A certificate of another host is refused
engine tls elsewhere; a begin patience=0
a reason hostname mismatch.*set cluster.engine to a name that the engine's certificate has

story What is wrong with the files is said before the start
engine tls; a sh touch empty
a checks ca=/missing.pem -> cluster.ca: CA certificates /missing.pem: No such file or directory
a checks ca=. -> cluster.ca: CA certificates \.: Is a directory
a checks ca=empty -> cluster.ca: CA certificates empty: the file has no certificate in PEM
a checks ca=ca.pem -> right
a checks cert=node.key -> cluster.cert: certificate node.key: the file has no certificate
a checks cert=node.pem key=other.key -> cluster.key: key other.key: it does not belong
a checks cert=node.pem key= -> cluster.cert: key node.pem: the file has no private key
a checks cert= key=node.key -> cluster.key: cluster.cert is empty
a checks key= -> right
a checks engine=redis://localhost:1 -> cluster.ca: cluster.engine has no TLS
a checks ca= cert=node.pem key=node.key engine=unix:/x -> cluster.cert: cluster.engine has no TLS
a checks ca=/missing.pem engine= -> right
