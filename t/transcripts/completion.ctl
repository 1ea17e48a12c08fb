# What bash and zsh offer for a line that is being typed. manual.py checks that they know every word.
until cat >cases <<'END'
    log|loglevel
    d|dump
    re|release reload
    --ver|--version
    loglevel |debug error info warning
    loglevel w|warning
    help no|noop
    -s h:1 con|config connections contended
    -s h:1 top --by |peak refused waiting
    dump --so|--sort
    dump --sort=p|peak
    dump --sort in|in-use
    run --str|--strict
    run --pool p --fail|--fail-on
    run --pool p --fail-on non|nonzero
    clean p --jo|--jobs
    pool |add drop list member set show watch
    pool member |add drop set
    put t --un|--unique
    work t --lock-s|--lock-server
    jobs |backup clear drain export import kick list peek tubes
    jobs list t b|buried
    cluster |acl check
    cluster acl --d|--db
    kill --str|
    run --workers |
    run --workers 2 k --an|--any
    -s h:1 run --any k --workers 2 --str|--strict
    END

== bash offers what can follow
$ source {top}/conf/completion/counterctl
    while IFS='|' read -r line offered; do
        words=(counterctl ${line//=/ = }); case $line in *' ') words+=('') ;; esac
        COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMPREPLY=(); _counterctl
        echo "$line|$(echo $(printf '%s\n' "${COMPREPLY[@]}" | sort -u))"
    done <cases | diff cases -
    COMP_WORDS=(counterctl run --workers 2 --any k -- /usr/bin/en) COMP_CWORD=7; _counterctl; printf '%s\n' "${COMPREPLY[@]}"
...
/usr/bin/env
...

== zsh offers what can follow
# This compadd writes down what zsh would list, for each line when the editor begins.
$ command -v zsh >/dev/null || exit 0
    cat >.zshrc <<'END'
    fpath=({top}/conf/completion $fpath); autoload -Uz compinit; compinit -u -D
    compadd() {
        local -a found; builtin compadd -O found "$@" 2>/dev/null
        print -l -- $found >>offered; builtin compadd "$@"
    }
    zle -C offer list-choices _main_complete
    offer-all() {
        for line in "${(@f)$(cut -d'|' -f1 cases)}" 'run --workers 2 --any k -- /usr/bin/en'; do
            : >offered; BUFFER="counterctl $line"; CURSOR=$#BUFFER; zle offer
            print -r -- "$line|$(echo $(sort -u offered))" >>all
        done
        exit
    }
    zle -N zle-line-init offer-all
    END
    ZDOTDIR=$PWD TERM=dumb script -qc 'zsh -d -i' /dev/null </dev/null >/dev/null
    tail -n1 all | grep -q ' env ' || tail -n1 all
    head -n-1 all | diff cases -
