# The manuals, the sample file and the completions have what the programs have, and nothing else: manual.py.
== manuals, sample and completions
daemon admin.port=0 pool.NAME.max=0 jobs.enable=true jobs.port=0 jobs.path={dir}/jobs.db
c@ {text}
c< TAKE NAME with=k=v
c> TIMEOUT
c< POOL ADD {"\ kind=joined
c> OK
c< POOL ADD one
c> OK
c< MEMBER ADD one m
c> OK
$ python3 {top}/t/transcripts/manual.py {top} {admin}
