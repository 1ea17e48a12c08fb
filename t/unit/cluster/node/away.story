# An engine that does not do what a node needs: how long clients wait for it, and what people are told.

story A call without an answer ends patience
live; a: no l; > call ...
later 500; b: no s; c: me s; mark asked; later 500-
= wires 2; = a asks; = due asked+500
# The owner reads between two ticks.
later 0+
= wires 2
later 0
= wires 0; = alone 1; = a alone; = b away; = c waits; = loss slow 1

story A call has a fifth of a second without patience
live; patience 0; a: no l; > call ...
later 200-
= wires 2
later 0+; later 0
= wires 0; = a alone

story Each call has its own patience
live; a: no l; > call ...
b: no l; later 900
< [1]
> call ...
later 900
< [0]
= a granted; = b busy; = wires 2; = alone 0

story An answer that came while the node stood still
live; a: no l; > call ...
later 1500
< [1]
later 0
= a granted; = wires 2; = alone 0

story A call that goes again has the patience of the first
live; a: release l; > give ...
later 600
< !"OOM full"
> give ...
later 400; later 0
= wires 0; = a released

story With a long patience beats find out first, and what a client has waited by then counts
live; patience 5000; mark sent; a: no l; > call ...
at sent+2000; at sent+4000-
= wires 2
at sent+4000
= wires 0; = a asks
at sent+5000-
= alone 0
at sent+5000
= alone 1; = a alone

story An engine that opens sessions and answers no call: patience is over with each, at once
start; repeat 4; retry; connect; accepts; reported; reported; readies; a: no l; > call ...
later 1000; later 0
= wires 0; = a alone; = alone $i
again; mark now
= due later now+400

story A node that leaves has no clients that wait
live; a: release l; > give ...
leave; later 1500
= wires 2
< [1]
> leave ...; < 1
= left 1; = log "this node ends while" 0

story A wrong key stops no other name
live; z: no s; > call ...
a: no sx; b: me sx; c: no lx; d: any lx; e: get lx; f: no s2
< [1]
> call ...; < [!"WRONGTYPE {p}:k:x"*5 1]
= a away; = b away; = c alone; = d alone; = e alone; = f granted; = wrong-names 2
# From now on the engine is not asked.
a: me sx; b: me lx; > -
= a away; = b alone
a: no s2; > call ...; < [0]
= a busy; = alone 0

story A wrong key is tried with each beat, and said each minute
live; a: no lx; > call ...; < [!"WRONGTYPE {p}:k:x"]
repeat 29; later 2000; beats; > give t lx; < [!"WRONGTYPE {p}:k:x"]
again
= log "{p}:k:x is not what" 1
later 2000; beats; > give t lx; < [!"WRONGTYPE {p}:k:x"]
= log "{p}:k:x is not what" 2
later 2000; beats; > give t lx; < [1]
= wires 0
retry; connect; accepts; report lx 1; reported; > give s lx 1; < [1]
readies
= wrong-names 0; = names 0
a: no lx; > call ...; < [1]
= a granted

story Releases of a name with a wrong key: units go back all the same
live; a: waits-any sx 5; b: waits-me sx 6; c: release sx; > give ...; < [!"WRONGTYPE {p}:k:x"]
= c released; = a done; = b waits
d: release lx; > give ...; < [!"WRONGTYPE {p}:k:x"]
# What this node alone has admitted the engine does not have.
e: release lx; > give ...; < [-2]
= d released; = e released; = wires 2
c: release sx; > give ...; < [-2]
= wires 0

story Waits for a name with a wrong key keep their place if they are strict
live; a: waits-me sx 5; b: waits-me sx 6; c: waits-me lx 7; d: no sx; > call ...
< [!"WRONGTYPE {p}:k:x"]
d: no lx; > call ...; < [!"WRONGTYPE {p}:k:x"]
= a waits; = c alone
cancel b
= b cancelled
> -
# Units that come all the same go back.
grants a; > give b sx 1; < [!"WRONGTYPE {p}:k:x"]
# Another session does not tell them while the key is wrong.
cut c; retry; connect; accepts; reported; readies; later 2000; beats; > give ...
< [1 !"WRONGTYPE {p}:k:x"]
retry; connect; accepts; reported; > give w sx ms1/1 @a 5; < [1]
readies; grants a
= a granted

story A wrong key while a session opens: the next one leaves it out
live; a: waits-me sx 5; b: waits-me lx 6; cut c; retry; connect; accepts; reported; > give w ...
< [!"WRONGTYPE {p}:k:x" 1]
retry; connect; accepts; reported; > give w lx ...; < [!"WRONGTYPE {p}:k:x"]
= a waits; = b alone
retry; connect; accepts; reported; readies

story Wrong keys while a session opens cost one session
live; a: waits-me sx 5; b: waits-me sy 6; c: waits-me lx 7; cut c; retry; connect; accepts; reported
> give ...; < [!"WRONGTYPE {p}:k:x" 1 !"WRONGTYPE {p}:k:x"]
= a waits; = b waits; = c alone
retry; connect; accepts; reported; > give w sy ...; < [1]
readies

story A wrong key of other nodes is tried while beats list it
live; later 2000; > beat ...; < [0 [lx] [SELF 3]]
message "B 3"; > give t lx; < [!"WRONGTYPE {p}:k:x"]
later 2000; > beat ...; < [0 [lx] [SELF 4]]
message "B 4"; > give t lx; < [1]
= wires 2; = wrong-names 0; = names 0

story Other patterns forget wrong keys
live; a: no lx; > call ...; < [!"WRONGTYPE {p}:k:x"]
patterns s* m*
= wrong-names 0; = names 0

story Each error is the reason
each NOAUTH Authentication required. ~ set cluster.password | NOPERM no permissions ~ counterctl cluster acl | ERR max number of clients reached ~ maxclients | ERR unknown command 'INFO', with args beginning with: ~ do not rename | DENIED Redis is running in protected mode ~ protected-mode | NOREPLICAS Not enough good replicas to write. ~ min-replicas-to-write | MISCONF Redis is configured to save ~ stop-writes-on-bgsave-error | READONLY You can't write against a read only replica. ~ primary | LOADING Redis is loading the dataset in memory ~ still loads | BUSY Redis is busy running a script. ~ SCRIPT KILL
start
= reasons 0
opens c m; > INFO; < !"$1"
= reason 0 "$2"; = log "$2" 1

story An error that this node does not know is told as it is, and refuses no engine
start; opens c m; > INFO; < !"ERR something else"
= state away; = reason 0 "ERR something else"; = log "does not join" 0

story An engine that is wrong is refused, again each minute
each redis_version ~ 6.2.6 ~ 7.0 is the least | role ~ slave ~ is a replica | cluster_enabled ~ 1 ~ cluster-enabled no | maxmemory_policy ~ allkeys-lru ~ maxmemory-policy noeviction | loading ~ 1 ~ still loads
info $1 $2; start; opens c m; > INFO; < INFO
= state refused; = reason 0 "$3"; = log "does not join" 1
later 50000; opens c m; > INFO; < INFO
= log "does not join" 1
later 15000; opens c m; > INFO; < INFO
= log "does not join" 2

story A node leaves an engine that begins to evict; strict holders stay for the rest of the lease
live; info maxmemory_policy allkeys-lfu; later 2000; > beat ...; < !"POLICY allkeys-lfu"
= state refused; = log "maxmemory-policy allkeys" 1; = closings 0
at lease
= closings 1
closed; info maxmemory_policy volatile-lru; retry; connect; accepts; reported; reported; readies

story A data version, and a command that the user may not use, are named
each VERSION "2" ~ version | ACL zscore ~ zscore
start; connect; > open ...; < [$1]
= state refused; = reason 0 "$2"

story A reason is said when it comes, and each minute
start; cut c "e:1: Connection refused"; mark first
= state away
repeat 40; retry; cut c "e:1: Connection refused"; again
= log "Connection refused" 1; = times 0 41; = since 0 first
later 60000; cut c "e:1: Connection refused"
= log "Connection refused" 2; = log "times in " 1
# Another one is said at once, and counts from then; the first is not forgotten.
retry; opens c m; > INFO; < !"NOREPLICAS few"
mark second
= state refused; = log NOREPLICAS 1; = since 0 second; = times 0 1
retry; cut c "e:1: Connection refused"
= state away; = reason 1 NOREPLICAS; = reasons 2; = times 0 43; = since 0 first

story Reasons that alternate are said once a minute each
start; repeat 10; retry; cut c "reason one"; retry; cut c "reason two"; retry; cut c "reason three"
retry; cut c "reason four"; again
= log "reason " 4

story Reasons end with an answered beat
start; cut c "no route"; retry; connect; accepts
= reason 0 "no route"; = state opening
reported; readies
= reasons 0
cut c; retry; cut c "no route"
= times 0 2
retry; connect; accepts; reported; readies; later 2000; beats; cut c; retry; cut c "no route"
= times 0 1

story Why Sentinels name nobody
sentinels; start; opens s0 s1; >s0 SENTINEL ...; <s0 [e "1"]
>s1 SENTINEL ...; <s1 none
cut s2 "c:3: Connection refused"; later 2000
= reason 0 "no majority of the Sentinels names one engine; b:2: it does not know the service of cluster.engine"

story The password is never quoted
each !"ERR unknown command 'AUTH', with args beginning with: 'bob' 'TOPSECRET'" | !"WRONGPASS TOPSECRET" | !"ERR AUTH <TOPSECRET>" | !"TOPSECRET" | [AUTH bob TOPSECRET] | TOPSECRET | =TOPSECRET | [] | nil
access bob TOPSECRET; start; opens c m; > AUTH bob TOPSECRET; < $1
= wires 0; = reason 0 ""; = log TOPSECRET 0

story Nor on the wire of messages
each !"WRONGPASS TOPSECRET" | [AUTH bob TOPSECRET] | TOPSECRET | nil
access bob TOPSECRET; start; opens c m; > AUTH bob TOPSECRET; < =+OK INFO !"NOPERM" !"NOPERM" x*9
>m AUTH bob TOPSECRET; <m $1
= wires 0; = reason 0 ""; = log TOPSECRET 0

story An engine without room for a client with a password
access "" TOPSECRET; start; opens c m
< !"ERR max number of clients reached"
= reason 0 maxclients
