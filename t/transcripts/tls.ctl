# The way to the server over TLS.
until certificates
daemon poolcounter.tls_port={port} tls.cert={dir}/server.pem tls.key={dir}/server.key tls.ca={dir}/ca.pem
let over = -s {tls} --tls --ca ca.pem --tls-name counter.example

== name and chain are verified
$ counterctl {over} run k -- echo ran
ran
$ counterctl -s {tls} --tls --ca server.pem --tls-name counter.example run k -- echo ran
ran

== a certificate that is not accepted
each options | why
    --ca ca.pem | its certificate is not accepted
    --ca ca.pem --tls-name other.example | its certificate is not accepted
    --tls-name counter.example | its certificate is not accepted
    --tls-name counter.example --ca other.pem | its certificate is not accepted
    --tls-name counter.example --ca none.pem | --ca
$ counterctl -s {tls} --tls {options} run k -- echo ran
! counterctl: ...{why}...
? 69

== a certificate of ours
stop
daemon poolcounter.tls_port={port} tls.cert={dir}/server.pem tls.key={dir}/server.key tls.ca={dir}/ca.pem tls.verify_client=require
$ counterctl {over} --cert c.pem --key c.key run k -- echo ran
ran
$ counterctl {over} run k -- echo ran
! counterctl: ...
? 69
$ counterctl {over} --cert c.pem --key server.key run k -- echo ran
! counterctl: ...--key...
? 69

== the files of TLS are read again but not for each try
# cannot: upgrade reload because it takes files away
$ counterctl -s {play} --tls --ca ca.pem work --jobs=4 tube -- true
s accept
s close
until rm ca.pem
s2 accept
s2 close
! ...
! counterctl: ...--ca...
signal TERM
! ...
? 143

== TLS where there is none
$ counterctl -s {text} --tls --connect-timeout 2 run k -- true
! counterctl: ...TLS...
? 69

== a lock over TLS is lost as any
$ counterctl {over} run --strict k -- sh -c 'echo ready; exec sleep 1000'
ready
kill daemon
! counterctl: ...gets TERM...
? 79

== a policy of the system does no harm to the test of the library
each policy
    VerifyMode = Require
    MaxProtocol = TLSv1.2\nCipherString = ECDHE-RSA-AES256-GCM-SHA384
$ printf 'openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\n{policy}\n' >policy
$ OPENSSL_CONF=policy counterd -t -o poolcounter.tls_port=7 -o tls.cert=server.pem -o tls.key=server.key
...
