# A node opens with many names, or far from its engine: answers must come; what clients get meanwhile; reaping.

story An opening goes on as long as answers come
patience 1000000; start; connect; accepts; reports 1000; reported; repeat 8; > give ...
again; repeat 7; later 2000-
< [1*128]
again; later 2000-
< [1*104]
> ready ...
later 2000-
< []
= state live; = loss slow 0; = names 0

story An opening fails when nothing is answered
patience 1000000; start; connect; accepts; reports 300; reported; > give ...
later 2000-
< [1*128]
later 2000-
= wires 2
later 0+
= wires 0; = loss slow 1; = names 0

story A thread that was held up reads before it gives up
patience 1000000; start; connect; accepts; reports 300; reported; > give ...
clock 4000; later 0
= wires 2
mark held
= due before held+1
< [1*128]
= due held+2000
# There is nothing to read.
later 4000; later 0
= wires 0

story A report that takes long shows life, and renews no lease
patience 1000000; start; connect; accepts; later 2000-; > -
repeat 12; later 0+; > give; < []
later 2000-; > -
again
= lease none
report l 1; reported; > give s l 1; < [1]
readies

story A late session leaves the node alone until all is told
live; cut c; later 1000
= alone 1
connect; accepts
= report 0
report l1 2; report l2 5; report s1 1; reported; > give s l1 2 s l2 5 s s1 1
a: me l9
= a alone
< [1*3]
# All is told: now the threads ask again, and the difference is told, too.
> -
= report 2
a: me l9
= a asks
report l1 3; report l2 1; report l3 1; reported; > give s l1 1 b l2 4 b s1 1 s l3 1; < [1 2 1 1]
readies
= alone 1
# What a release did not finish is handed over, and the request goes.
> call t l2 a l9 ml1/1/0 @a

story Patience that ends while a session opens
live; a: waits-me l1 40; cut c; mark lost; later 100; connect; accepts; b: me l2; c: me s2
report l1 1; report l3 2; reports 200; reported; > give s l1 1 w l1 ml1/1 @a 40 s l3 2 ...
d: release l3
< [1*128]
= d asks
at lost+1000
= alone 1; = b alone; = d released; = c waits; = a waits
# That wait is the engine's, which grants it meanwhile.
grants a
= a granted; = report 2
> give ...; < [1*75]
# The second report has the grant, and has the release no more.
= report 3
report l1 2; report l3 1; reports 200; reported; > give b l3 1; < [1]
readies

story Patience that ends amid `ready`
patience 1000000; start; connect; accepts; patience 1000; a: me l; reported; > ready ...
later 1000
= a alone; = wires 0

story A node that leaves has no patience
patience 1000000; start; connect; accepts; patience 1000; leave; report l 1; reported; > give ...
later 1000
< [1]
later 1000
= alone 0
> ready ...; < []
> leave ...

story A session that ends the time alone has no patience; when it fails the node is alone again
live; cut c; later 1000; connect; accepts; reported; a: me l; later 1000
= a asks; = alone 1
cut c
= a alone; = alone 2

story A session that ends the time alone may be silent within patience
live; cut c; later 1000; connect; accepts; reported; reported; > ready ...
a: me l; later 1000-
= a asks
later 0+
= a alone; = alone 2

story As many reaps go together as are quick, and no more than what is left needs
start; connect; accepts; reported; > ready ...; < [00000000000000d1 3 00000000000000d2 4]
> reap ...
> -; < [9000 "0" []]
> reap ...
> reap ...
> -
later 10
< [8000 "0" []]*2
repeat 4; > reap ...
again; > -
later 10
< [7000 "0" []]*4
repeat 8; > reap ...
again; > -
later 10
< [6000 "0" []]*8
repeat 8; > reap ...
again; > -
# These take longer.
later 100
< [3000 "0" []]*8
repeat 4; > reap ...
again; > -; < [501 "0" []]*4
repeat 3; > reap ...
again; > -; < [10 "0" []] [0 "0" []] [0 "0" []]
# The other session begins with one.
> reap 00000000000000d2 4 0; < [0 "0" []]
> -

story Names that a reap broke off are handed over at once
start; connect; accepts; reported; > ready ...; < [00000000000000d1 3 00000000000000d2 4]
> reap ...; < [0 "0" [l1 s1]]
> reap 00000000000000d2 4 0
> give t l1 t s1; < [0 "0" []]
< [2 1]
> give t l1; < [1]
> -
