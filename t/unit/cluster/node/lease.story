# The lease of a node, its sessions and those of others: what keeps two nodes from holding the same unit.

story `open` does not renew the lease; it counts from when `ready` was sent
live; mark live
= lease live+9000
clock 3000; cut c; later 100; connect; accepts
= lease live+9000
reported; mark sent; clock 500
= lease live+9000
readies
= lease sent+9000

story A beat renews it from when it was sent
live; later 2000; mark sent; clock 100; beats
= lease sent+9000

story Nothing strict is granted in grace
start; connect; accepts grace; reported; readies; a: me s; > call ...; < [5]
b: me l; > call ...; < [1]
= a waits; = b granted

story Everything that comes from outside looks at the lease first
each later 0 | flush | grants w | < [0 [] [SELF 2]] | cut m | a: no s2 | cancel w | anew | patience 5000 | patterns s* l* | leave | pause
live; w: waits-me s1 2; later 2000; > beat ...
clock lease; $1
= closings 1; = lease 0; = leases-lost 1; = wires 0

story A wire that opens looks first
live; clock 8000; mark end; cut c; later 100; clock lease; opens c
= closings 1; = wires 0

story A report, and holders that are closed, look first
each reported | closed
live; clock 8000; cut c; later 100; connect; accepts; clock lease; $1
= closings 1; = wires 0

story Strict holders are closed at the end of the lease, then a session opens that is not of the last one
live; mark last; clock 100; cut c; later 100; connect; > open * * * * 0 %last
at lease
= closings 1
later 200; connect; > -
later 1000; > -
closed; > open * * * * 0 -

story A session that was reaped closes strict holders, once
live; later 100; cut c; later 100; connect; > open ...; < [REAPED]
= closings 1; = lease 0
later 2000; > -
closed; > open * * * * 0 -; < [REAPED]
= wires 0

story A namesake closes strict holders; it is over when its beat stands still for its lease
live; later 100; cut c; later 100; connect; > open ...
< [NODE 00000000000000aa boot/1/9/9 "5" 4000]
= closings 1; = lease 0; = reason 0 cluster.node
later 2000; > -
closed; > open * * * * 0 -; < [NODE 00000000000000aa boot/1/9/9 "5" 4000]
= closings 1
repeat 3; later 2000; > open * * * * 0 -; < [NODE 00000000000000aa boot/1/9/9 "6" 4000]
again; > open * * * * 0 - 00000000000000aa 6

story A namesake that is gone is over at once
start; connect; > open ...
gone
< [NODE 00000000000000aa boot/1/9/9 "5" 4000]
= gone boot/1/9/9; = closings 0
> open * * * * 0 - 00000000000000aa -
# It is not said twice: then `open` waits.
< [NODE 00000000000000aa boot/1/9/9 "5" 4000]
> -
later 2000; > open ...

story What stands in the way is said each minute
start; connect; repeat 32; > open ...; < [LEASE 4000 00000000000000bb "$i"]
= reason 0 cluster.lease
later 2000; again
= log "4000 ms" 2

story Sessions with another lease are ended, and reaped behind this node's own
start; connect; repeat 2; > open * * * * 0 -; < [LEASE 4000 00000000000000bb "8"]
later 2000; again; > open * * * * 0 -; < [LEASE 4000 00000000000000bb "8"]
> open * * * * 0 - 00000000000000bb 8; < [OPEN "aa:bb" 0]
reported; reported; > ready ...; < [00000000000000d1 3]
> reap 00000000000000d1 3 0; < [0 "0" []]
> reap 00000000000000bb 8 0; < [0 "0" []]
> -

story A silent session is reaped after a lease on this connection
live; repeat 4; later 2000; beats 00000000000000cc "7"; > -
again; cut c; later 100; connect; accepts; reported; readies
# The first beat on the new connection counts, not that on the old one.
repeat 5; later 2000; beats 00000000000000cc "7"; > -
again; later 2000; beats 00000000000000cc "7"; > reap 00000000000000cc 7 0
# It goes on as long as anything is left.
< [200 u123 []]
> reap 00000000000000cc 7 0; < [0 "0" []]
> -

story Sessions of before are reaped beside calls
start; connect; accepts; a: no l; reported; > ready ...; < [00000000000000d1 3 00000000000000d2 "4"]
> reap 00000000000000d1 3 0
> call ...
> -; < [1 w0 []]
< [1]
= a granted
> reap 00000000000000d1 3 0; < [0 "0" []]
> reap 00000000000000d2 4 0; < [0 "0" []]
> -

story Grace is ended by who saw it for a lease; then all waits are looked at again
live grace; a: waits-me s 2; repeat 4; later 2000; beats grace; > -
again; later 2000; beats grace; > grace aa:bb; < 1
> give t s

story Hand overs after `ready`
live; a: waits-me s 2; b: waits-any l 3; cut m; later 100; connect; accepts; reported
> give w s ms1/1 @a 2 w l al1/1 @b 3; < [1 1]
readies; > give t s t l; < [1 1]
later 2000; beats; > -

story Hand overs after `ready` in grace: strict ones alone, then loose ones
live; a: waits-me s 2; b: waits-any l 3; cut m; later 100; connect; accepts grace; reported
> give ...; < [1 1]
readies; > give t s; < [1]
later 2000; beats grace; > give t l

story Nodes with other patterns are named, once
start; connect; accepts; reported; readies
look [[00000000000000ab b live "1" x 0 0 -1 9 0] [00000000000000ac c live "1" y 0 0 -1 9 0]]
repeat 6; later 2000; beats; > -
again; look [[00000000000000ac c live "1" z 0 0 -1 9 0]]; repeat 12; later 2000; beats; > -
again
= log "b, c" 1; = log ": c;" 1; = peers 1

story Nodes that come or leave are looked at with the next beat, not a lease later
look [[00000000000000ab b live "1" x 0 0 -1 9 0]]; live; later 2000; beats 00000000000000ab "1"
later 0; > -
= peers 1
look [[00000000000000ab b live "1" x 0 0 -1 9 0] [00000000000000ac c live "1" x 0 0 -1 9 0]]
later 2000; beats 00000000000000ab "2" 00000000000000ac "1"; later 0; > -
= peers 2
look [[00000000000000ac c live "1" x 0 0 -1 9 0]]; later 2000; beats 00000000000000ac "2"; later 0
> -
= peers 1
# But no look without a change.
look []; later 2000; beats 00000000000000ac "3"; later 0; > -
= peers 1

story A beat must be answered
live; later 2000; > beat ...
later 2000-
= wires 2
later 0+
= wires 0; = loss slow 1

story A beat must be heard
live; later 2000; > beat ...; < [0 [] [SELF "2"]]
later 2000-
= wires 2
later 0+
= wires 0; = loss deaf 1

story Each answer of an opening has a limit
each opens c m | info role master | opens c m ~ > INFO ~ < INFO !"NOPERM" !"NOPERM" | connect
start; $1; later 0; $2; later 0; $3; later 2000-
= asked c 1
later 0+
= wires 0; = loss slow 1

story Each script, and the subscription, have it, too
start; opens c m; > INFO; < INFO !"NOPERM" !"NOPERM" a
later 2000-
= wires 2
later 0+
= wires 0

story Attempts come after growing times; a beat ends that, and neither `open` nor `ready`
start; cut c
= due later 50
retry; cut c
= due later 100
retry; repeat 2; cut c; retry; again; cut c
= due later 400
retry; repeat 7; cut c; retry; again; mark now; cut c
= due later 1000
retry; connect; accepts; reported; reported; cut c; mark lost
= due later lost+1000
retry; connect; accepts; reported; reported; readies; cut c; mark lost
= due later lost+1000; = due before lost+1251
retry; connect; accepts; reported; reported; readies; later 2000; beats; cut c; mark lost
= due before lost+100

story It leaves when it has given back all, and tries for a fifth of a lease
live; a: release l; > give ...
leave; b: me l
= b away
later 0+; > -; < [1]
> leave ...; < !"HOLDS the session has units or waits"
# Units that are on their way are given back.
message "G 77 1 l"; > give b l 1
later 200; > -; < [1]
repeat 9; > leave ...; < !"HOLDS"
= left 0
later 200; again; > beat ...
> leave ...; < [0 [] [SELF 2]] !"HOLDS"
= left 1

story A node that could not leave still loses its lease
live; mark live; cut c; leave
= left 0
later 0; cut c
= left 1; = due live+9000
at lease
= closings 1; = due never

story A session that ends leaves at once
live; leave; > leave ...; < 1
= left 1

story It leaves after an answer that makes no sense, and says so
live; leave; > leave ...; < [1]
= left 1; = log "leave: an answer that makes no sense" 1

story Where the engine may have units of a lost session, another one opens first
live; anew; a: end s; leave
= left 0
later 0; connect; accepts; reported; > ready ...; < []
> leave ...; < 1
= left 1

story An upgrade does not forget to close strict holders
live; at lease
= closings 1
# Nobody has said that they are closed.
succeed; start
= closings 2
later 0; connect; > -
closed; > open * * * * 0 - ...

story A successor names its predecessor's sessions until `open` succeeds
live; mark live; cut c; later 100; connect; mark opened; accepts; succeed; start
= lease live+9000
repeat 2; connect; > open * * * * 0 %live %opened -
cut c; later 200; again

story The log has lines of visible characters
start; connect; > open ...; < [NODE 00000000000000aa "boot\x1b[2Jfaked" 1 4000]
= log boot 1

story Grace that begins in a live session is ended a lease after this node saw it
live
repeat 5; later 2000; beats grace; > -; again
later 2000; beats grace; > grace aa:bb
