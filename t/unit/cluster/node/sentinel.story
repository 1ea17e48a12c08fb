# The majority of the Sentinels: what a node does not do without it.

story A majority finds the engine
sentinels; start; opens s0 s1 s2; >s0 SENTINEL * main; <s0 [e0 "6379"]
= asked c 0
<s1 [e1 "6379"]
= asked c 0
<s2 none
= asked c 0
later 2000
= loss slow 1
later 100
# Votes of the last round do not count in this one.
<s1 [e0 "6379"]
= asked c 0
<s2 [e0 "6379"]
= asked c 1

story `open` needs a majority
sentinels; start; opens s0 s1 s2
<s0 [e0 "6379"]
<s2 [e0 "6379"]
<s1 [e1 "6379"]
connect; > -; <s1 [e1 "6379"]
<s0 [e0 "6379"]
> -
later 2000
= wires 0
later 100
# A new wire for the one that did not answer.
opens s2; votes e0; connect
<s1 [e1 "6379"]
<s2 [e1 "6379"]
# A majority names another engine.
= asked c 0

story `ready` renews with a majority that was asked after it was sent
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; mark sent
<s0 [e0 "6379"]
later 100; readies
= lease none
# Granted, but not said: there is no lease.
a: no s; > call ...; < [1]
= a asks
<s2 [e0 "6379"]
= lease sent+9000; = a granted

story Votes of before the beat do not renew it
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; mark live; readies
votes e0
= lease live+9000
later 2000; beats
<s0 [e0 "6379"]
= lease live+9000
# Two did not answer before the next beat: they are asked on new wires.
later 2000; beats
= lease live+9000
mark sent; opens s1 s2
<s1 [e0 "6379"]
= lease live+9000
<s2 [e0 "6379"]
= lease sent+9000

story Votes for the last connection do not count
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; mark live; readies
votes e0; later 2000; > beat ...
cut c; later 100; votes e0
= asked c 0
votes e0; connect; votes e0; accepts; reported; mark sent; readies
= lease live+9000
<s0 [e0 "6379"]
<s1 [e0 "6379"]
= lease sent+9000

story Another engine ends the session; others are reaped, and grace ends, after a renewal that was sent later
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts grace; reported; mark live
readies; votes e0; repeat 4; later 2000; beats grace 00000000000000cc "7"; votes e0; > -
again
# The fifth and the seventh beat are renewed by nobody.
later 2000; beats grace 00000000000000cc "7"; votes none; > -
# This is a lease later, but was not sent after that.
later 2000; beats grace 00000000000000cc "7"
<s0 [e0 "6379"]
<s1 none
<s2 none
> -
later 2000; beats grace 00000000000000cc "7"; votes e0; later 0; > reap 00000000000000cc 7 0
> grace ...
later 2000; > beat ...; <s0 [e1 "6379"]
= wires 2
<s2 [e1 "6379"]
= wires 0; = loss sentinel 1

story Own sessions are reaped without a renewal
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; > ready ...
< [00000000000000d1 3]
> reap 00000000000000d1 3 0

story Without a majority the lease ends
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; mark live; readies
votes e0; repeat 4; later 2000; beats; votes none; again
= lease live+9000
at lease
= closings 1; = asked c 0

story A session that no majority saw ends
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; readies
votes none; repeat 4; later 2000; beats; votes none; again; later 2000
= asked c 0; = loss sentinel 1

story Odd answers are no votes
each =+OK | !"ERR No such master with that name" | [e0 "65536"] | [e0 "0"] | ["" "1"] | [[] "1"] | [e0] | [e0 "6379" "1"] | [1 "6379"] | 1
sentinels; start; opens s0 s1 s2
<s0 $1
<s1 $1
= asked c 0
# What nobody asked for closes the wire, which is opened again for the next round.
<s0 [e0 "6379"]
= asked s0 0
<s2 [e0 "6379"]
later 2000; later 100; opens s0
<s0 [e0 "6379"]
= asked c 0
<s2 [e0 "6379"]
= asked c 1

story Grace ends after a renewal that was sent more than a lease after its beginning
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts grace; reported; readies; votes e0
repeat 5; later 2000; beats grace; votes e0; > -; again
later 2000; beats grace; votes none; > -
later 2000; beats grace; votes e0; later 0; > grace ...

story A majority that agrees before the beat is answered renews with the answer
sentinels; start; opens s0 s1 s2; votes e0; connect; votes e0; accepts; reported; readies; mark live
votes e0; later 2000; mark sent; > beat ...
votes e0
= lease live+9000
< [0 [] [SELF "2"]]
= lease sent+9000

story A paused node has no wires
sentinels; start; opens s0 s1 s2; votes e0; connect
pause
= asked s0 0; = asked s1 0; = asked s2 0; = wires 0
