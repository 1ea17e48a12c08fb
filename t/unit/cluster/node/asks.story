# The life of a request: cancelled in each state, granted early and late, done, lost with the engine, told again.

story Cancelled before it was sent
live; a: me l; > call a l ml1/1/0 @a
b: me l; cancel b
= b cancelled
< [2]
> -
# A wait that is not in the engine now is only forgotten.
cut c; later 300; connect; accepts; cancel a
= a cancelled
reported; readies; > -

story Cancelled while its acquisition is under way: it has units, which go back
live; a: me l; > call ...
cancel a
= a asks
< [1]
> give b l 1; < [1]
= a cancelled
> -
= asks 0

story Cancelled while its acquisition is under way: there are none
each no ~ 0 ~ busy | me ~ -1 ~ cancelled | me ~ !"WRONGTYPE {p}:k:l" ~ cancelled
live; a: $1 l; > call ...
cancel a
< [$2]
= a $3; = asks 0
> -

story Cancelled while its acquisition is under way: it waits
live; a: me l; > call ...
cancel a
< [5]
> give c l ml1/1 @a
= a asks
< [1]
= a cancelled; = asks 0

story Units for a cancelled wait go back
live; a: waits-me l 2; b: no l; > call ...
cancel a; grants a
< [0]
> give c l ml1/1 @a b l 1; < [0 1]
= a cancelled
# Before the answer of its end.
a: waits-me l 3; cancel a; > give c l ml1/1 @a
grants a
< [0]
= a cancelled
> give b l 1; < [1]
# After it: nobody knows the id.
a: waits-me l 4; cancel a; > give ...; < [0]
grants a; > give b l 1; < [1]
> -
= asks 0

story Units before the answer
live; a: me l; > call ...
grants a
< [7]
= a granted
a: me l; > call ...
grants a; cancel a
< [8]
> give b l 1; < [1]
= a cancelled

story Units before an answer that never comes are of that session
live; a: waits-me l 6; b: me l; > call ...
grants b; cut c; later 300; connect; accepts; reported; > give w l ml1/1 @a 6
grants a; cut c; later 300; connect; accepts; reported; > give ...; < [1]
readies; > call t l a l ml1/1/0 @b; < [1 8]
= a waits; = b waits

story Units while a session opens within the lease
live; a: waits-me l 2; b: waits-me s 3; cut c; later 300; connect; accepts; reported; > give ...
grants a
= a waits
< [1 1]
= a granted
grants b
= b granted
# A release waits for the session.
c: release l
= c asks
readies; > give r l 1; < [1]
= c released

story Units while a session opens without a lease
each granted | cancelled
live; a: waits-me l 2; b: waits-me s 3; at lease; closed; later 100; connect; accepts; reported
> give ...; < [1 1]
grants a; grants b
= a granted; = b waits
readies
= b granted

story Strict units that came without a lease go back when the wait is cancelled
live; b: waits-me s 3; at lease; closed; later 100; connect; accepts; reported; > give ...; < [1]
grants b; cancel b; readies; > give b s 1; < [1]
= b cancelled

story Units of an opening that failed: the wait is told again, with its place
live; a: waits-me s 3; at lease; closed; later 100; connect; accepts; reported; > give ...; < [1]
grants a; cut c; later 300; connect; accepts; reported; > give w s ms1/1 @a 3; < [1]
readies
= a waits

story Done is for waits up to its place
live; a: waits-any l 2; b: waits-me l 3; c: waits-any l 5; d: any l; > call ...
message "D 4 l"
= a done; = b waits; = c waits
# Its place comes late, and is before that.
< [4]
= d done
> -
# The highest number ever seen goes with `open`.
message "D 77 other"; cut c; later 100; connect; > open * * * * 77 ...

story Done of another term is forgotten
each aa:bb ~ done | aa:cc ~ waits
live; b: waits-me l 50; message "D 60 l"; cut c; later 100; connect; > open ...; < [OPEN "$1" 0]
reported; > give ...; < [1]
readies; > give t l; < [1]
a: any l; > call ...; < [55]
= a $2

story Done is kept only while somebody waits
live; repeat 100; message "D $i l$i"; again; message "D 102 l"
= names 0
a: waits-any l 200; message "D 200 l"
= a done; = names 0

story Done while a wait is told again: it comes to the engine behind that
live; a: waits-any l 20; cut c; later 300; connect; accepts; reported; > give ...
message "D 30 l"
= a waits
< [1]
readies; > give c l al1/1 @a; < [1]
= a done

story A release that was lost is done, and ends the waits that came before it
live; a: waits-any l 20; b: waits-me l 21; c: release l; > give ...
d: any l; cut c
= c released; = a done; = b waits; = d asks
c: release l
= c released; = d done
later 100; connect; accepts; reported; > give w l ml1/1 @b 21

story The end of a connection makes nobody done
live; a: waits-any l 20; cut c; b: end l
= b released; = a waits

story A release is in the report, or is sent after it
live; cut c; later 300; connect; accepts; a: release l
= a asks
b: release l2 report=-1
= b released
report l 3; report l 4; reported; > give s l 7; < [1]
readies; > give r l 1
> -

story A report of a session before is not asserted
live; cut c; later 300; connect; accepts
= report 2
report l 3; cut c; later 300; connect; accepts
= report 2
report l 3; reported
= report 3
report l 1; reported; > give s l 1

story Units that the engine does not have
live; a: release l; > give r l 1; < [-2]
= a released; = wires 0; = loss ledger 1; = log "fewer units" 1

story What is not finished goes on at once, until it is
live; a: release l; > give ...; < [2]
= a released
repeat 2; > give t l; < [2]
again; > give t l; < [1]
> -
= names 0
# Names of other nodes, too.
later 2000; > beat ...; < [0 [x "a b"] [SELF 2]]
> give t x t "a b"; < [1 1]
= names 0

story A full engine refuses acquisitions alone
live; a: waits-me l3 2; b: no l; > call ...
c: me l; d: release l2; e: no s; cancel a; f: get l4; g: me l
< [0]
> call ...
cancel g
< !"OOM command not allowed when used memory > 'maxmemory'."
= c full; = e full; = g cancelled; = d asks; = f asks
> give r l2 1 c l3 ml1/1 @a g l4; < [1 1 [3 4]]
= d released; = a cancelled; = f counted 3 4; = state live
# Of `give` it is an error like others.
d: release l2; repeat 2; > give ...; < !"OOM no"
again
= wires 0; = d released

story What was not answered is sent again
live; a: no l 2/3/9; > call ...
b: any l 2/3/9; c: me l 2/3/9; cut c; later 300; connect; accepts
# One that was a wait, but has lost its place.
d: any l 2/3/9 queued; reported; readies
> call a l al2/3/0 @d a l nl2/3/9 @a a l al2/3/9 @b a l ml2/3/9 @c; < [10 0 11 12]
# Queued, lost, told again with the place; lost again while that is under way.
repeat 2; cut c; later 300; connect; accepts; report l 5; reported
> give s l 5 w l al2/3 @b 11 w l ml2/3 @c 12 w l al2/3 @d 10
again
< [1*4]
readies
= d place 10; = b place 11; = c place 12

story Waits without a place get it by age
live; cut c; later 300; connect; accepts; report l 2; r: release l; a: any l 1/2 since=5 queued
b: me l 1/2 since=9 queued; c: any l 1/2 since=3 queued; d: me l 1/2 since=7 queued
e: any l 1/2 since=3 queued; f: me l 1/2 since=1 queued; g: any l 1/2; reported; > give s l 2; < [1]
readies
> call a l ml1/2/0 @f a l al1/2/0 @c a l al1/2/0 @e a l al1/2/0 @a a l ml1/2/0 @d a l ml1/2/0 @b r l 1 a l al1/2/0 @g
< [2 3 4 5 6 7 1 8]
= f place 2

story An error while it tells what it has begins again, and all is told again
each [0] | [] | [2] | ["1"] | !"SESSION no" | !"ERR no" | [!"ERR no"]
live; cut c; later 300; connect; accepts; report l 3; reported; > give s l 3; < $1
= wires 0
later 200; connect; accepts; report l 2; reported; > give s l 2

story An odd answer keeps no name
each [[]] | [3] | [nil] | [1 1]
live; a: release l; > give ...; < [2]
> give t l; < $1
= wires 0; = names 0

story Other patterns open anew
live; a: waits-me l 5; b: waits-me l2 6; c: get l; > give ...
patterns l2 m*
= a alone; = c alone; = b waits; = wires 0
later 0; connect; accepts; report l 1; report l2 2; reported; > give s l2 2 w l2 ms1/1 @b 6

story A successor goes on where it was
live; message "D 44 l"; mark session; cut c; mark lost; later 300; succeed; start; a: me l
at lost+1000-
= a asks
connect; > open * * * * 44 %session ...
at lost+1000
= a alone
# Strict holders may be there: a namesake closes them.
< [NODE 00000000000000aa w 1 4000]
= closings 1

story A wait keeps its place over an upgrade
live; a: waits-me s 2; succeed; start; wait a; connect; accepts; report s 1; reported
> give s s 1 w s ms1/1 @a 2; < [1 1]
readies; grants a
= a granted

story A hand over that was not sent is none of the next session
live; later 1500; a: no l; > call ...
later 500; > beat ...; < [1]
b: release l; > give ...; < [0 [x] [SELF 2]]
cut c; later 300; connect; accepts
= names 0
reported; readies; > -

story Patience is not begun anew by an opening that fails
live; cut c; mark lost; a: me l; later 100; connect; accepts; at lost+1000-
= a asks; = alone 0
at lost+1000
= a alone
cut m; later 200; connect; a: me l
= a alone
accepts; a: me l
= a alone; = alone 1

story Patience counts from the start
start; mark start; a: me l; b: no s; later 900; cut c; at start+1000-
= a asks; = b asks
at start+1000
= a alone; = b away

story While the engine is away, a loose release ends the waits for anyone
live; a: waits-any l 2; b: waits-me l 3; cut c; c: release l
= c released; = a done; = b waits

story A loose wait keeps its place through the table
live; a: waits-me l 40; cut c; later 1000
= a alone; = a place 40
connect; accepts; reported; wait a; reported; > give w l ml1/1 @a 40

story Requests go together: two calls at most, the second when it is full
live; a: no l; b: no l; c: no l; > call a l nl1/1/0 @a
> -; < [1]
> call a l nl1/1/0 @b a l nl1/1/0 @c; < [0 0]
= c busy

story Names that are a node's own are the table's
live; a: no own
= a alone
b: get own
= b alone
> -

story Numbers at their limits
live; a: any l 4294967295/4294967295 id=18446744073709551615
> call a l al4294967295/4294967295/0 18446744073709551615; < [9007199254740991]
= a place 9007199254740991
grants a
= a granted
b: any l 4294967295/4294967295 id=7; > call ...; < [9007199254740990]
cut c; later 100; connect; > open * * * * 9007199254740991 ...; < [OPEN "aa:bb" 0]
# Units of many connections are more than one may have.
report l 4294967295; report l 4294967295; reported
> give s l 8589934590 w l al4294967295/4294967295 7 9007199254740990

story Scripts count with doubles: a place that these do not have makes no sense
each D 9007199254740993 l | D 99999999999999999999 l | D 18446744073709551617 l | D 0 l | D -1 l
live; a: any l; > call ...
message "$1"
= wires 0
later 100; connect; > open * * * * 0 ...

story So in an answer
live; a: any l; > call ...; < [9007199254740993]
= wires 0
later 100; connect; > open * * * * 0 ...

story Messages that make no sense
each G 9 0 l | G 9 4294967296 l | G 9 1 m | G 9 1 | G  9 1 l | G x 1 l | G 18446744073709551616 1 l | G | | GG 9 1 l | X 1 | B | B x | D 5
live; a: any l id=9; > call ...; < [5]
message "$1"
= wires 0; = a waits

story Messages that end in a space make no sense
each G 9 1 | D 5 | B
live; message "$1 "
= wires 0

story A message for more units than were asked for makes no sense
live; a: any l id=9; > call ...; < [5]
message "G 9 2 l"
= wires 0; = a waits

story Names of any bytes
live; b: any "l \0\r\n$ \xff"; > call a "l \0\r\n$ \xff" al1/1/0 @b; < [3]
c: any "l "; > call a "l " al1/1/0 @c; < [4]
message "D 9 l"
= b waits; = c waits
message "D 9 l "
= c done; = b waits
message "D 9 l \0\r\n$ \xff"
= b done
