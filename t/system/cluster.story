# What clients of two nodes, a and b, see of the limits that these share while nothing fails. The names of a
# story are its own: s is strict, l loose, x not shared; both protocols have the same.
#
#     CLIENT LINE -> ANSWERS    a text client: its node and a number; \n is the end of a line. Without -> nothing
#                               is read; `waits`: the node has one more wait; `silent`: no answer comes
#     CLIENT end, CLIENT eof    the connection ends; the client sends no more, and reads up to the end
#     CLIENT binary WORD 2/5 NAME -> STATUS
#     shares NAME -> a 1 0, b 0 1            the units and waits of each node

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
shares x -> not shared

story Waits are served in order over nodes
each l | s
a1 ACQ4ME $1 1 50 0 -> LOCKED
b1 ACQ4ME $1 1 50 60 -> waits
a2 ACQ4ME $1 1 50 60 -> waits
b2 ACQ4ME $1 1 50 60 -> waits
a3 ACQ4ME $1 1 50 60 -> waits
shares $1 -> a 1 2, b 0 2
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
shares l -> a 1 0
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
shares l ->

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
shares l2 ->

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
shares l -> a 1 0

story Quit gives back locks and ends waits
a1 ACQ4ME l 1 9 0 -> LOCKED
b1 ACQ4ME l 1 9 60 -> waits
b2 ACQ4ANY l 1 9 60 -> waits
b1 QUIT -> BYE
shares l -> a 1 0, b 0 1
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
shares $1 -> b 2 0

story Both protocols share names
a1 ACQ4ME both 2 9 0 -> LOCKED
b1 binary acquire 1/2 both -> 0
b2 binary acquire 1/2 both -> 33
a2 ACQ4ME both 2 9 60 -> waits
b1 binary release 1 both -> 0
a2 -> LOCKED
