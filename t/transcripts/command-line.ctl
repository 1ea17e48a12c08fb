# The command line: what is refused, and what becomes of options that are taken.

== a wrong command line gets a message
$ while IFS='|' read -r words why; do
        eval "counterctl $words" >out 2>err </dev/null
        status=$? said=$(<err)
        [[ $status = 64 && ! -s out && $said = 'counterctl: '*"$why"* && $said != *$'\n'* ]] || echo "$words: $(cat out err)"
    done <<'END'
    dmup|did you mean dump?
    connection|did you mean connections?
    xyzzy|lists them
    $'\e[1m'|\x1b[1m
    --json|no command
    get --sever x|did you mean --server?
    get --xyzzy|no such option: --xyzzy
    get -Z|no such option: -Z
    kill --token=x 0.0.0|list of processes
    get --json=yes k|takes no value
    get k --server|needs a value
    get k -s|needs a value
    get --any k|get takes no --any
    --any get k|get takes no --any
    get|is missing
    get a b|too many
    run k|COMMAND are missing
    run k true|too many arguments before "--"
    run k --|no COMMAND follows
    run -- true|is missing
    get k --ca f|need --tls
    get k --tls --key f|--key needs --cert
    get k --tls --insecure|no such option: --insecure
    run k --workers 0 -- x|from 1 to 4294967295
    run k --workers 4294967296 -- x|from 1 to
    run k -w '' -- x|from 1 to
    run k -w 2x -- x|"2x"
    run k -t -1 -- x|number of seconds
    run k -t 1e3 -- x|number of seconds
    run k -t . -- x|number of seconds
    run k -t '' -- x|number of seconds
    run k -t ' 1' -- x|number of seconds
    run k -t '1 ' -- x|number of seconds
    run k -t 1.2.3 -- x|number of seconds
    run k -t 4294967296 -- x|number of seconds
    get k --io-timeout 0|above 0
    get k --io-timeout none|above 0
    dump --sort size|none, name, in-use, peak
    dump --limit 0|from 1
    run --pool p key -- x|too many arguments
    run --pool p --any -- x|not for --pool
    run key --env X -- x|need --pool
    clean p --pool p -- x|takes no --pool
    work t --workers 2 -- x|need --lock
    work t --lock-server h -- x|need --lock
    work t|COMMAND are missing
    work -- x|is missing
    put t --tries 0|from 1
    put t --key k|need --tls
    member p --ready|need "--" and COMMAND
    -s :7531 get k|no host
    -s '[]:1' get k|no host
    -s host: get k|port
    -s host:0 get k|1 to 65535
    -s host:65536 get k|1 to 65535
    -s host:99999999999999999999 get k|1 to 65535
    -s host:7a get k|1 to 65535
    -s host:-1 get k|1 to 65535
    -s '[::1' get k|brackets
    -s '[::1]7531' get k|brackets
    -s unix: get k|path
    -s unix:@ get k|path
    -s 'a b' get k|0x20
    -s http://host get k|port
    -s host/path get k|0x2f
    -s 'host?tls=0' get k|0x3f
    -s host,other get k|0x2c
    -s unix:$(printf %0108d) get k|longer
    -s $(printf %0256d) get k|longer
    END

== what run asks for
# cannot: lost because it ends as its command then
each options | asked
    key | ACQ4ME key 1 100
    -w 3 key -Q9 -a --timeout 0.5 | ACQ4ANY key 3 9 0.5
    --workers=3 --queue=9 --any key -qt 0 | ACQ4ANY key 3 9 0
    key -t .5 | ACQ4ME key 1 100 0.5
    key -t 5. | ACQ4ME key 1 100 5
    key -t 0.000000001 | ACQ4ME key 1 100 0.000000001
    key -t 4294967295.9 | ACQ4ME key 1 100 4294967295
    key -t none | ACQ4ME key 1 100
    -e 'a\x62c' | ACQ4ME abc 1 100
    'a\x62c' | ACQ4ME a\x62c 1 100
$ counterctl -s {play} run {options} -- echo ran -x --any --
s> {asked}{=( 4294967295)?}
s< LOCKED
> ran -x --any --
s> RELEASE ...
s< RELEASED

== dashes let a name begin with one
daemon
$ counterctl -s {binary} get -- -name
! counterctl: ...Not found...
? 1
$ counterctl -s {binary} get -
! counterctl: ...Not found...
? 1

== addresses as they are shown
each given | shown
    [::1]:2 | [::1]:2
    127.0.0.1:2 | 127.0.0.1:2
    unix:/no/such/socket | unix:/no/such/socket
    unix:@no-such | unix:@no-such
    unix:/no/$(printf %100s|tr ' ' x) | unix:/no/xxx...
$ counterctl -s {given} get k
! counterctl: can't connect to {shown}: ...
? 69
$ counterctl -s {given} run k -- true
! counterctl: can't connect to {shown}: ...
? 69

== ports are those of the protocol unless they are given
each command | port
    get k | 11215
    run k -- true | 7531
    jobs | 11300
$ counterctl -s {net} {command}
! ...{net}:{port}...
? 69

== names are shown as they are where that is safe
daemon
$ while read -r line; do echo "get $line"; done <<'END' | counterctl -s {binary} batch --json | sed 's/.*"name":"//; s/","id.*//'
    enwiki:pcache:1
    a\x20b
    gr\xc3\xbc\xc3\x9f\xe4\xb8\xad\xf0\x9f\x94\x92
    a\x0ab\x7f\x1b[31m
    back\\slash\\x41
    \xff\xfe
    cut\xe4\xb8
    \xc0\xaf\xe0\x80\xaf
    \xed\xa0\x80\xf4\x90\x80\x80
    c1\xc2\x9b
    \xe2\x80\xaex\xe2\x80\xa8
    \xAf\x00
    END
enwiki:pcache:1
a b
grüß中🔒
a\\x0ab\\x7f\\x1b[31m
back\\\\slash\\\\x41
\\xff\\xfe
cut\\xe4\\xb8
\\xc0\\xaf\\xe0\\x80\\xaf
\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80
c1\\xc2\\x9b
\\xe2\\x80\\xaex\\xe2\\x80\\xa8
\\xaf\\x00
$ counterctl -s {binary} get $'a\nb\xff\\\xe2\x80\xae'
! counterctl: ...Not found
? 1

== escapes that are wrong
daemon
$ printf 'get %s\n' '\' 'a\' '\n' 'ab\x' '\x1' '\xg0' '\\\' '\x0g' | counterctl -s {binary} batch | grep -o 'character [0-9]*'
character 1
character 2
character 1
character 3
character 1
character 1
character 3
character 1
