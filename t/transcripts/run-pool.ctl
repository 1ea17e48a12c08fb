# run --pool and clean, against a server that the transcript plays.

== a member is told by variables and returned
$ counterctl -s {play} run --pool gpus -- sh -c "env | grep '^COUNTER_[APMVF]' | sort"
s> TAKE gpus 4294967295 by={user}@{host}:sh
s< TAKEN gpus gpu_3 1700000000000042 /dev/x model=A100 mem_gb=80
s> RETURN 1700000000000042
s< RETURNED
COUNTER_ATTR_MEM_GB=80
COUNTER_ATTR_MODEL=A100
COUNTER_FENCE=1700000000000042
COUNTER_MEMBER=gpu_3
COUNTER_POOL=gpus
COUNTER_VALUE=/dev/x

== several members are told by one variable and by one each
$ COUNTER_ATTR_OLD=1 COUNTER_MEMBER_2=old GPUS=old counterctl -s {play} run --pool a,b --count=2 --with k=v --with l=w \
    --env GPUS -t 1.5 -- sh -c 'env | grep "^\(COUNTER_[APMVF]\|GPUS\)" | sort'
s> TAKE a,b 1.5 count=2 with=k=v with=l=w by={user}@{host}:sh
s< TAKEN b m1 7 - zone=x
s< TAKEN b m2 8 v2 model=M
s> RETURN 7
s< RETURNED
s> RETURN 8
s< RETURNED
COUNTER_ATTR_MODEL=- M
COUNTER_ATTR_MODEL_0=
COUNTER_ATTR_MODEL_1=M
COUNTER_ATTR_ZONE=x -
COUNTER_ATTR_ZONE_0=x
COUNTER_ATTR_ZONE_1=
COUNTER_FENCE=7 8
COUNTER_FENCE_0=7
COUNTER_FENCE_1=8
COUNTER_MEMBER=m1 m2
COUNTER_MEMBER_0=m1
COUNTER_MEMBER_1=m2
COUNTER_POOL=b
COUNTER_VALUE=- v2
COUNTER_VALUE_0=
COUNTER_VALUE_1=v2
GPUS=m1,v2

== what is asked for
each options | asked
    --pool @g -t0 | @g
    --pool p --member m -t 0 | p member=m
    --pool p,q | p,q 4294967295
$ counterctl -s {play} run {options} -- true
s> TAKE {asked} by=...
s< TAKEN p m 7 -
s> RETURN 7
s< RETURNED

== how it ended says how it is returned
each options | script | status | how
    -q | exit 0 | 0 | RETURN 7
    -q | exit 3 | 3 | RETURN 7
    -q | kill -KILL $$ | 137 | RETURN 7 fail
    --fail-on 1,3 | exit 3 | 3 | RETURN 7 fail
    --fail-on 1,3 | exit 2 | 2 | RETURN 7
    --fail-on nonzero | exit 255 | 255 | RETURN 7 fail
    --fail-on nonzero | exit 0 | 0 | RETURN 7
    --fail-on=0 | exit 0 | 0 | RETURN 7 fail
    --fail-on nonzero | exec /no/such/command | 127 | RETURN 7 fail
$ counterctl -s {play} run --pool p {options} -- sh -c '{script}' 2>&-
s> TAKE p ...
s< TAKEN p m 7 -
s> {how}
s< RETURNED
? {status}

== a command that is not there leaves the member as it was
$ counterctl -s {play} run --pool p --fail-on nonzero -- /no/such/command
s> TAKE p ...
s< TAKEN p m 7 -
s> RETURN 7
s< RETURNED
! counterctl: /no/such/command: No such file or directory
? 127

== members that no variable can hold are said and given back
$ counterctl -s {play} run --pool p --count=32 -- echo ran
s> TAKE p ...
s<= b"".join(b"TAKEN p m%d %d %s\n" % (i, i, b"x" * 4096) for i in range(1, 33))
s> RETURN 1
s<= b"RETURNED\n" * 32
s> ...
s> RETURN 32
! counterctl: ...COUNTER_VALUE would have 131117 bytes{=[^x]*}
? 126

== a member that was taken away is 79
$ counterctl -s {play} run --pool p --count 2 -- sh -c 'exit 3'
s> TAKE p ...
s< TAKEN p m 7 -
s< TAKEN p n 8 -
s> RETURN 7
s< GONE
s> RETURN 8
s< RETURNED
! counterctl: p/m was taken away while sh ran...
? 79

== why there is no member
each answer | status | why | quiet
    TIMEOUT | 75 | ...came free... | !
    QUEUE_FULL | 69 | ...queue_max... | !
    ERROR SHUTTING_DOWN | 69 | ...shutting down... | !
    ERROR NO_POOL | 1 | ...there is no such pool... | loud
    ERROR NO_MEMBER | 1 | ...there is no such member... | loud
    ERROR TOO_MANY | 69 | ...more than it allows... | !
    ERROR BAD_COMMAND | 76 | ...too old... | loud
    RETURNED | 76 | ...returned... | loud
$ counterctl -s {play} run --pool p -t 5 -- echo ran
s> TAKE p 5 ...
s< {answer}
! counterctl: pool p: {why}
? {status}
$ counterctl -s {play} run --pool p -t 5 -q -- echo ran 2>&1 | sed 's/^counterctl: pool p.*/loud/; $!d'; echo ${PIPESTATUS[0]}
s2> TAKE p 5 ...
s2< {answer}
...
> {status}

== no member without a wait
$ counterctl -s {play} run --pool p -t 0 -- echo ran
s> TAKE p by=...
s< TIMEOUT
! counterctl: pool p: ...no member that fits is free...
? 75

== wrong options are not sent
each options | why
    --pool '' | ...--pool: "" is not...
    --pool a, | ...--pool: "a," is not...
    --pool 'a b' | ...--pool...
    --pool a,a | ...different...
    --pool $(seq -s, 17) | ...up to 16...
    --pool @ | ...@GROUP...
    --pool p --with k | ...--with: "k" is not...
    --pool p --with K=v | ...--with: "K=v" is not...
    --pool p --with k=v --with k=w | ..."k=w"...
    --pool p $(yes 'x --with k=v'|head -9|cut -c2-) | ...8 times at most...
    --pool p --count 65 | ...from 1 to 64...
    --pool a,b --member m | ...one pool...
    --pool p --member 'm n' | ...--member...
    --pool p --fail-on '' | ...--fail-on: "" is not...
    --pool p --fail-on 1,256 | ...--fail-on: "1,256" is not...
    --pool p --fail-on zero | ...--fail-on...
    --pool p --env 1A | ...--env: "1A" is not...
    --pool p --env A=B | ...--env...
    --pool p key | ...too many arguments...
    --pool p --workers 2 | ...for a KEY...
    --pool p --any | ...for a KEY...
    key --count 2 | ...need --pool...
    -q | ...is missing...
$ counterctl -s {none} run {options} -- echo ran
! counterctl: {why}
? 64

== a signal while it waits says quit
$ counterctl -s {play} run --pool p -- echo ran
s> TAKE p ...
signal TERM
s> QUIT
s< TAKEN p m 7 -
s< BYE
? 143

== a signal that is passed on is a failure
$ counterctl -s {play} run --pool p -- sh -c 'echo ready; exec sleep 1000'
s> TAKE p ...
s< TAKEN p m 7 -
ready
signal TERM
s> RETURN 7 fail
s< RETURNED
? 143

== a lost connection is said and the command goes on
$ counterctl -s {play} run --pool p -- sh -c 'echo ready; cat; exit 3'
s> TAKE p ...
s< TAKEN p m 7 -
ready
s close
! counterctl: ...goes on without it...
eof
? 79

== a connection lost before the answer to return is 79
$ counterctl -s {play} run --pool p -- true
s> TAKE p ...
s< TAKEN p m 7 -
s> RETURN 7
s close
! counterctl: ...closed the connection...
? 79

== a signal ends the wait for the answer when it gives back
each words | taken | back
    k | LOCKED | RELEASE k
    --pool p | TAKEN p m 7 - | RETURN 7
$ counterctl -s {play} --io-timeout 1000 run {words} -- true
s> ...
s< {taken}
s> {back}
signal TERM
? 143

== strict ends the command
$ counterctl -s {play} run --strict --pool p -- sh -c 'echo ready; exec sleep 1000'
s> TAKE p ...
s< TAKEN p m 7 -
ready
s close
! counterctl: ...gets TERM...
? 79

== what asks is a word
$ name="a b"$'\n'"$(printf %200s | tr ' ' x)"; ln -s /bin/true "$name"; counterctl -s {play} run --pool p -- "./$name"
s> TAKE p 4294967295 by={by={user}@{host}:a_b_x+}
s< TAKEN p m 7 -
s> RETURN 7
s< RETURNED
$ by={by}; echo ${#by}
128

== closed standard descriptors are /dev/null
r$ exec counterctl -s {play} run --pool p -- true <&- >&- 2>&-
s> TAKE p ...
$ readlink /proc/{rpid}/fd/0 /proc/{rpid}/fd/1 /proc/{rpid}/fd/2
/dev/null
/dev/null
/dev/null
s close
r? 69
