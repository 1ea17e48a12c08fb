story Units up to the limit
live n1 n2
n1 a x ns2/5/0 0 -> 1
n2 a x ns2/5/0 0 -> 1
n2 a x ns2/5/0 0 -> 0
n2 a x ns1/5/0 0 -> 1
n1 a x ns1/5/0 0 -> 0
n1 g x -> [5 0]
HGET u:$n1 x -> 2
HGET u:$n2 x -> 3
n1 r x 3 -> -2
n1 g x -> [5 0]
n1 b x 1 -> 1
n1 r x 1 -> 1
n1 r x 1 -> -2
n2 r x 3 -> 1
n1 g x -> [0 0]
HGET units x -> nil

story Maxqueue counts units and waits
live n1 n2
n1 a x ns1/5/1 0 -> 1
n1 a x ns1/5/1 0 -> -1
n1 a x ns1/5/2 0 -> 1
n1 a x ms1/2/3 1 -> wait
n2 a x ms1/2/3 1 -> -1
n2 a x al1/2/4 1 -> wait
n2 a x ms1/2/4 2 -> -1
n2 a x ns1/2/4 0 -> -1
n2 a x ms1/2/0 2 -> wait
n1 g x -> [2 3]

story Waits have growing places
live n1
n1 a x ms1/1/0 0 -> 1
n1 a x as1/1/0 1 -> wait
n1 a x ms1/1/0 2 -> wait
n1 a x as1/1/0 3 -> wait
n1 a x ms1/1/0 4 -> wait
n1 a x as1/1/0 5 -> wait
n1 a x ms1/1/0 6 -> wait
HGETALL w:$n1 -> {as1/1:x=3 ms1/1:x=3}

story Cancel
live n1
n1 a x ns1/1/0 0 -> 1
n1 a x ms1/1/0 1 -> wait
n1 a x ms1/1/0 2 -> wait
n1 c x ms1/1 9 -> 0
n1 c x as1/1 1 -> 0
n1 c x ms1/1 1 -> 1
n1 c x ms1/1 1 -> 0
n1 g x -> [1 1]
n1 c x ms1/1 2 -> 1
n1 g x -> [1 0]
EXISTS k:x -> 0

story A release hands over to the oldest
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 7 -> wait
n1 a x ms1/1/0 8 -> wait
n2 a x ms1/1/0 9 -> wait
n1 r x 1 -> 1
n1 reads nothing
n2 reads G 7 1 x
n2 b x 1 -> 1
n1 reads G 8 1 x
n2 reads nothing
HGET u:$n1 x -> 1
HGET u:$n2 x -> nil
n1 r x 1 -> 1
n2 reads G 9 1 x
n1 g x -> [1 0]

story A released unit goes to acq4me before acq4any unless it was explicit
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x as1/1/0 1 -> wait
n2 a x ms1/1/0 2 -> wait
n1 b x 1 -> 1
n2 reads G 2 1 x
n2 b x 1 -> 1
n2 reads G 1 1 x

story An explicit release tells every acq4any wait done
live n0 n1 n2
n0 a x ns1/1/0 0 -> 1
n0 a x as1/1/0 0 -> wait
n1 a x as1/1/0 1 -> wait
n0 a x as1/1/0 2 -> wait
n1 a x as1/1/0 3 -> wait
n0 a x as1/1/0 4 -> wait
n1 a x as1/1/0 5 -> wait
n1 a x al1/1/0 6 -> wait
n1 a x ms1/1/0 7 -> wait
n2 a y ns1/1/0 0 -> 1
n2 a y as1/1/0 8 -> wait
n0 r x 1 -> 1
n0 reads D x
n1 reads D x | G 7 1 x
n2 reads nothing
n1 g x -> [1 0]
n2 g y -> [1 1]

story What does not fit is passed over
live n1 n2
n1 a x ns4/4/0 0 -> 1
n2 a x ms3/4/0 1 -> wait
n2 a x ms1/2/0 2 -> wait
n2 a x ms1/4/0 3 -> wait
n2 a x as1/4/0 4 -> wait
n1 b x 1 -> 1
n2 reads G 3 1 x
n1 b x 2 -> 1
n2 reads G 4 1 x
n1 b x 1 -> 1
n2 reads nothing
n2 g x -> [2 2]
n2 b x 1 -> 1
n2 reads G 1 3 x

story An acquisition hands over first
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
HDEL units x
HDEL u:$n1 x
n1 a x ns1/1/0 0 -> 0
n2 reads G 1 1 x
n1 a x ns1/2/0 0 -> 1

story T hands over
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
n1 t x -> 1
n2 reads nothing
HDEL units x
HDEL u:$n1 x
SADD more x y
n1 t x -> 1
n2 reads G 1 1 x
SISMEMBER more x -> 0
n1 t y -> 1
EXISTS more -> 0

story Get by node
live n1 n2
n1 h x -> []
n1 a x ns3/5/0 0 -> 1
n2 a x ns2/5/0 0 -> 1
n2 a x ms1/5/0 1 -> wait
n2 a x as1/5/0 2 -> wait
n1.2 open -> OPEN 0
n1.2 give s x 2 -> 1
n1.2 ready -> {$n1=2}
n1.2 h x -> [n1 3 0 n2 2 2]
n1.2 g x -> [5 2]

story Ops of a call follow each other
live n1 n2
n1 call a x ms1/1/0 1; a x ms1/1/0 2; a x as1/1/3 3; a x as1/1/3 4; g x; c x ms1/1 2; g x; r x 1; g x; r x 1; a x ns1/1/1 5; b x 1; g x; h x -> 1 wait wait -1 [1 2] 1 [1 1] 1 [0 0] -2 1 1 [0 0] []
n1 reads D x
n2 call a x ms1/1/0 1; a x ms1/1/0 2; r x 1; g x; h x; b x 1 -> 1 wait 1 [1 0] [n2 1 0] 1
n2 reads G 2 1 x

story Many names in a call
with count 1 2 3 9 40 128 250
live n1
n1 call $count * a n# ns1/2/0 1 -> $count * 1
n1 call $count * a n# nl1/2/0 1 -> $count * 1
n1 call $count * g n# -> $count * [2 0]
n1 call $count * r n# 2 -> $count * 1
HGETALL units -> {}

story Names of any bytes
with name a:b : {} \x00 \x0d\x0a %s%d \x7f\x80\xff\x5c {n*65535} \x7bx\x7d -1 1e3
live n1
n1 a $name ms1/1/0 1 -> 1
n1 a $name ms1/1/0 2 -> wait
n1 r $name 1 -> 1
n1 reads G 2 1 $name
n1 a $name as1/1/0 3 -> wait
n1 r $name 1 -> 1
n1 reads D $name

story Great numbers stay exact
n1 open seq=4503599627370496 -> OPEN 0
n1 ready -> {}
n1 a x ns4294967294/4294967295/0 1 -> 1
n1 a x ms4294967295/4294967295/4294967295 18446744073709551615 -> wait
n1 g x -> [4294967294 1]
n1 c x ms4294967295/4294967295 18446744073709551615 -> 1
n1 a x ms4294967295/4294967295/4294967295 18446744073709551615 -> wait
n1 b x 4294967294 -> 1
n1 reads G 18446744073709551615 4294967295 x
n1 b x 4294967295 -> 1

story The 257th pair of a name is refused
live n1 n2
n1 a x ns1/1/0 0 -> 1
n1 call 128 * a x ms#/#/0 # from 1 -> 128 * wait
n1 call 128 * a x as#/#/0 # from 129 -> 128 * wait
ZCARD k:x -> 256
n2 a x ms1/1/0 900 -> -1
n1 a x as1/1/0 901 -> -1
n1 a x ms1/1/0 902 -> wait
n1 a x ns1/1/0 903 -> 0
n1 c x as256/256 256 -> 1
n2 a x ms1/1/0 904 -> wait
n1 g x -> [1 257]

story In grace nothing strict is granted
live n1
HSET meta grace 1
n1 a x ns1/1/0 0 -> 0
n1 a x ms1/1/0 1 -> wait
n1 a x as1/1/0 2 -> wait
n1 reads nothing
n1 g x -> [0 2]
n1 a y nl1/1/0 3 -> 1
n1 a x nl1/1/0 4 -> 1
n1 a x ml1/1/0 5 -> wait
n1 b x 1 -> 1
n1 reads G 5 1 x
n1 b x 1 -> 1
n1 reads nothing
n1 t x -> 1
n1 reads nothing
HDEL meta grace
n1 t x -> 1
n1 reads G 1 1 x

story Done comes also in grace
live n1
n1 a x ns1/1/0 0 -> 1
n1 a x as1/1/0 1 -> wait
HSET meta grace 1
n1 r x 1 -> 1
n1 reads D x

story A session that is opening is granted
live n1
n2 open -> OPEN 0
n2 give w x ms1/1 5 1 -> 1
n1 t x -> 1
n2 reads G 5 1 x
HGET u:$n2 x -> 1

story An ended session is dropped with its whole queue
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 0 -> wait
n2 a x ms1/1/0 1 -> wait
n2 a x ms1/1/0 2 -> wait
n2 a x ms1/1/0 3 -> wait
n2 a x ms1/1/0 4 -> wait
n2 a x as1/1/0 5 -> wait
n2 a x ms2/2/0 6 -> wait
n1 a x ms1/1/0 7 -> wait
n2.2 open -> OPEN 0
n2.2 ready -> {$n2=2}
n1 g x -> [1 8]
n1 b x 1 -> 1
n1 reads G 7 1 x
n2 reads nothing
HGETALL w:$n2 -> {as1/1:x=1}
n1 g x -> [1 1]

story A grant that reached nobody is undone
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
n2 a x ms1/1/0 2 -> wait
n1 a x ms1/1/0 3 -> wait
n2 goes deaf
n1 b x 1 -> 1
n1 reads G 3 1 x
HGET u:$n2 x -> nil
n1 g x -> [1 0]
HGET u:$n1 x -> 1

story A queue of another type
live n1 n2
n1 a x ns2/5/0 0 -> 1
n2 a x ns1/5/0 0 -> 1
SET k:x foreign
n1 a x nl1/9/0 7 -> !WRONGTYPE k:x
n1 a x ms1/1/5 7 -> !WRONGTYPE k:x
n1 c x ms1/1 7 -> !WRONGTYPE k:x
n1 g x -> !WRONGTYPE k:x
n1 h x -> !WRONGTYPE k:x
n1 t x -> !WRONGTYPE k:x
SMEMBERS more -> {x}
DEL more
n1 call a y ns1/1/0 0; a x nl1/9/0 7; a x ms1/1/5 7; c x ms1/1 7; g x; h x; t x; a y ns1/1/0 0; r x 1 -> 1 !WRONGTYPE k:x !WRONGTYPE k:x !WRONGTYPE k:x !WRONGTYPE k:x !WRONGTYPE k:x !WRONGTYPE k:x 0 !WRONGTYPE k:x
HGET u:$n1 x -> 1
n1 r x 2 -> -2
n1 b x 1 -> !WRONGTYPE k:x
HGET u:$n1 x -> nil
HGET u:$n2 x -> 1
n1 beat -> 0 {x} {$n1=3 $n2=2}
DEL k:x
n1 t x -> 1
n1 beat -> 0 {} {$n1=4 $n2=2}
n1 g x -> [1 0]

story A queue of another type where nobody waits
cannot queue because somebody waits then
live n1
SET k:n9 foreign
n1 call 20 * a n# ns1/1/0 0 -> 20 * 1
n1 call 20 * a n# ms1/1/0 # -> 9 * wait !WRONGTYPE k:n9 10 * wait
n1 c n0 ms1/1 0 -> 1
n1 c n19 ms1/1 19 -> 1
n1 call 8 * c n# ms1/1 # from 1; 9 * c n# ms1/1 # from 10 -> 17 * 1
n1 give 20 * t n# -> 9 * 1 !WRONGTYPE k:n9 10 * 1
DEL k:n9
n1 give 20 * t n# -> 20 * 1

story A queue with foreign members
cannot among line because a call of several ops sees that nobody waits
live n1
n1 a x ns1/1/0 0 -> 1
ZADD k:x 1 foreign
n1 a x ns1/1/0 0 -> !WRONGTYPE k:x
n1 r x 1 -> !WRONGTYPE k:x
DEL k:x
n1 t x -> 1
n1 g x -> [0 0]

story Waits of another type
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
SET q:$n2:ms1/1:x foreign
n1 a x as1/1/0 2 -> !WRONGTYPE q:$n2:ms1/1:x
n1 r x 1 -> !WRONGTYPE q:$n2:ms1/1:x
HGET u:$n1 x -> nil
n2 reads nothing
n1 reap $n2 2 -> 0 {x}
n1 beat -> 0 {x} {$n1=3}
n1 t x -> 1
n1 a x ns1/1/0 0 -> 1
SET q:$n1:ms1/1:x foreign
n1 a x ms1/1/0 3 -> !WRONGTYPE q:$n1:ms1/1:x
DEL q:$n1:ms1/1:x
n1 a x ms1/1/0 3 -> wait

story Waits that another program has deleted
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
n1 a x ms1/1/0 2 -> wait
DEL q:$n2:ms1/1:x
n1 r x 1 -> 1
n1 reads G 2 1 x
n1 g x -> [1 0]
n2 give

story An opening session tells units beside a wrong queue
live n1
n1 a x ns1/1/0 0 -> 1
SET k:x foreign
n1.2 open last=$n1 -> OPEN 0
n1.2 give s x 1; w x ms1/1 7 5 -> 1 !WRONGTYPE k:x
HGET u:$n1 x -> nil
HGET u:$n1.2 x -> 1
DEL k:x
n1.2 give w x ms1/1 7 5 -> 1
n1.2 ready -> {$n1=2}

story A session with waits in a wrong queue is reaped
live n1 n2
n2 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
SET k:x foreign
n1 reap $n2 2 -> 0 {x}
n1 beat -> 0 {x} {$n1=3}
HGETALL units -> {}
DEL k:x
n1 t x -> 1

story A hand over grants 250 and says that there are more
live n1 n2
n1 a x ns1000/1000/0 0 -> 1
n2 call 120 * a x ms1/1000/0 # -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 120 -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 240 -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 360 -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 480 -> 120 * wait
n1 b x 1000 -> 2
n2 reads 250 * G # 1 x
n1 beat -> 0 {x} {$n1=3 $n2=2}
n1 t x -> 2
n2 reads 250 * G # 1 x from 250
n1 beat -> 0 {x} {$n1=4 $n2=2}
n1 t x -> 1
n2 reads 100 * G # 1 x from 500
n1 beat -> 0 {} {$n1=5 $n2=2}

story Nothing fits behind a hand over that is not finished
live n1 n2
n1 a x ns1000/1000/0 0 -> 1
n2 call 120 * a x ms1/1000/0 # -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 120 -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 240 -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 360 -> 120 * wait
n2 call 120 * a x ms1/1000/0 # from 480 -> 120 * wait
HDEL units x
HDEL u:$n1 x
n1 a x ns1/5000/0 900 -> 0
n2 reads 250 * G # 1 x
n1 beat -> 0 {x} {$n1=3 $n2=2}
n1 a x ms1/5000/601 901 -> wait
n2 reads 250 * G # 1 x from 250
n1 a x ns1/5000/601 902 -> -1
n2 reads 100 * G # 1 x from 500
n1 reads B 3 | G 901 1 x

story The bound is one of all ops of a call
live n1 n2
n1 a x0 ns100/100/0 0 -> 1
n2 call 100 * a x0 ms1/100/0 # -> 100 * wait
n1 a x1 ns100/100/0 0 -> 1
n2 call 100 * a x1 ms1/100/0 # -> 100 * wait
n1 a x2 ns100/100/0 0 -> 1
n2 call 100 * a x2 ms1/100/0 # -> 100 * wait
n1 call b x0 100; b x1 100; b x2 100 -> 1 1 2
n2 reads 100 * G # 1 x0 | 100 * G # 1 x1 | 50 * G # 1 x2
n1 beat -> 0 {x2} {$n1=3 $n2=2}
n1 t x2 -> 1
n2 reads 50 * G # 1 x2 from 50

story Done reaches the queues of 256 pairs at once
live n1
n1 a x ns1/1/0 0 -> 1
n1 call 128 * a x as#/#/0 # from 1 -> 128 * wait
n1 call 128 * a x as#/#/0 # from 129 -> 128 * wait
n1 r x 1 -> 1
n1 reads D x
n1 g x -> [0 0]

story Many names are looked at when somebody waits for one
live n1 n2
n1 call 60 * a x# ns1/1/0 1 -> 60 * 1
n2 a x30 ms1/1/0 7 -> wait
n2 reads nothing
n1 call 60 * r x# 1 -> 60 * 1
n2 reads G 7 1 x30
n2 r x30 1 -> 1
n1 call 60 * a x# ns1/1/0 1 -> 60 * 1
n2 a x31 as1/1/0 8 -> wait
HSET s:$n2 state ended
HDEL node n2
n1 call r x0 1; 59 * b x# 1 from 1 -> 60 * 1
n2 reads nothing
EXISTS k:x31 -> 0

story Call and give need their session
live n1
n1 a x ns1/1/0 0 -> 1
n1.2 open -> OPEN 0
n1 r x 1 -> !SESSION
n1 call g x; r x 1 -> !SESSION
n1 give r x 1 -> !SESSION
n1 give g x; r x 1 -> !SESSION
none r x 1 -> !SESSION
none call g x; r x 1 -> !SESSION
none give r x 1 -> !SESSION
none give g x; r x 1 -> !SESSION
n1.2 a y nl1/1/0 1 -> !SESSION
n1.2 g x -> !SESSION
n1.2 give g x -> [1 0]
n1.2 ready -> {$n1=2}
n1.2 give g x; s x 1 -> !SESSION
n1.2 give w x ms1/1 1 1 -> !SESSION

story Wrong ops change nothing
with op z{}x g a{}x{}ms1/1/0 a{}x{}msone/1/0{}1 a{}x{}ms1/{}1 a{}x{}ms1/1/-1{}1 a{}x{}ms1/1{}1 a{}x{}zs1/1/0{}1 a{}x{}mz1/1/0{}1 r{}x{}y b{}x{}y r{}x c{}x{}ms1/1
live n1
n1 a x ns1/1/0 0 -> 1
n1 call $op -> !ERR
n1 call r x 1; $op -> !ERR
n1 call a y ns1/1/0 1; $op -> !ERR
n1 call a x ms1/1/0{} 1 -> !ERR
n1 give a y ns1/1/0 1 -> !ERR

story A full engine refuses calls as a whole and nothing else
live n1 n2
n1 a x ns1/1/0 0 -> 1
n2 a x ms1/1/0 1 -> wait
n2 a y ns1/1/0 0 -> 1
CONFIG SET maxmemory 1mb
n1 a z ns1/1/0 1 -> !OOM
n1 r x 1 -> !OOM
n1 call b x 1; a z ns1/1/0 1 -> !OOM
n1 beat -> 0 {} {$n1=3 $n2=2}
n1 give r x 1 -> 1
n2 reads G 1 1 x
n2.2 open last=$n2 -> OPEN 0
n2.2 give s x 1; s y 1; w x ms1/1 2 9 -> 1 1 1
n2.2 ready -> {$n2=2}
n2.2 reap $n2 2 -> 0
n2.2 grace $term -> 1
n2.2 give b x 1; c y ms1/1 9; t y; g x -> 1 0 1 [1 0]
n1 leave -> 1
CONFIG SET maxmemory 0

story Grants and dones cost the same with many waiters
cannot among queue line because they cost more
with waiters 10 120
live n1
n1 a x ns1/1/0 0 -> 1
n1 call $waiters * a x ms1/1/0 # -> $waiters * wait
n1 b x 1 -> 1
costs exists=2 hget=1 hincrby=1 hlen=1 hmget=3 publish=1 zadd=1 zcard=1 zpopmin=1 zrange=2
n1 call $waiters * a y as1/1/0 # -> 1 _
n1 r y 1 -> 1
costs exists=2 hdel=3 hget=1 hlen=1 hmget=3 publish=1 unlink=1 zcard=1 zrange=1 zrem=1

story A call for names that nobody waits for costs few commands
cannot queue because somebody waits then
live n1
n1 call 100 * a x# ms1/1/9 1 -> 100 * 1
costs exists=1 hget=2 hgetall=1 hlen=1 hmget=2 hset=2
n1 call 100 * r x# 1 -> 100 * 1
costs exists=1 hdel=2 hget=1 hgetall=1 hlen=1 hmget=2

story What changes nothing writes nothing
cannot queue because keys are not in memory then
live n1
n1 call a x ns1/1/0 0; a x ms1/1/0 1; a y ns1/1/0 0 -> 1 wait 1
n1 call g x; a x ns1/1/0 2; a y ms1/1/1 3; c x ms1/1 9 -> [1 1] 0 -1 0
costs exists=2 hget=1 hgetall=1 hlen=1 hmget=3 zcard=1 zrange=2 zrem=1
