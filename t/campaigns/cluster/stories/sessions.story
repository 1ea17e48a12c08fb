story The first open begins grace
cannot queue because nothing may be there
FLUSHALL
n1 open lease=7000 seq=41 -> OPEN 1
HGETALL meta -> {grace=1 lease=7000 seq=41 term=$term version=1}
HGETALL node -> {n1=$n1}
HGETALL beat -> {$n1=1}
HGETALL s:$n1 -> {digest=d node=n1 prev={*0} state=opening where=boot/ns/1/n1}

story A second open in the term has the grace of the first
live n1
HSET meta grace 1
n2 open -> OPEN 1
n2 ready -> {}

story Seq grows to the highest that a node has seen
cannot line because it takes places
live n1
n1.2 open seq=1000 -> OPEN 0
n1.2 ready -> {$n1=2}
n1.3 open seq=7 -> OPEN 0
n1.3 ready -> {$n1.2=2 $n1=2}
n1.3 a x ns1/1/0 0 -> 1
n1.3 a x ms1/1/0 1 -> 1001

story Another version is refused
HSET meta version 2
HSET meta term gone
n1 open -> VERSION 2
HSET meta version 1

story A new term begins grace also where open refuses
live n1
HSET meta term gone
HSET s:$n1 reaped 1
n1.2 open last=$n1 -> REAPED
HGET meta grace -> 1
HGET meta term -> $term

story Last that is unknown is reaped but not in grace
n1 open last=0000000000000000 -> REAPED
HGETALL node -> {}
HSET meta grace 1
n1.2 open last=0000000000000000 -> OPEN 1
n1.2 ready -> {}

story Last that another node has begun to reap is reaped also in grace
live n1 n2
n1 call 128 * a x# ns1/1/0 0 -> 128 * 1
n1 call 128 * a y# ns1/1/0 0 -> 128 * 1
n2 reap $n1 2 -> 6
n1.2 open last=$n1 -> REAPED
HSET meta grace 1
n1.3 open last=$n1 -> REAPED
n1.4 open -> OPEN 1
n1.4 ready -> {$n1=2}

story A namesake that lives is named
cannot queue because its session has another lease
n1 open where=boot/ns/1/100 lease=3000 -> OPEN 0
n1 ready -> {}
n1.2 open where=boot/ns/2/200 lease=5000 -> NODE $n1 boot/ns/1/100 2 3000
HGET beat $n1 -> 2
n1 beat -> 0 {} {$n1=3}
n1.3 open where=boot/ns/2/200 over=$n1:2 -> NODE $n1 boot/ns/1/100 3 3000
HGET beat $n1 -> 3
HGETALL node -> {n1=$n1}
n1 a x ns1/1/0 0 -> 1

story A namesake whose beat stands still is ended
with beat 2 -
n1 open where=boot/ns/1/100 -> OPEN 0
n1 ready -> {}
n1 a x ns1/1/0 0 -> 1
n1.2 open where=boot/ns/2/200 over=$n1:$beat -> OPEN 0
n1.2 ready -> {$n1=2}
n1 g x -> !SESSION
n1.2 g x -> [1 0]

story Another lease is refused while sessions of others are not over
cannot queue because its session has another lease
n1 open lease=3000 -> OPEN 0
n1 ready -> {}
n2 open lease=3000 -> OPEN 0
n2 ready -> {}
n3 open lease=3000 -> OPEN 0
n3 ready -> {}
n4 open lease=3000 over=$n3:2 -> OPEN 0
n4 ready -> {}
HGETALL node -> {n1=$n1 n2=$n2 n4=$n4}
n5 open lease=4000 -> LEASE 3000 {$n1=2 $n2=2 $n4=2}
n5.2 open lease=4000 over=$n1:2 over=$n2:1 -> LEASE 3000 {$n2=2 $n4=2}
n1 a x ns1/1/0 0 -> 1
HGET meta lease -> 3000
n5.3 open lease=4000 over=$n1:2 over=$n2:2 over=$n4:2 -> OPEN 0
n5.3 ready -> {}
HGET meta lease -> 4000
n1 beat -> !SESSION
HGETALL node -> {n5=$n5.3}

story A node alone may change the lease
cannot queue because its session has another lease
n1 open lease=3000 -> OPEN 0
n1 ready -> {}
n1.2 open lease=4000 -> OPEN 0
n1.2 ready -> {$n1=2}
HGET meta lease -> 4000

story A session whose beat has changed is not ended
live n2
HGET beat $n2 -> 2
n2 beat -> 0 {} {$n2=3}
n1 open over=$n2:2 -> OPEN 0
n1 ready -> {}
n2 a x ns1/1/0 0 -> 1

story Open ends the session of the same process and keeps what it has
live n1
n1 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 1 -> wait
n1.2 open last=$n1 -> OPEN 0
HGETALL s:$n1 -> {digest=d node=n1 prev={*0} state=ended where=boot/ns/1/n1}
HGETALL s:$n1.2 -> {digest=d last=$n1 node=n1 prev=$n1 state=opening where=boot/ns/1/n1}
HGETALL node -> {n1=$n1.2}
n1.2 give g x -> [1 1]

story Ready makes an opening session live
n1 open -> OPEN 0
n1 g x -> !SESSION
n1 beat -> !SESSION
n1 ready -> {}
HGET beat $n1 -> 2
n1 g x -> [0 0]
n1.2 open last=$n1 -> OPEN 0
HGETALL s:$n1.2 -> {digest=d last=$n1 node=n1 prev=$n1 state=opening where=boot/ns/1/n1}
n1 ready -> !SESSION
none ready -> !SESSION
n1.2 ready -> {$n1=2}
HGETALL s:$n1.2 -> {digest=d node=n1 prev=$n1 state=live where=boot/ns/1/n1}
n1.2 reap $n1 2 -> 0
n1.2 ready -> {}

story Ready lists all ended sessions of the node and only these
live n2 n1
n1.2 open -> OPEN 0
n1.3 open -> OPEN 0
n1.3 ready -> {$n1.2=1 $n1=2}
n1.4 open -> OPEN 0
live n3
n4 open over=$n1.4:- over=$n3:- -> OPEN 0
n4 ready -> {}
n1.5 open -> OPEN 0
n1.5 ready -> {$n1.2=1 $n1.3=2 $n1.4=1 $n1=2}
n3.2 open -> OPEN 0
n3.2 ready -> {$n3=2}
n2 beat -> 0 {} {$n1.2=1 $n1.3=2 $n1.4=1 $n1.5=2 $n1=2 $n2=3 $n3.2=2 $n3=2 $n4=2}

story Beat proves life and shows all beats
live n1 n2 n3
n3.2 open -> OPEN 0
n1 beat -> 0 {} {$n1=3 $n2=2 $n3.2=1 $n3=2}
n1 reads B 3
n2 reads nothing
HSET meta grace 1
n1 beat -> 1 {} {$n1=4 $n2=2 $n3.2=1 $n3=2}

story Give proves the life of an opening session
live n1
n2 open -> OPEN 0
n2 give
HGET beat $n2 -> 2
n2 give
HGET beat $n2 -> 3
n2 give s x 1 -> 1
HGET beat $n2 -> 4
n2 ready -> {}
n2 give g x -> [1 0]
HGET beat $n2 -> 5
n2 give r x 1 -> 1
n1 leave -> 1

story Beat tells a deaf node
live n1
n1 goes deaf
n1 beat -> !DEAF

story Beat tells another term
live n1
HSET meta term gone
n1 beat -> !TERM
n1 reads nothing

story Beat tells an engine that evicts
live n1
CONFIG SET maxmemory-policy allkeys-lru
n1 beat -> !POLICY
CONFIG SET maxmemory-policy allkeys-random
n1 beat -> !POLICY
n1 reads nothing
CONFIG SET maxmemory-policy volatile-ttl
n1 beat -> 0 {} {$n1=3}
n1 reads B 3

story Beat of a session that is not live
live n1
n1.2 open -> OPEN 0
n1.2 ready -> {$n1=2}
n1 beat -> !SESSION
none beat -> !SESSION
n1 reads nothing

story Beat shows at most 100 of more
live n1
SADD more (150 * x#)
n1 finishes -> 100
n1 finishes -> 50
n1 finishes -> 0

story Grace ends only in its term
live n1
HSET meta grace 1
n1 grace other:term -> 0
HGET meta grace -> 1
HSET meta term gone
n1 grace gone -> 0
n1 grace $term -> 0
HSET meta term $term
n1 grace $term -> 1
HGET meta grace -> nil
n1 grace $term -> 1
n1.2 open -> OPEN 0
n1 grace $term -> !SESSION
n1.2 grace $term -> !SESSION

story Leave needs empty hands
live n1
n1 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 1 -> wait
n1 leave -> !HOLDS
n1 c x ms1/1 1 -> 1
n1 leave -> !HOLDS
n1 r x 1 -> 1
n1 a y ns1/1/0 0 -> 1
n1 a z ns1/1/0 0 -> 1
n1 r y 1 -> 1
n1 a z ms1/1/0 2 -> wait
n1 b z 1 -> 1
n1 leave -> !HOLDS
n1 b z 1 -> 1
live n2
n2 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 3 -> wait
n1 leave -> !HOLDS
n1 c x ms1/1 3 -> 1
n2 r x 1 -> 1
n2 leave -> 1
n1 leave -> 1
n1 leave -> !SESSION

story Leave of an ended session spares the new one
live n1
n1.2 open -> OPEN 0
n1.2 ready -> {$n1=2}
n1 leave -> 1
HGETALL node -> {n1=$n1.2}
n1.2 a x ns1/1/0 0 -> 1

story Look shows each session
cannot queue because its session has another lease
n1 open lease=3000 -> OPEN 0
n1 ready -> {}
n1 call a x ns3/9/0 0; a y ns9/9/0 0; a y ms1/9/0 1 -> 1 1 wait
n1.2 open lease=3000 digest=e -> OPEN 0
n2 open lease=3000 -> OPEN 0
n2 ready -> {}
n2 reap $n1 wrong -> 0
n1 look -> {[$n1 n1 ended 2 d 2 1 -1 3000 0] [$n1.2 n1 opening 1 e 0 0 -1 3000 0] [$n2 n2 live 2 d 0 0 -1 3000 0]}
HSET s:$n1 reaped 1
n1 look -> {[$n1 n1 ended 2 d 2 1 -1 3000 1] [$n1.2 n1 opening 1 e 0 0 -1 3000 0] [$n2 n2 live 2 d 0 0 -1 3000 0]}

story Told units move from the ended sessions
live n1
n1 a x ns3/9/0 0 -> 1
n1 a y ns2/9/0 0 -> 1
live n2
n2 a x ns2/9/0 0 -> 1
n1.2 open last=$n1 -> OPEN 0
n1.2 give s x 1 -> 1
n1.3 open last=$n1 -> OPEN 0
n1.3 give s x 4; s y 1; s z 5; g x; h x -> 1 1 1 [6 0] [n1 4 0 n2 2 0]
HGETALL units -> {x=6 y=2 z=5}
HGET u:$n1 x -> nil
HGET u:$n1.2 x -> nil
HGET u:$n1.3 x -> 4
HGET u:$n2 x -> 2
HGET u:$n1 y -> 1
HGET u:$n1.3 y -> 1
n1.3 ready -> {$n1.2=2 $n1=2}
n1.3 reap $n1 2 -> 0
n1.3 reap $n1.2 2 -> 0
HGETALL units -> {x=6 y=1 z=5}

story Told units may be above every limit
n1 open -> OPEN 0
n1 give s x 7 -> 1
n1 ready -> {}
n1 a x ns1/5/0 0 -> 0
n1 g x -> [7 0]

story Told waits move with their places
cannot queue line because they take places
live n1 n2
n1 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 0 -> 2
n1 a x as1/1/0 1 -> 3
n1 a x ms1/1/0 2 -> 4
n1 a x as1/1/0 3 -> 5
n1 a x ms1/1/0 4 -> 6
n1 a x as1/1/0 5 -> 7
n2 a x ms1/1/0 1 -> 8
n1.2 open last=$n1 -> OPEN 0
n1.2 give s x 1; w x ms1/1 4 6 -> 1 1
n1.2 give w x ms1/1 2 4; w x as1/1 3 5; g x -> 1 1 [1 7]
HGETALL w:$n1 -> {as1/1:x=2 ms1/1:x=1}
n1.2 give w x ms1/1 77 13; g x -> 1 [1 8]
n1.2 ready -> {$n1=2}
n1.2 reap $n1 2 -> 0
n1.2 g x -> [1 5]
n1.2 b x 1 -> 1
n1.2 reads G 2 1 x
n2 reads nothing
n1.2 g x -> [1 4]
n1.2 b x 1 -> 1
n1.2 reads G 4 1 x
n2 reads nothing
n1.2 g x -> [1 3]
n1.2 b x 1 -> 1
n1.2 reads nothing
n2 reads G 1 1 x
n1.2 g x -> [1 2]
HGET u:$n1.2 x -> nil
n2 b x 1 -> 1
n1.2 reads G 77 1 x
n2 reads nothing
n1.2 g x -> [1 1]
n1.2 b x 1 -> 1
n1.2 reads G 3 1 x
n2 reads nothing
n1.2 g x -> [1 0]
n1.2 b x 1 -> 1
n1.2 reads nothing
n2 reads nothing
n1.2 g x -> [0 0]

story Told again queue full stays exact
live n1
n1 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 1 -> wait
n1.2 open last=$n1 -> OPEN 0
n1.2 give s x 1; w x ms1/1 1 2 -> 1 1
n1.2 ready -> {$n1=2}
n1.2 g x -> [1 1]
n1.2 a x ms1/1/3 2 -> wait
n1.2 a x ms1/1/3 3 -> -1

story What other nodes have is not taken over
live n2
n2 a x ns2/9/0 0 -> 1
n2.2 open -> OPEN 0
n2.2 ready -> {$n2=2}
n1 open -> OPEN 0
n1 give s x 1 -> 1
n1 ready -> {}
n1 g x -> [3 0]

story A session that another node has ended is taken over
live n1
n1 a x ns1/1/0 0 -> 1
n2 open over=$n1:- -> OPEN 0
n2 ready -> {}
n1.2 open last=$n1 -> OPEN 0
n1.2 give s x 1 -> 1
n1.2 ready -> {$n1=2}
n1.2 g x -> [1 0]

story Reap needs a session that is not ended
live n1 n2
n1 a x ns1/1/0 0 -> 1
live n3
n3.2 open -> OPEN 0
n3 reap $n1 2 -> !SESSION
none reap $n1 2 -> !SESSION
n3.2 reap $n1 2 -> 0
n2 g x -> [0 0]

story Reap compares the beat
live n1 n2
n1 a x ns1/1/0 0 -> 1
HGET beat $n1 -> 2
n1 beat -> 0 {} {$n1=3 $n2=2}
n2 reap $n1 2 -> 0
n2 reap $n1 - -> 0
n2 reap $n1 {*0} -> 0
n2 reap $n1 99 -> 0

story Reap of an unknown session removes its beat
live n1
HSET beat 0000000000000000 5
n1 reap 0000000000000000 4 -> 0
n1 beat -> 0 {} {$n1=3}

story Reap gives back all and hands over
live n1 n2
n1 a x ns1/1/0 0 -> 1
n1 a z ns1/1/0 0 -> 1
n2 a x as1/1/0 1 -> wait
n2 a y ns1/1/0 0 -> 1
n1 a y ms1/1/0 2 -> wait
n1 a z ms1/1/0 3 -> wait
n2 reap $n1 2 -> 0
n2 reads G 1 1 x
n1 beat -> !SESSION
HGETALL units -> {x=1 y=1}
n2 g y -> [1 0]
n1 reads nothing
HGETALL beat -> {$n2=2}
n2 reap $n1 9 -> 0

story Reap hands over also where only waits went
live n1 n2
n2 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 1 -> wait
n2 a x as1/1/0 2 -> wait
HDEL units x
HDEL u:$n2 x
n2 reap $n1 2 -> 0
n2 reads G 2 1 x

story Reap of its own node does not mark
live n1
n1 call 250 * a x# ns1/1/0 0 -> 250 * 1
n1 call 250 * a y# ns1/1/0 0 -> 250 * 1
n1.2 open last=$n1 -> OPEN 0
n1.2 ready -> {$n1=2}
n1.2 reap $n1 2 -> 250
HGET s:$n1 state -> ended
HGET s:$n1 reaped -> nil

story Reap of a session that is opening marks its last
live n1 n2
n1 a x ns1/1/0 0 -> 1
n1.2 open last=$n1 -> OPEN 0
n2 reap $n1.2 1 -> 0
HGETALL s:$n1 -> {digest=d node=n1 prev={*0} reaped=1 state=ended where=boot/ns/1/n1}
n1.3 open last=$n1 -> REAPED

story Reap ends a session that opens on what is reaped
live n1 n2
n1 a x ns1/1/0 0 -> 1
n1.2 open last=$n1 -> OPEN 0
n2 reap $n1 2 -> 0
n1.2 ready -> !SESSION
HGETALL node -> {n2=$n2}

story Reap ends a session that opens on the last of what is reaped
live n1 n2
n1.2 open last=$n1 -> OPEN 0
n1.3 open last=$n1 -> OPEN 0
n2 reap $n1.2 1 -> 0
n1.3 ready -> !SESSION

story Reap spares sessions that do not rest on what is reaped
live n1 n2
n1.2 open last=$n1 -> OPEN 0
n1.2 ready -> {$n1=2}
n2 reap $n1 2 -> 0
n1.2 a x ns1/1/0 0 -> 1
n1.3 open -> OPEN 0
n2 reap $n1.2 2 -> 0
n1.3 ready -> {}
n1.3 g x -> [0 0]

story Reap does not make an unknown last known
live n1 n2
HSET meta grace 1
n1.2 open last=0000000000000000 -> OPEN 1
n2 reap $n1.2 1 -> 0
EXISTS s:0000000000000000 -> 0
HDEL meta grace
n1 leave -> 1

story Reap in grace hands over loose only
live n1 n2
n1 a x0 nl1/1/0 0 -> 1
n2 a x0 ml1/1/0 1 -> wait
n1 a x1 ns1/1/0 0 -> 1
n2 a x1 ms1/1/0 1 -> wait
HSET meta grace 1
n2 reap $n1 2 -> 0
n2 reads G 1 1 x0
HDEL meta grace
n2 t x1 -> 1
n2 reads G 1 1 x1

story Reap goes on where it stopped
live n1 n2
n2 a shared ns5/9/0 0 -> 1
n1 call 120 * a n# ns1/1/0 1 -> 120 * 1
n1 call 120 * a n# ms1/1/0 2 -> 120 * wait
n2 call 120 * a n# ms1/1/0 3 -> 120 * wait
n1 call 120 * a n# ns1/1/0 1 from 120 -> 120 * 1
n1 call 120 * a n# ms1/1/0 2 from 120 -> 120 * wait
n2 call 120 * a n# ms1/1/0 3 from 120 -> 120 * wait
n1 call 240 * a m# ns1/1/0 1 -> 240 * 1
n1 call 240 * a l# ns1/1/0 1 -> 240 * 1
n1 a shared ns3/9/0 0 -> 1
n2 reaps $n1 2 -> done
HGET units shared -> 5
n2 finishes -> _
n2 finishes -> 0
HLEN u:$n2 -> 241

story Reaps that are sent together go on one behind the other
live n1 n2
n1 call 250 * a n# ns1/1/0 0 -> 250 * 1
n1 call 250 * a m# ns1/1/0 0 -> 250 * 1
n1 call 250 * a l# ns1/1/0 0 -> 250 * 1
n2 reap $n1 2 0 -> _
n2 reap $n1 2 0 -> _
n2 reap $n1 2 0 -> _
n2 reaps $n1 2 -> done
n2 reap $n1 2 0 -> 0
n2 leave -> 1
