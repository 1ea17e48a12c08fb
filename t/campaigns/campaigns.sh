# campaigns.sh - the long tests of ./dev, which sources this file: fuzz, simulate, check-history,
# mutants, soak, and torture NAME. Each is a function here (torture_NAME for a torture); t/README.md describes
# them. Each ends the script or returns with its own exit status, so ./dev prints no report after it.

torture_packages=(python3 python3-pytest iproute2 util-linux redis-server)
fuzz_packages=(clang libclang-rt-14-dev)
fuzz_coverage_packages=(clang libclang-rt-14-dev llvm)

# made_plain PROGRAM...: builds these test programs in the plain build.
made_plain() {
    need "${build_packages[@]}" "${test_packages[@]}"
    configured build CFLAGS='-O2 -g'
    make -s -C build -j"$jobs" "$@"
}

# asks_for_help TEXT ARGUMENT...: true if an argument is -h or --help; prints TEXT then.
asks_for_help() {
    local text=$1
    shift
    case " $* " in
    *" -h "* | *" --help "*) printf 'usage: ./dev %s\n' "$text" ;;
    *) return 1 ;;
    esac
}

simulate() {
    ! asks_for_help 'simulate [--seeds N] [--seed N]
N runs (1,000) with consecutive seeds; --seed alone: one run with this seed' "$@" || return 0
    made_plain t/campaigns/simulate/simulate
    exec build/t/campaigns/simulate/simulate "$@"
}

torture_memory() {
    made_plain t/campaigns/simulate/admin
    build/t/campaigns/simulate/admin "$@"
}

check_history() {
    ! asks_for_help 'check-history [N]: N histories (200); T_SEED has the seed of the first' "$@" || return 0
    made_plain counterd t/campaigns/history/check
    COUNTERD=$PWD/build/counterd TOP_BUILDDIR=$PWD/build T_HISTORIES=${1:-200} \
        exec /usr/bin/python3 -B t/campaigns/history/test_history.py -k explains
}

mutants() {
    need_for_tests clang python3-clang
    configured build CFLAGS='-O2 -g'
    exec /usr/bin/python3 -B t/mutants/mutants.py "$@"
}

soak() {
    need "${build_packages[@]}" "${torture_packages[@]}"
    build
    COUNTERD=$PWD/build/counterd COUNTERCTL=$PWD/build/counterctl COUNTERBENCH=$PWD/build/counterbench \
        TOP_BUILDDIR=$PWD/build exec /usr/bin/python3 -B t/campaigns/torture/soak.py "$@"
}

fuzz_harnesses=(codecs options admin text-service binary-service job-service client)
# The longest generated inputs; longer messages reach no further code.
fuzz_max_len=600

# The parsers: the corpora must reach nearly all of their code. ./dev coverage measures other code.
fuzz_parsers=(proto/line.c proto/grammar.c proto/poolcounter.c proto/pools.c proto/pools_replies.c proto/counter.c
    proto/beanstalk.c proto/beanstalk_replies.c
    src/daemon/config_file.c src/daemon/command_line.c
    src/daemon/options.c src/base/option_value.c src/daemon/option_quotes.c src/daemon/options_fit.c src/net/query.c src/base/text.c src/admin/hosts.c
    src/cluster/url.c src/cluster/patterns.c)

fuzz_built() {
    need "${build_packages[@]}" "${fuzz_packages[@]}"
    configured build/fuzzing CC=clang --enable-sanitize=address,undefined,fuzzer-no-link \
        CFLAGS="-O2 -g -fsanitize-coverage-ignorelist=$PWD/fuzz/unwatched"
    make -s -C build/fuzzing -j"$jobs" LDFLAGS=-fsanitize=fuzzer "${fuzz_harnesses[@]/#/fuzz/}"
    make -s -C build/fuzzing -j"$jobs" t/vectors/run
    fuzz_vectors build/fuzzing
}

# fuzz_vectors BUILD: writes the vectors as inputs of the harness codecs, into BUILD/vectors.
fuzz_vectors() {
    rm -rf "$1/vectors"
    mkdir -p "$1/vectors"
    TOP_SRCDIR=$PWD "$1/t/vectors/run" --seeds "$1/vectors" >/dev/null
}

# fuzz_one HARNESS RUNS SECONDS SEED: keeps inputs that reach new code in build/fuzzing/work.
fuzz_one() {
    local harness=$1 runs=$2 seconds=$3 seed=$4 work=build/fuzzing/work/$1 log=build/fuzzing/$1.log status=0
    local from=("$work" "fuzz/corpus/$harness")
    [ "$harness" != codecs ] || from+=(build/fuzzing/vectors)
    [ ! -f "fuzz/dictionaries/$harness" ] || from+=("-dict=fuzz/dictionaries/$harness")
    mkdir -p "$work" "build/fuzzing/found/$harness"
    say "== $harness: --seed $seed"
    ASAN_OPTIONS=quarantine_size_mb=8:detect_leaks=1 "build/fuzzing/fuzz/$harness" \
        -max_len=$fuzz_max_len -timeout=60 -seed="$seed" \
        -runs="$runs" -max_total_time="$seconds" -print_final_stats=1 \
        -artifact_prefix="build/fuzzing/found/$harness/" "${from[@]}" >"$log" 2>&1 || status=$?
    local inputs
    inputs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")
    fuzz_runs=$((fuzz_runs + ${inputs:-0}))
    if [ $status = 0 ] && [ -n "$inputs" ]; then
        say "== $harness: $inputs inputs, nothing found"
    else
        grep -vE '^#[0-9]+' "$log" | tail -n 60 >&2
        say "== $harness: found something after ${inputs:-0} inputs; the whole log: $log"
        fuzz_found=$((fuzz_found + 1))
    fi
}

fuzz() {
    local runs='' seconds=0 seed=$((RANDOM * 32768 + RANDOM)) chosen=() harness
    case ${1:-} in
    coverage | corpus)
        [ $# = 1 ] || { say "./dev fuzz $1 takes no arguments"; exit 2; }
        "fuzz_$1"
        return
        ;;
    -h | --help)
        printf '%s\n' './dev fuzz [HARNESS...] [--runs N] [--seconds S] [--seed N], or coverage, or corpus' \
            "harnesses: ${fuzz_harnesses[*]} (all)" \
            '--runs N       inputs for each (20000, or as many as the seconds allow)' \
            '--seconds S    time limit for each'
        return
        ;;
    esac
    while [ $# -gt 0 ]; do
        case $1 in
        --runs | --seconds | --seed)
            [[ ${2:-} =~ ^[0-9]+$ ]] || { say "$1 needs a number"; exit 2; }
            printf -v "${1#--}" %s "$2"
            shift 2
            ;;
        *)
            [[ " ${fuzz_harnesses[*]} " == *" $1 "* ]] ||
                { say "no such harness: $1; the harnesses are ${fuzz_harnesses[*]}"; exit 2; }
            chosen+=("$1")
            shift
            ;;
        esac
    done
    [ -n "$runs" ] || { [ "$seconds" = 0 ] && runs=20000 || runs=-1; }
    [ ${#chosen[@]} -gt 0 ] || chosen=("${fuzz_harnesses[@]}")
    fuzz_built
    local fuzz_runs=0 fuzz_found=0
    for harness in "${chosen[@]}"; do
        fuzz_one "$harness" "$runs" "$seconds" "$seed"
    done
    printf '%d harnesses, %d inputs, %d with findings (--seed %d)\n' ${#chosen[@]} $fuzz_runs $fuzz_found "$seed"
    [ $fuzz_found = 0 ]
}

# Minimises the corpora: keeps the fewest and shortest inputs, from the corpora and from earlier runs,
# that reach the same code.
fuzz_corpus() {
    local harness kept
    fuzz_built
    for harness in "${fuzz_harnesses[@]}"; do
        kept=build/fuzzing/kept/$harness
        rm -rf "$kept"
        mkdir -p "$kept" "build/fuzzing/work/$harness"
        [ "$harness" != codecs ] || cp build/fuzzing/vectors/* "$kept"
        "build/fuzzing/fuzz/$harness" -merge=1 -use_counters=0 -max_len=$fuzz_max_len "$kept" \
            "fuzz/corpus/$harness" "build/fuzzing/work/$harness" >"build/fuzzing/$harness.log" 2>&1
        rm -rf "fuzz/corpus/$harness"
        mkdir "fuzz/corpus/$harness"
        (cd "$kept" && for file in *; do [[ $file == *.vec-* ]] || cp "$file" "$OLDPWD/fuzz/corpus/$harness/${file:0:16}"; done)
        say "$harness: $(find "fuzz/corpus/$harness" -type f | wc -l) inputs"
    done
}

fuzz_coverage() {
    need "${build_packages[@]}" "${fuzz_coverage_packages[@]}"
    configured build/fuzzing-coverage CC=clang CFLAGS='-O0 -g -fprofile-instr-generate -fcoverage-mapping'
    make -s -C build/fuzzing-coverage -j"$jobs" "${fuzz_harnesses[@]/#/fuzz/}" t/vectors/run
    fuzz_vectors build/fuzzing-coverage
    local harness programs=()
    for harness in "${fuzz_harnesses[@]}"; do
        local from=("fuzz/corpus/$harness")
        [ "$harness" != codecs ] || from+=(build/fuzzing-coverage/vectors)
        LLVM_PROFILE_FILE=$PWD/build/fuzzing-coverage/$harness.profraw TOP_SRCDIR=$PWD \
            "build/fuzzing-coverage/fuzz/$harness" "${from[@]}" >/dev/null
        programs+=(-object "build/fuzzing-coverage/fuzz/$harness")
    done
    llvm-profdata merge -o build/fuzzing-coverage/all.profdata build/fuzzing-coverage/*.profraw
    llvm-cov show "${programs[@]:1}" -instr-profile=build/fuzzing-coverage/all.profdata \
        -show-branches=count "${fuzz_parsers[@]}" >build/fuzzing-coverage/lines.txt 2>/dev/null
    llvm-cov report "${programs[@]:1}" -instr-profile=build/fuzzing-coverage/all.profdata \
        -show-branch-summary "${fuzz_parsers[@]}" 2>/dev/null
    say 'line by line: build/fuzzing-coverage/lines.txt'
}

torture_stories() {
    need "${build_packages[@]}" python3
    configured build/asan --enable-sanitize=address,undefined CFLAGS='-Og -g1'
    if [ "${1:-}" = --daemon ]; then
        shift
        make -s -C build/asan -j"$jobs" counterd t/scenario/calls
        export COUNTERD=$PWD/build/asan/counterd TOP_BUILDDIR=$PWD/build/asan
        exec /usr/bin/python3 -B t/scenario/real.py --all "$@"
    fi
    make -s -C build/asan -j"$jobs" t/scenario/fakenet
    FAKENET=$PWD/build/asan/t/scenario/fakenet exec python3 -B t/scenario/modes.py "$@"
}

torture_planted-pools() {
    need "${build_packages[@]}" check patch python3 python3-pytest
    TOP_BUILDDIR=$PWD/build exec /usr/bin/python3 -B t/campaigns/pools/planted.py "$@"
}

torture_planted-jobs() {
    torture_planted-pools --in jobs "$@"
}

torture_planted-history() {
    torture_planted-pools --in history "$@"
}

torture_planted-nodes() {
    torture_planted-pools --in cluster/nodes "$@"
}

# Several nodes of a cluster over the engine in memory.
torture_cluster-nodes() {
    need "${build_packages[@]}" liblua5.1-0-dev
    build
    make -s -C build -j"$jobs" t/campaigns/cluster/simulate
    [ $# -gt 0 ] || set -- --seeds 2000
    exec build/t/campaigns/cluster/simulate "$@"
}

torture_planted-scripts() {
    need redis-server
    torture_planted-pools --in cluster "$@"
}

# Runs the function torture_NAME.
torture() {
    local name=${1:-}
    if [ -z "$name" ] || ! declare -F "torture_$name" >/dev/null; then
        say "./dev torture NAME [OPTION...], of these:" \
            "$(declare -F | sed -nE 's/^declare -f torture_//p' | tr '\n' ' ')"
        exit 2
    fi
    shift
    "torture_$name" "$@"
}
