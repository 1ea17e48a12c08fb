# The configuration of counterd: what is accepted and what is said of the rest. `checks` is in the file shell.
let number = is not a number from

== flags
$ checks <<'END'
    -x => unknown flag -x; counterd --help lists them
    -tx => unknown flag -x; counterd --help lists them
    --frob => unknown flag --frob; counterd --help lists them
    --help=x => unknown flag --help=x; counterd --help lists them
    $'-\001' => unknown flag -\\x01; counterd --help lists them
    -f => the argument of -f is missing
    -o => the argument of -o is missing
    -l => the argument of -l is missing
    -f a -f b => -f is given twice
    start -h => "start" is not a flag; counterd --help lists them
    -- -h => "-h" is not a flag; counterd --help lists them
    -f none => none: no such file
    -f '' => : no such file
    -f . => .: cannot be read: Is a directory
    -f /dev/zero => /dev/zero: cannot be read: Not a regular file
    -f /dev/null => good
    -f /proc/self/mem => /proc/self/mem: cannot be read: Input/output error
    -l ::1 -l [::3] -l ::3 => good
    -l localhost => -l: "localhost" is not a numeric IPv4 or IPv6 address, such as 127.0.0.1 or ::1
    -l127.0.0.1:7531 => -l: "127.0.0.1:7531" is not a numeric*
    -l '127.0.0.1, ::1' => -l: "127.0.0.1, ::1" is not a numeric*
    -l '' => -l: "" is not a numeric*
    -l $'\n' -o nonsense => -l: "\\x0a" is not a numeric*
    -l ::1 -l 256.0.0.1 => -l: "256.0.0.1" is not a numeric*
    $(printf ' -l1.1.1.%d' {1..16}) => good
    $(printf ' -l1.1.1.%d' {1..17}) => -l: more than 16 addresses
    -o counter.prot=1 => -o counter.prot: unknown key "counter.prot"; did you mean "counter.port"?
    -o counter.port => -o counter.port: not of the form KEY=VALUE
    -o 'user="me' => -o user: the closing quote is missing
    -o =5 => -o : unknown key ""; counterd --help lists the keys
    -o x -o counter.port=1 -l ::1 => -o x: not of the form KEY=VALUE
    -o workers=5 => -o workers: unknown key "workers"; counterd --help lists the keys
    -o pid_file=$(printf %04087d 0) => good
    -o pid_file=$(printf %04088d 0) => -o pid_file=*...: longer than 4096 bytes
    -o poolcounter.enable=false => nothing to serve: set poolcounter.enable or counter.enable or jobs.enable to true
    -o poolcounter.enable=false -o counter.enable=true => good
    -o cluster.engine=redis:/x => cluster.engine: it is no address of an engine*
    -o cluster.prefix=Ab => cluster.prefix: not 1 to 32 characters*
    -o 'cluster.node=a b' => cluster.node: not 1 to 64 visible*
    -o cluster.lease=1 => -o cluster.lease: "1" {number} 2 to 300 seconds*
    -o cluster.patience=61 => -o cluster.patience: "61" {number} 0 to 60 seconds*
    -o ' counter.port = 7 ' -o 'user="root"' -ocounter.stat_interval=9 -o pid_file=a#b => good
    END
$ counterd -t -l localhost 2>/dev/null
? 1
$ counterd -t -x 2>/dev/null
? 2
$ counterd -V
counterd ...
$ counterd -h -f /no/such | head -n1
Usage: counterd [-f FILE] [-o KEY=VALUE]... [-l ADDRESS]... [-t] [-V] [-h]

== values
$ for value in "''" "' '" -1 +1 "'1 2'" 0x10 1e3 1.5 1,5 9z z9 1K -- ten 65536 4294967296 18446744073709551616 \
        36893488147419103232 ٣ 9999999999999999999999999999999999999999999999999999; do
        echo "-o counter.port=$value => -o counter.port: \"*\" {number} 0 to 65535"
    done | checks
$ for value in M 16MB 16MiB "'16 M'" 16Mx 1T -16M 33G 15M 0 0G 17179869185G 18014398509498368K 18446744073726328832; do
        echo "-o counter.memory_limit=$value => *is not a size from 16M to 32G (bytes, or with K, M or G)"
    done | checks
$ for value in "''" 2 TRUE t truey tru "'yes no'"; do echo "-o counter.enable=$value => *is neither true nor false"; done | checks
$ for value in "''" "' , '" localhost 127.0.0.1:80 [::1]:80 127.1 1.2.3.256 [1.2.3.4] [::1 ::1] [] ::1:: 1.2.3.4.5 "'*'" \
        fe80::1%lo "'1.2.3.4;::1'" 1111:2222:3333:4444:5555:6666:7777:8888:9999 1111:2222:3333:4444:5555:6666:255.255.255.2555; do
        echo "-o counter.listen=$value => *such as 127.0.0.1 or ::1"
    done | checks
$ for value in "''" 8 0668 1000 00660 rw 0x1b0 "'66 0'" -1; do
        echo "-o counter.socket_mode=$value => *is not a mode from 0000 to 0777, such as 0660"
    done | checks
$ for value in 10.0.0.1/8 10.0.0.0/33 localhost 10.0.0.0/ /8 "'10.0.0.0/8;10.1.0.0/16'" "'::1 10.0.0.1/8'"; do
        echo "-o access.allow=$value => *is not an address or a network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32; the bits after the prefix must be 0"
    done | checks
$ checks <<'END'
    -o access.allow="$(printf '10.0.%d.0/24 ' {0..255}) 10.0.0.0/24" => good
    -o access.allow="$(printf '10.0.%d.0/24 ' {0..255}) 10.1.0.0/24" => -o access.allow: more than 256 networks
    -o counter.listen="$(printf '10.0.0.%d ' {1..16}) 10.0.0.1" => good
    -o counter.listen="$(printf '10.0.0.%d ' {1..17})" => -o counter.listen: more than 16 addresses
    -o counter.stats_interval=0 => *"0" {number} 1 to 4294967295 seconds
    -o counter.port=$(printf x%0300d 7) => -o counter.port: "x0*0..." {number}*
    -o log.level=loud => *"loud" is not one of error, warning, info or debug
    -o log.output= => *"" is not one of stderr or syslog
    -o log.output='stderr x' => *is not one of stderr or syslog
    -o user=$'a\tb' => -o user: "a\\x09b" contains a quote or a control character
    -o admin.token="$(printf %0255d 1)" => good
    -o admin.token="$(printf %0256d 1)" => *not 1 to 255 printable ASCII characters without blanks
    -o admin.token='two words' => *not 1 to 255 printable ASCII characters without blanks
    -o admin.token=é => *not 1 to 255 printable ASCII characters without blanks
    END

== an unknown key is told the nearest
$ while read -r key nearest; do echo "-o $key=1 => *unknown key *; did you mean \"$nearest\"*"; done <<'END' | checks
    counter.prot counter.port
    counter.por counter.port
    counter.sport counter.port
    COUNTER.PORT counter.port
    poolcounter.maxlocks poolcounter.max_locks
    pool_counter.max_lines poolcounter.max_line
    usr user
    pidfile pid_file
    log.levle log.level
    edmon.pork admin.port
    counter.stats_intervall counter.stats_interval
    limits.output_bufer limits.output_buffer
    threads counter.threads
    level log.level
    port counter.port" or "jobs.port" or "poolcounter.port" or "admin.port
    pool.db.on_fial pool.db.on_fail
    END
$ for key in x workers memory counter counter.frobnicate poolcounter.poolcounter.poolcounter.poolcounter.port; do
        echo "-o $key=1 => -o $key: unknown key \"$key\"; counterd --help lists the keys"
    done | checks

== lines of a file
each text | said
    \n\ncounter.prot = 1\n | c:3: unknown key "counter.prot"; did you mean "counter.port"?
    frobnicate = 1 | c:1: unknown key "frobnicate"; counterd --help lists the keys
    counter.port = | c:1: counter.port: "" {number} 0 to 65535
    counter.port = # 3 | c:1: counter.port: "" {number} 0 to 65535
    counter.port = 1 2 | c:1: counter.port: "1 2" {number} 0 to 65535
    counter.port | c:1: neither "key = value" nor a comment
    counter.port # = 3 | c:1: neither "key = value" nor a comment
    [counter] | c:1: neither "key = value" nor a comment
    = | c:1: neither "key = value" nor a comment
    user = "me | c:1: user: the closing quote is missing
    user = me" | c:1: user: a quote inside the value; quotes go around all of it
    user = "me" you | c:1: user: something follows the closing quote; quotes go around all of the value
    user = "me"" | c:1: user: something follows the closing quote; quotes go around all of the value
    pid_file = a\n\npid_file = a | c:3: pid_file: set on line 1 already
    counter.stat_interval = 1\ncounter.stats_interval = 1 | c:2: counter.stats_interval: set on line 1 already, as counter.stat_interval, which is the same
    counter.stats_interval = 1\ncounter.stat_interval = 1 | c:2: counter.stat_interval: set on line 1 already, as counter.stats_interval, which is the same
    us\033[31mer\x80 = x | c:1: unknown key "us\\x1b[31mer\\x80"; counterd --help lists the keys
    counter.port = \a\x7f | c:1: counter.port: "\\x07\\x7f" {number} 0 to 65535
    counter.port = 5\r\r\n | c:1: counter.port: "5\\x0d" {number} 0 to 65535
    \n\xef\xbb\xbfuser = me\n | c:2: unknown key "\\xef\\xbb\\xbfuser"; counterd --help lists the keys
    \xef\xbb\xbfcounter.port = 5\n | good
    counter.port = 5\r\n\r\n# x\r\nuser = "root"\r\ngroup = root\r | good
    \r\n\n\n# | good
    counter.port = x\njunk\ncounter.threads = 257\n | c:1: counter.port: "x" {number} 0 to 65535/c:2: neither*/c:3: counter.threads: "257" {number} 0 to 256
    counter.port = 5\0 6\npid_file = \0\n\0 | c:1: the line holds a NUL byte/c:2: the line holds a NUL byte/c:3: the line holds a NUL byte
$ printf '{text}' >c; checks <<'END'
    -f c => {said}
    END

== bounds of a file
$ yes x | head -n60 >many; for i in {1..20}; do echo "many:$i: neither \"key = value\" nor a comment"; done >expected
$ counterd -t -f many 2>&1 | diff - <(sed 's/^/counterd: /' expected; echo 'counterd: many: too many mistakes; the rest was not read')
$ for end in '' '\n' '\r\n' '\ncounter.port = 5'; do
        printf "pid_file = %04085d$end" 0 >c; checks <<<'-f c => good'
        printf "pid_file = %04086d$end" 0 >c; checks <<<'-f c => c:1: the line is longer than 4096 bytes'
    done
$ for end in '\rx\n' '\r\r\n' '\rxx\r\n'; do
        printf "pid_file = %04085d$end" 0 >c; checks <<<'-f c => c:1: the line is longer than 4096 bytes'
    done
$ printf "pid_file = %0900000d\nx\n" 0 >c; checks <<<'-f c => c:1: the line is longer than 4096 bytes/c:2: neither*'
$ head -c1048576 /dev/zero | tr '\0' '\n' >c; checks <<<'-f c => good'
$ echo >>c; checks <<<'-f c => c:1048577: the file is larger than 1048576 bytes'
$ rm c; truncate -s 1T c; checks <<<'-f c => c:1: the file is larger than 1048576 bytes'
$ ln -sf loop loop; mkfifo fifo; checks <<'END'
    -f loop => loop: cannot be read: Too many levels of symbolic links
    -f fifo => fifo: cannot be read: Not a regular file
    END

== options that do not fit together
let set = set another for one of them
$ checks <<'END'
    -o poolcounter.plain=false => poolcounter.plain is false, and nothing else serves it; set poolcounter.tls_port or poolcounter.socket
    -o counter.enable=true -o counter.plain=false => counter.plain is false, and nothing else serves it; set counter.tls_port or counter.socket
    -o poolcounter.plain=false -o poolcounter.socket=/run/x => good
    -o counter.plain=false => good
    -o poolcounter.tls_port=7533 => poolcounter.tls_port is 7533, and there is no certificate; set tls.cert
    -o counter.enable=true -o counter.tls_port=1 => counter.tls_port is 1, and there is no certificate; set tls.cert
    -o counter.tls_port=1 => good
    -o tls.key=/x => tls.key is set, but tls.cert is not; set tls.cert, too
    -o tls.cert=/x -o tls.verify_client=require => tls.verify_client is require, and there is nothing to verify with; set tls.ca
    -o tls.cert=/x -o tls.verify_client=optional => tls.verify_client is optional, and there is nothing to verify with; set tls.ca
    -o admin.hosts='counter.example.org, locks' => good
    -o admin.hosts='*' => good
    -o admin.hosts=counter.example.org:7532 => admin.hosts: not a list of host names without ports, separated by commas, and not *; the limit is 1023 bytes
    -o admin.hosts=' a , * ' => good
    -o admin.hosts=$(printf %01023d 1) => good
    -o admin.hosts=$(printf %01024d 1) => admin.hosts: not a list*
    -o admin.hosts='*.example.org' => admin.hosts: not a list*
    -o admin.hosts=http://a => admin.hosts: not a list*
    -o admin.hosts='a;b' => admin.hosts: not a list*
    -o admin.hosts=é => admin.hosts: not a list*
    -o counter.enable=true -o counter.port=7000 -o poolcounter.port=7000 => poolcounter.port and counter.port are both 7000, on 127.0.0.1; {set}
    -o poolcounter.port=7532 => poolcounter.port and admin.port are both 7532, on 127.0.0.1; {set}
    -o poolcounter.tls_port=7531 -o tls.cert=/x => poolcounter.port and poolcounter.tls_port are both 7531, on 127.0.0.1; {set}
    -o counter.enable=true -o counter.tls_port=7531 -o tls.cert=/x -o poolcounter.listen=0.0.0.0 => poolcounter.port and counter.tls_port are both 7531, on 0.0.0.0; {set}
    -o counter.enable=true -o counter.port=7531 -o counter.listen='127.0.0.2 ::' -o poolcounter.listen=::1 => poolcounter.port and counter.port are both 7531, on ::1; {set}
    -o counter.enable=true -o counter.port=0 -o poolcounter.port=0 => good
    -o counter.enable=true -o counter.port=7531 -o counter.listen=127.0.0.2 => good
    -o counter.enable=true -o counter.port=7531 -o counter.listen=:: -o poolcounter.listen=0.0.0.0 => good
    -o counter.port=7531 => good
    -o counter.enable=true -o counter.port=7531 -o counter.plain=false -o counter.socket=/x => good
    -o admin.port=0 -o poolcounter.port=0 => good
    -o poolcounter.port=7532 -o admin.listen=127.0.0.9 => good
    -o poolcounter.listen='127.0.0.1 0.0.0.0' => poolcounter.listen: 0.0.0.0 is every address and includes 127.0.0.1; remove one
    -o admin.listen=':: ::1' => admin.listen: :: is every address and includes ::1; remove one
    -o poolcounter.listen=':: ::1' -o poolcounter.tls_port=1 -o tls.cert=/x => poolcounter.listen: :: is every address and includes ::1; remove one
    -o poolcounter.listen='0.0.0.0 ::' => good
    -o poolcounter.listen='0.0.0.0 ::1' => good
    -o poolcounter.socket=$(printf %0107d 1) => good
    -o poolcounter.socket=$(printf %0108d 1) => poolcounter.socket: the path has 108 bytes; the limit is 107
    -o counter.enable=true -o counter.socket=@ => counter.socket: an abstract socket needs a name after the @
    -o counter.enable=true -o counter.socket=/run/x -o poolcounter.socket=/run/x => poolcounter.socket and counter.socket are both /run/x; {set}
    -o counter.socket=/run/x -o poolcounter.socket=/run/x => good
    -o counter.enable=true -o counter.socket=@x -o poolcounter.socket=x => good
    -o poolcounter.tls_port=7532 -o tls.verify_client=require -o poolcounter.socket=@ => poolcounter.tls_port is 7532*/tls.verify_client is require*/poolcounter.socket: an abstract*/poolcounter.tls_port and admin.port are both 7532*
    END

== pools of a file
let joined = the pool is joined, and this option is for static pools: remove it, or set pool.db.kind to static
each text | said
    pool.db.members = db_1, db_2=host:5433\npool.db.on_fail = down\npool.db.hold_max = 1.5\npool.db.max = 2\npool.v.kind = joined\npool.v.min_free = 2\npool.v.max_lifetime = 60\npool.v.lifetime_jitter = 59.9\n | good
    pool.db.kind = any\n | c:1: pool.db.kind: "any" is not one of static or joined
    pool.db.hold_max = never\n | c:1: pool.db.hold_max: "never" {number} 0 to 4294967295 seconds, such as 5 or 0.25
    \npool.db.min_free = 0\n | c:2: pool.db.min_free: the pool is static, and this option is for joined pools: remove it, or set pool.db.kind to joined
    pool.db.kind = joined\npool.db.clean_tries = 1\n | c:2: pool.db.clean_tries: {joined}
    pool.db.kind = joined\npool.db.members = a\n | c:2: pool.db.members: {joined}
    pool.db.kind = joined\npool.db.members_file = /no/such\n | c:2: pool.db.members_file: {joined}
    pool.db.kind = joined\npool.db.max_lifetime = 5\npool.db.lifetime_jitter = 5\n | c:3: pool.db.lifetime_jitter: not below pool.db.max_lifetime
    pool.db.group = @g\n | c:1: pool.db.group: not the name of a group: 1 to 255 bytes without blanks and commas, not - and not beginning with @ or *
    pool.db.members = a, b, a\n | c:1: pool.db.members: "a" is there twice, also in the option members; remove one
    pool.db.members_file = /no/such\n | c:1: pool.db.members_file: /no/such: can't be read: No such file or directory
    pool.db.members = a, b, c\npool.db.max = 2\n | c:2: pool.db.max: 3 members are declared, which is more
    pools.max_members = 2\npool.db.members = a, b, c\n | c:2: pool.db.members: there are more members than pools.max_members, which is 2
    pools.max = 1\npool.a.max = 1\npool.b.max = 1\n | c:3: pool.b.max: there are more pools than pools.max, which is 1
    pools.operators = localhost\n | c:1: pools.operators: "localhost" is not an address or a network*
$ printf '{text}' >c; checks <<'END'
    -f c => {said}
    END

== members of a pool
each list | file | said
    , , | \n\r\n \t \n# nothing\n# | good
    a, b c | # | pool.p.members: "b c" {item}
    a, b=hidden text | # | pool.p.members: "b" {item}
    =hidden | # | pool.p.members: "" {item}
    %0255d | # | good
    %0256d | # | pool.p.members: "0*0..." {item}
    a=%04097d | # | -o pool.p.members=*: longer than 4096 bytes
    a,b,a,b | # | pool.p.members: "a" is there twice, also in the option members; remove one
    a,b,c,d,e,f,g,h,i,j | # | pool.p.members: there are more members than pools.max_members, which is 9
    a | a v word\n | {at}1: {line}
    a | \nb - K=1\n | {at}2: {line}
    a | b - k=1 k=2\n | {at}1: {line}
    a | b - state=dirty\n | {at}1: {line}
    a | b - value=secret\n | {at}1: {line}
    a | c\rb\n | {at}1: {line}
    a | c\0b\n | {at}1: {line}
    a | \x20b\n | {at}1: the line begins with a blank; begin it with the member's name
    a | b\tv\n | {at}1: the line has a tab; put spaces between the words
    a | b\nc state=down\n | {at}2: the value is missing before state= or note=; - stands for none
    a | b note=x\n | {at}1: the value is missing before state= or note=; - stands for none
    a,b | c\nb v\n | {at}2: "b" is there twice, also in the option members; remove one
    z | c\nb v\n\nb w\nc\n | {at}4: "b" is there twice, also in line 2; remove one
    a | A\nab\n | good
    a,b,c,d,e,f,g,h | i\nj\n | {at}2: there are more members than pools.max_members, which is 9
let item = is not a member, NAME or NAME=VALUE, without blanks; a name has at most 255 bytes
let at = pool.p.members_file: m:
let line = not of the form NAME ?VALUE ?KEY=VALUE*, where - is no value, and keys are of a-z, 0-9 and _, each once, at most 16
$ printf '{file}' >m; list=$(printf '{list}'); checks <<'END'
    -o pools.max_members=9 -o "pool.p.members=$list" -o pool.p.members_file=m => {said}
    END

== members of a pool are as the list and the file say
$ printf '\xef\xbb\xbf# databases\ndb_1\r\n\ndb_2 host:5433\ndb_3 - gpu=a100 rack=7 empty=\ndb,4=x  v  note=broken disk=9 state=down \nstate=down' >m
daemon 'pool.p.members=a,b ,,  c=x=y,d=,e=-,' pool.p.members_file={dir}/m
$ counterctl -s {text} pool show p | grep -E '^ *(free|down) ' | sed 's/.* -  *//'
> a
> b
> c
> d
> db,4=x note=broken disk=9
> db_1
> db_2
> db_3 gpu=a100 rack=7
> e
> state=down
c@ {text}
c<= b"".join(b"TAKE p member=%b\n" % m for m in (b"c", b"d", b"e", b"db_1", b"db_2", b"db_3", b"db,4=x"))
c> TAKEN p c {=\d+} x=y
c> TAKEN p d {=\d+} -
c> TAKEN p e {=\d+} -
c> TAKEN p db_1 {=\d+} -
c> TAKEN p db_2 {=\d+} host:5433
c> TAKEN p db_3 {=\d+} - gpu=a100 rack=7
c> TIMEOUT
$ mkfifo fifo; seq 100000 | awk '{ print "m" $1 * 7919 % 100003, "host:" $1, "k=" $1 }' >many; checks <<'END'
    -o pools.max_members=100000 -o pool.p.members_file=many => good
    -o pool.p.members_file=. => pool.p.members_file: .: can't be read: Is a directory
    -o pool.p.members_file=fifo => pool.p.members_file: fifo: can't be read: Not a regular file
    END

== settings of tubes
$ for value in tries tries=x tries=4294967296 tires=3 'tries=3 tries=3' order=lifo remember=31536001 prune=-1 tries=3,prune=4; do
        echo "-o jobs.tube_defaults='$value' => *jobs.tube_defaults: *tries=3*"
    done | checks
each set | are
    tries=3 prune=604800 order=fifo claim=lease limit=9 remember=7 read-only=until Monday, 9:00 | 3 604800 fifo lease 9 until Monday, 9:00 7
    tries=1 | 1 0 priority connection 0  3600
    remember=0 | 0 0 priority connection 0  0
daemon admin.port=0 jobs.enable=true jobs.port=0 'jobs.tube_defaults={set}'
$ ask {admin} <<'END'
    /api/v1/tubes/default tube.settings.tries tube.settings.prune tube.settings.order tube.settings.claim tube.settings.limit tube.settings.read_only tube.settings.remember => 200 {are}
    END

== names of pools
$ checks <<'END'
    -o 'pool.a b.max=3' => -o pool.a b.max: "a b" is not a name of 1 to 64 letters, digits, _ and -
    -o pool..max=3 => -o pool..max: "" is not a name of 1 to 64 letters, digits, _ and -
    -o pool.$(printf %064d 1).max=1 => good
    -o pool.$(printf %065d 1).max=1 => *1" is not a name of 1 to 64 letters, digits, _ and -
    -o pool.a-1_Z.frobnicate=3 => *unknown key "pool.a-1_Z.frobnicate"; counterd --help lists the keys
    -o on_fail=down => -o on_fail: unknown key "on_fail"; did you mean "pool.NAME.on_fail"?
    -o pool.a.min_free=1 => pool.a.min_free: the pool is static*
    -o pool.db.max=2 -o pool.db.members=a,b -o pool.db.max=1 => pool.db.max: 2 members are declared, which is more
    END
$ echo 'pool.db.max = 1' >c; checks <<'END'
    -f c -o pool.db.members=a,b => c:1: pool.db.max: 2 members are declared, which is more
    -f c -o pool.db.members=a,b -o pool.db.max=2 => good
    END
$ for i in {1..25}; do echo "pool.p$i.min_free = 1"; done >c; counterd -t -f c 2>&1 | wc -l
> 20

== pools change with the file
$ cat >base <<'END'
    admin.token = s3cret
    poolcounter.port = 0
    poolcounter.socket = {dir}/s
    admin.port = {port}
    END
$ (cat base; echo 'pool.a.members = x') >c
? 0
d$ counterd -f c 2>log
until ask 127.0.0.1:{port} <<<'/readyz => 200 ready'
let reload = POST /api/v1/reload report | Authorization: Bearer s3cret =>
let a = 127.0.0.1:{port}
$ counterctl -s unix:{dir}/s pool add made >/dev/null
$ printf 'w v\n' >m; while IFS='|' read -r text said; do (cat base; printf "$text") >c; ask {a} <<<"{reload} $said"; done <<'END'
    pool.a.members = x\n|200 ["done: 0 changed, 0 need a restart"]
    pool.a.members = x, y=hidden\npool.b.kind = joined\npools.max_members = 7\n|200 ["pool.a.members has changed","pools.max_members is 7 now; it was 10000","pool.b is new","done: 3 changed, 0 need a restart"]
    pool.b.kind = joined\npools.max_members = 7\n|200 ["pool.a is gone","done: 1 changed, 0 need a restart"]
    pool.b.kind = static\npools.max_members = 8\n|409 ...
    pool.b.kind = joined\npools.max_members = 7\n|200 ["done: 0 changed, 0 need a restart"]
    pool.made.max = 1\n|409 ...
    pool.b.kind = joined\npools.max_members = 7\npool.c.members = x\npool.c.members_file = m\n|200 ["pool.c is new","done: 1 changed, 0 need a restart"]
    END
$ ask {a} <<'END'
    /api/v1/pools/b pool.kind => 200 joined
    /api/v1/pools/c members.0.name members.1.name => 200 w x
    END
$ printf 'w v\ny\n' >m; ask {a} <<'END'
    {reload} 200 ["done: 0 changed, 0 need a restart"]
    /api/v1/pools/c members.# members.2.name => 200 3 y
    END
$ printf 'w v\nx\n' >m; ask {a} <<'END'
    {reload} 409 ...
    /api/v1/pools/c members.# => 200 3
    END
? 0
d signal TERM

== settings change with the file
$ printf '%s\n' 'admin.token = s3cret' 'poolcounter.port = 0' 'admin.port = {port}' >base; cp base c
? 0
d$ counterd -f c 2>log
until ask 127.0.0.1:{port} <<<'/readyz => 200 ready'
let a = 127.0.0.1:{port}
let reload = POST /api/v1/reload report | Authorization: Bearer s3cret =>
let none = 409 ...nothing was changed
let stay = "nothing was changed; the old settings stay in force"]
$ while IFS='|' read -r text said; do (cat base; printf "$text\n") >c; ask {a} <<<"{reload} $said"; done <<'END'
    # the same|200 ["done: 0 changed, 0 need a restart"]
    counter.max_connections = 5\naccess.max_per_source = 9\nlog.level = warning\nadmin.hosts = a.example, b|200 ["counter.max_connections is 5 now; it was 0","access.max_per_source is 9 now; it was 0","admin.hosts is a.example, b now; it was \"\"","log.level is warning now; it was info","done: 4 changed, 0 need a restart"]
    counter.max_connections = 5\ncounter.port = 5\nuser = nobody|200 ["counter.port can't change from 11215 to 5 while counterd runs: restart it","access.max_per_source is 0 now; it was 9",...,"user can't change from \"\" to nobody while counterd runs: restart it","done: 3 changed, 2 need a restart"]
    counter.max_connections = 5\ncounter.port = 5|200 ["counter.port can't change from 11215 to 5 while counterd runs: restart it","done: 0 changed, 1 need a restart"]
    counter.max_connections = 7\nlog.level = loud\nnonsense|{none} ["c:5: log.level: \"loud\" is not one of error, warning, info or debug","c:6: neither \"key = value\" nor a comment",{stay}
    tls.verify_client = require|{none} ["tls.verify_client is require, and there is nothing to verify with; set tls.ca",{stay}
    tls.cert = /no/such/file|{none} ["tls: certificate /no/such/file: No such file or directory",{stay}
    counter.max_connections = 5|200 ["done: 0 changed, 0 need a restart"]
    END
$ (cat base; printf 'access.allow = 127.0.0.0/8'; printf ', 10.0.%d.0/24' {1..99}) >c; ask {a} <<'END'
    {reload} 200 [...,"access.allow is 127.0.0.0/8, 10.0.1.0/24... now; it was \"\"",...]
    POST /api/v1/loglevel?level=debug | Authorization: Bearer s3cret => 200 ...
    {reload} 200 ["log.level is info now; it was debug","done: 1 changed, 0 need a restart"]
    END
$ rm c; for i in 1 2; do ask {a} <<<'{reload} {none} ["c: no such file, and one was read before: put it back",{stay}'; done
$ mkdir c; ask {a} <<<'{reload} {none} ["c: cannot be read: Is a directory",{stay}'
? 0
d signal TERM
? 0
d signal TERM

== a file sets what it says, and the command line goes over it
$ printf 'counter.enable=true\r\n\t counter.buckets \t=\t 5 \t \ncounter.threads = 3# three\ncounter.max_connections = "9" # nine\ncounter.listen = 127.0.0.1 127.0.0.2 # two = too\npid_file = "{dir}/x #y"   # with a blank\nlog.level = "debug"\n   # indented\ngroup =\ncounter.port = 0\nadmin.listen = 127.0.0.3\nadmin.token = hush\npool.NAME.members = db=hush\nlimits.output_buffer = 1M' >c
? 0
d$ exec counterd -f c -o poolcounter.port=1 -l 127.0.0.4 -o ' poolcounter.port = 0 ' -l 127.0.0.5 -o admin.port={port} -o counter.listen=127.0.0.6 -ocounter.stat_interval=9 2>log
until ask 127.0.0.3:{port} <<<'/readyz => 200 ready'
$ ask 127.0.0.3:{port} <<<'/api/v1/config options' | cut -c5- | python3 -c '
    import json, sys
    at = {option["key"]: option for option in json.load(sys.stdin)}
    for key in sys.argv[1:]: print(key, at[key]["value"] or "none", at[key]["is_default"])' \
        counter.enable counter.buckets counter.threads counter.max_connections counter.listen poolcounter.listen poolcounter.port \
        counter.stats_interval pid_file log.level limits.output_buffer group admin.token pool.NAME.members user
> counter.enable true False
> counter.buckets 5 False
> counter.threads 3 False
> counter.max_connections 9 False
> counter.listen 127.0.0.6 False
> poolcounter.listen 127.0.0.4, 127.0.0.5 False
> poolcounter.port 0 False
> counter.stats_interval 9 False
> pid_file {dir}/x #y False
> log.level debug False
> limits.output_buffer 1M False
> group none True
> admin.token (set) False
> pool.NAME.members (set) False
> user none True
? 0
d signal TERM

== keys that only yrmcds has are named once, and their values are not looked at
$ printf 'workers = "10\nport = "a" b\nworkers = many\nport =\nvirtual_ip = 127.0.0.1\nrepl_port = 11213\nbind_ip = 10.0.0.1 10.0.0.2\nmax_connections = 10000\ntemp_dir = "/var/tmp/yrmcds"\nlog.threshold = info\nlog.file = "/var/log/yrmcds.log"\nbuckets = 1000000\nmax_data_size = 10M\nheap_data_limit = 256K\nrepl_buffer_size = 30\ninitial_repl_sleep_delay_usec = 0\nsecure_erase = false\nlock_memory = false\nmemory_limit = 1024M\ngc_interval = 10\nslave_timeout = 10\n' >c; counterd -t -f c
> counterd: options that only yrmcds has are ignored: workers, port, virtual_ip, repl_port, bind_ip, max_connections, temp_dir, log.threshold, log.file, buckets, max_data_size, heap_data_limit, repl_buffer_size, initial_repl_sleep_delay_usec, secure_erase, lock_memory, memory_limit, gc_interval, slave_timeout
> counterd: c is good
$ printf 'counter.enable = true\nworkers = 1\nmemory_limit = 1024M\n' >c; counterd -t -f c | head -n1
> counterd: options that only yrmcds has are ignored: workers, memory_limit; unlike yrmcds, counterd listens only on the addresses of counter.listen: 127.0.0.1, ::1

== a token is the first line of its file
each text | said
    secret | good
    secret\n | good
    secret\r\nmore\n | good
    secret \t\n | good
    %0255d | good
    %0256d | {no}
    \n | {no}
    \nsecret\n | {no}
    \x20secret | {no}
    two words\n | {no}
    \xc3\xa9\n | {no}
    a\0b\n | {no}
let no = admin.token_file: token: its first line is not 1 to 255 printable ASCII characters without blanks
$ printf '{text}' >token; checks <<'END'
    -o admin.token_file=token => {said}
    END
$ mkfifo fifo; checks <<'END'
    -o admin.token_file=none -o admin.token=x => admin.token_file: none: can't be read: No such file or directory
    -o admin.token_file=. => admin.token_file: .: can't be read: Is a directory
    -o admin.token_file=fifo => admin.token_file: fifo: can't be read: Not a regular file
    -o tls.cert=none => tls: certificate none: No such file or directory
    -o tls.cert=token => tls: certificate token: *
    END

== secrets that others can read or write are warned of, after a reload too
each mode | text | options | warned
    644 | x | -o admin.token_file=c | admin.token_file: c can be read by every user of this machine; forbid that with chmod o=
    602 | x | -o admin.token_file=c | admin.token_file: c can be written by every user of this machine; forbid that with chmod o=
    660 | x | -o admin.token_file=c | none
    644 | admin.token = hush | -f c | admin.token: c can be read by every user of this machine; give it the group of counterd and chmod 640
    644 | admin.token = hush | -f c -o admin.token_file=t | admin.token: c can be read by ...
    602 | cluster.password = hush | -f c | cluster.password: c can be written by ...
    644 | # nothing | -f c -o admin.token=hush | none
    640 | admin.token = hush | -f c | none
$ echo hush >t; chmod 600 t; echo '{text}' >c; chmod {mode} c
? 0
d$ exec counterd {options} -o poolcounter.port=0 -o admin.port=0 2>>log
until grep -q 'info: ready' log
$ grep ' by every' log | sed 's/.* warning: //' | grep . || echo none
> {warned}
$ : >log; kill -HUP {dpid}; until grep -q 'done: ' log; do :; done; kill -USR2 {dpid}; until grep -q 'stats: ' log; do :; done; grep ' by every' log | sed 's/.* warning: //' | grep . || echo none
> {warned}
? 0
d signal TERM

== new settings must fit old ones that stay, and sockets that were handed over
each more | socket | reason
    poolcounter.tls_port = 7533 | '' | "poolcounter.tls_port is 7533, and there is no certificate; set tls.cert","the new settings conflict with old ones that only a restart changes; restart counterd to apply all"
    # nothing | poolcounter-tls:{net}:0 | "tls.cert: a listener serves TLS and needs a certificate"
$ certificates; printf '%s\n' 'poolcounter.port = 0' 'poolcounter.listen = {net}' 'admin.port = {port}' 'admin.token = s3cret' >base
$ (cat base; printf '%s\n' 'tls.cert = server.pem' 'tls.key = server.key' '{more}') >c
? 0
d$ handed {socket} counterd -f c 2>log
until ask 127.0.0.1:{port} <<<'/readyz => 200 ready'
$ cp base c; ask 127.0.0.1:{port} <<'END'
    POST /api/v1/reload report | Authorization: Bearer s3cret => 409 ...nothing was changed [{reason},"nothing was changed; the old settings stay in force"]
    END
? 0
d signal TERM

== output that cannot be written is an error
each flag
    -h
    -V
    -t
$ counterd {flag} >/dev/full
! ...No space left on device...
? 2

== a pid file is not written through a link
$ ln -s target pid; counterd -o poolcounter.port=0 -o admin.port=0 -o pid_file=pid
! ...
! ...pid: is a symbolic link...
! ...
? 2
$ [ ! -e target ]

== the variable of upgrades is not for people
$ COUNTERD_UPGRADE='take 99' counterd -o poolcounter.port=0 -o admin.port=0
! ...do not set COUNTERD_UPGRADE by hand...
? 2

== closed standard descriptors do no harm
d$ exec counterd -o poolcounter.port=0 -o admin.port={port} <&- >&- 2>log
until grep -q ' ready' log
$ readlink /proc/{dpid}/fd/0 /proc/{dpid}/fd/1 | uniq
/dev/null
d signal TERM
d? 0
