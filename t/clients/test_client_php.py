"""
The PHP client beside its stories: its style, its package, its examples, and what one process alone
shows: signals, children that live on, what it remembers of servers that are down.
"""

import json
import os
import re
import shutil

import programs
from programs import EXAMPLES, JOBS, TOP, run, url
import tap
import pytest

import certificates
import servers
from conftest import start  # noqa: F401: a fixture

FOLDER = os.environ.get("COUNTERD_PHP") or os.path.join(TOP, "clients", "php")
PHP = shutil.which("php")
pytestmark = pytest.mark.skipif(PHP is None, reason="php is not installed")
APCU = ("-d", "apc.enable_cli=1")
needs_apcu = pytest.mark.skipif("apcu" not in run(PHP or "true", "-m").split(), reason="apcu is not installed")
# A handler of errors that many programs have: a warning, even a silenced one, would be thrown.
BEGIN = """<?php
declare(strict_types=1);
require '%s/autoload.php';
use Counterd\\{Client, CounterError, Job, Lost, NewJob, Unreachable, Usage, Worker};
set_error_handler(function ($number, $text) { throw new ErrorException($text); });
function show(mixed $what): void { echo json_encode($what), "\\n"; }
function fails(callable $call): string { try { $call(); return ''; } catch (CounterError $e) { return substr(get_class($e), 9); } }
""" % FOLDER


def script(tmp_path, code, *args, options=(), before=()):
    """What a program of these lines shows: its JSON lines."""
    path = tmp_path / "program.php"
    path.write_text(BEGIN + code)
    out = run(*before, PHP, "-d", "display_errors=stderr", *options, str(path), *args)
    return [json.loads(line) for line in out.splitlines()]


def test_composer_installs_it_without_a_network(tmp_path):
    if not shutil.which("composer"):
        pytest.skip("composer is not installed")
    ours = {"type": "path", "url": FOLDER, "options": {"symlink": False}}
    wanted = {"repositories": [ours, {"packagist.org": False}], "require": {"counterd/counterd": "*"}}
    (tmp_path / "composer.json").write_text(json.dumps(wanted))
    run("composer", "install", "--no-interaction", "--no-progress", folder=tmp_path, COMPOSER_DISABLE_NETWORK="1",
        COMPOSER_ALLOW_SUPERUSER="1", COMPOSER_HOME=str(tmp_path / "home"))  # fmt: skip
    code = (
        "require 'vendor/autoload.php';"
        "try { (new Counterd\\Client('counter://127.0.0.1:1'))->lock('k'); }"
        "catch (Counterd\\Unreachable $e) { echo get_class($e), (new Counterd\\Busy('b'))->getMessage(); }"
    )
    assert run(PHP, "-r", code, folder=tmp_path) == "Counterd\\Unreachableb"


def test_examples_print_what_the_readme_says(start):
    daemon = start(*JOBS)
    programs.add_gpu(daemon, "g0 /dev/0")
    rows = re.findall(r"^\| `php examples/(\w+)\.php`[^|]*\| (.*) \|$", programs.read(FOLDER, "README.md"), re.M)
    assert tuple(name for name, _ in rows) == EXAMPLES
    for name, says in rows:
        out = run(PHP, os.path.join(FOLDER, "examples", name + ".php"), COUNTER_URL=url(daemon))
        assert out.splitlines() == re.findall(r"`([^`]*)`", says.partition(", when")[0]), name


def test_code_of_the_readme_is_php(tmp_path):
    for block in programs.blocks("php", "php"):
        (tmp_path / "block.php").write_text("<?php\n" + block)
        run(PHP, "-l", str(tmp_path / "block.php"))


def test_options_have_the_names_of_the_url_or_those_of_php(tmp_path):
    code = """
    $o = new Counterd\\Options('counter://a?io_timeout=0.5', ['ioTimeout' => 3, 'connect_timeout' => 2]);
    show([$o->ioTimeout, $o->connectTimeout]);
    foreach ([['io_timeout' => NAN], ['idle' => []], ['tls' => 2], ['tlsCa' => 1], ['nope' => 1]] as $more) {
        show(fails(fn() => new Client('counter://a', null, ...$more)));
    }
    foreach ([['s'], ['s', '1'], ['', 1], ['s', NAN]] as $root) { show(fails(fn() => new NewJob('x', root: $root))); }
    """
    assert script(tmp_path, code) == [[3, 2], *9 * ["Usage"]]


def test_a_hold_that_is_forgotten_after_its_server_died_says_nothing(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    $client = new Client($argv[1]);
    $client->put('t', 'x');
    $holds = [$client->lock('k'), $client->units('u', 2, 5), $client->claim(['t'])];
    posix_kill((int) $argv[2], SIGKILL);
    while (!$holds[0]->isLost() || !$holds[1]->isLost()) { usleep(1000); }
    show([fails(fn() => $holds[0]->release()), fails(fn() => $holds[1]->release()), fails(fn() => $holds[0]->release())]);
    $more = [$client->put(...), $client];
    unset($holds, $client, $more);
    show('the end');
    """
    daemon.is_expected_to_be_gone = True
    assert script(tmp_path, code, url(daemon), str(daemon.pid)) == [["Lost", "Lost", ""], "the end"]


def test_what_a_hook_throws_is_dropped(start, tmp_path):
    code = """
    $client = new Client($argv[1], function () { throw new Exception('of the hook'); });
    $client->lock('k')->release();
    show(fails(fn() => $client->claim(['t'], timeout: 0)));
    """
    assert script(tmp_path, code, url(start(*JOBS))) == [""]


def test_a_signal_is_handled_while_a_call_waits_and_does_not_end_it(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    pcntl_async_signals(true);
    $handled = [];
    pcntl_signal(SIGALRM, function () use (&$handled) { $handled[] = hrtime(true) / 1e9; });
    $client = new Client($argv[1]);
    $lock = $client->lock('k');
    pcntl_alarm(1);
    $begin = hrtime(true) / 1e9;
    show([fails(fn() => $client->lock('k', timeout: 6))]);
    $end = hrtime(true) / 1e9;
    show([count($handled), $end - $begin > 3]);
    """
    assert script(tmp_path, code, url(daemon)) == [["Busy"], [1, True]]


def test_what_a_handler_of_signals_throws_ends_the_wait(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    pcntl_async_signals(true);
    pcntl_signal(SIGALRM, function () { throw new LogicException('enough'); });
    $client = new Client($argv[1]);
    $lock = $client->lock('k');
    try { pcntl_alarm(1); $client->lock('k', timeout: 60); } catch (LogicException $e) { show($e->getMessage()); }
    $lock->release();
    $client->lock('k', timeout: 20)->release();
    show(trigger_error_is_ours());
    function trigger_error_is_ours() { try { return 1 / count([]); } catch (Throwable) {}
        try { trigger_error('x'); return false; } catch (ErrorException) { return true; } }
    """
    assert script(tmp_path, code, url(daemon)) == ["enough", True]


def test_what_is_thrown_while_it_writes_or_reads_leaves_the_programs_handler_of_errors(tmp_path):
    code = """
    class Thrower {
        public $context;
        function stream_open() { return true; }
        function stream_read($size) { throw new LogicException('as a handler of signals does'); }
        function stream_write($data) { throw new LogicException('as a handler of signals does'); }
        function stream_eof() { return false; }
        function stream_set_option() { return false; }
    }
    stream_wrapper_register('thrower', Thrower::class);
    fails(fn() => (new Client('counter://127.0.0.1:1'))->lock('k'));
    $class = new ReflectionClass(Counterd\\Connection::class);
    $one = $class->newInstanceWithoutConstructor();
    $options = new Counterd\\Options('counter://a', ['tls' => true]);
    $class->getConstructor()->invoke($one, fopen('thrower://x', 'r+'), 'a', 'text', $options);
    $mine = set_error_handler(null);
    set_error_handler($mine);
    foreach ([fn() => $one->write('x'), fn() => $one->isFresh()] as $call) {
        try { $call(); show('nothing was thrown'); } catch (LogicException) {}
        show(set_error_handler(null) === $mine);
        restore_error_handler();
    }
    """
    assert script(tmp_path, code) == [True, True]


def test_a_child_that_lives_on_and_uses_the_client_keeps_no_lock(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    $client = new Client($argv[1]);
    $client->usage('k');
    $lock = $client->lock('k');
    if (($pid = pcntl_fork()) === 0) {
        $client->usage('k');
        touch($argv[2]);
        sleep(60);
        exit(0);
    }
    while (!file_exists($argv[2])) { usleep(10000); clearstatcache(); }
    unset($lock);
    $client->lock('k', timeout: 20)->release();
    posix_kill($pid, SIGKILL);
    pcntl_waitpid($pid, $status);
    show('free');
    """
    assert script(tmp_path, code, url(daemon), str(tmp_path / "used")) == ["free"]


@needs_apcu
def test_processes_share_in_apcu_which_servers_are_down(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    $told = [];
    $tell = function ($event) use (&$told) { $told[] = $event->kind; };
    $servers = [$argv[1], $argv[2]];
    for ($i = 0; Client::serversFor($name = "k$i", $servers)[0] !== $argv[2]; $i++) {}
    $open = fn() => new Client('counter://' . implode(',', $servers), $tell, down_seconds: 5);
    if (pcntl_fork() === 0) {
        $open()->lock($name);
        show($told);
        exit(0);
    }
    pcntl_wait($status);
    $open()->lock($name);
    show($told);
    usleep(5100000);
    $told = [];
    $open()->lock($name);
    $open()->lock($name);
    show($told);
    """
    down = "127.0.0.1:%d" % servers.free_port()
    first, second, third = script(tmp_path, code, "%s:%d" % daemon.text, down, options=APCU)
    assert first[0] == "down" and "connect" in first
    assert "down" not in second and "connect" in second
    assert third.count("connect") == 2, "one call tries the server, the other one passes it over"


@needs_apcu
def test_sites_of_one_apcu_share_nothing_of_other_ports_and_certificates(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    [$_, $host, $right, $wrong] = $argv;
    $servers = ["$host", "localhost"];
    for ($i = 0; Client::serversFor($name = "k$i", $servers)[0] !== $host; $i++) {}
    $at = 'counter://' . implode(',', $servers);
    $told = [];
    $client = new Client("$at?binary=$right", function ($event) use (&$told) { $told[] = $event->kind; });
    show([fails(fn() => (new Client("$at?binary=$wrong"))->units($name, 1, 1)),
        fails(fn() => (new Client("$at?binary=$right&tls=1"))->units($name, 1, 1)),
        $client->units($name, 1, 1)->server, $told]);
    """
    args = (daemon.binary[0], str(daemon.binary[1]), str(servers.free_port()))
    found = script(tmp_path, code, *args, options=APCU)
    assert found == [["Unreachable", "Unreachable", daemon.binary[0], ["connect", "wait"]]]


def test_the_certificate_of_the_server_itself_can_be_the_one_to_trust(start, tmp_path):
    own = certificates.Authority(tmp_path)
    port = servers.free_port()
    start(*JOBS, "tls.cert=" + own.cert, "tls.key=" + own.key, "poolcounter.tls_port=%d" % port)
    code = "(new Client($argv[1], tls_ca: $argv[2], tls_name: 'ca'))->lock('k')->release(); show('ok');"
    assert script(tmp_path, code, "counter://127.0.0.1:%d?tls=1" % port, own.cert) == ["ok"]


def test_php_cannot_wait_for_a_descriptor_over_fd_setsize(start, tmp_path):
    """The server is not to blame."""
    code = """
    $told = [];
    $client = new Client($argv[1], function ($event) use (&$told) { $told[] = $event->kind; }, connect_timeout: 100);
    $held = $client->lock('k'); // It has the connection.
    try { for ($i = 0; $i < 1100; $i++) { $files[] = fopen('/dev/null', 'r'); } } catch (ErrorException) {}
    try { $client->lock('j'); } catch (Unreachable $e) { show([$e->reason, $e->sent, in_array('down', $told)]); }
    """
    [[reason, *rest]] = script(tmp_path, code, url(start(*JOBS)))
    assert "FD_SETSIZE" in reason and rest == [False, False]


def test_values_for_the_server_are_text_or_integers(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    $client = new Client($argv[1]);
    foreach ([[1], null, true, 1.5] as $bad) {
        show([fails(fn() => $client->member('p', attrs: ['a' => $bad], timeout: 0)),
            fails(fn() => $client->tube('t', read_only: $bad)), fails(fn() => $client->tube('t', limit: $bad))]);
    }
    show(fails(fn() => $client->member('p', attrs: ['a' => 1], timeout: 0)));
    """
    assert script(tmp_path, code, url(daemon)) == 4 * [3 * ["Usage"]] + ["NotFound"]


def test_times_are_sent_in_full_whatever_the_precision_of_numbers(start, tmp_path):
    code = """
    $client = new Client($argv[1]);
    $client->put('t', 'x', delay: 0);
    show([array_keys($client->ready('t', timeout: 123456)), count($client->claim(['t'], timeout: 123456.5))]);
    """
    assert script(tmp_path, code, url(start(*JOBS)), options=("-d", "precision=3")) == [[["t"], 1]]


def test_a_handler_that_renews_late_has_its_ttr(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    $client = new Client($argv[1], io_timeout: 0.3);
    $client->putMany('t', [new NewJob('keep', ttr: 600), new NewJob('renew', ttr: 600), new NewJob('no', ttr: 600)]);
    $worker = new Worker($client, ['t'], function (Job $job) use (&$worker) {
        usleep(700000);
        $job->body === 'keep' ? show($job->keep()) : null;
        $job->body === 'renew' ? $job->renew() : null;
        $job->body === 'no' ? $worker->stop() : null;
    });
    $worker->run();
    show(fails(fn() => $client->tube('t')));
    """
    assert script(tmp_path, code, url(daemon)) == [True, "NotFound"]


def test_a_worker_keeps_no_job_while_it_claims(start, tmp_path):
    code = """
    pcntl_async_signals(true);
    $client = new Client($argv[1]);
    $client->put('t', 'x');
    $worker = new Worker($client, ['t'], function (Job $job) use (&$last) {
        $last = WeakReference::create($job);
        pcntl_alarm(1); // It claims for 2 s then.
    });
    pcntl_signal(SIGALRM, function () use (&$last, $worker) { show($last->get() === null); $worker->stop(); });
    $worker->run();
    """
    assert script(tmp_path, code, url(start(*JOBS))) == [True]


def test_a_worker_tells_its_own_hook(start, tmp_path):
    daemon = start(*JOBS)
    code = """
    $told = [];
    $client = new Client($argv[1], function ($e) use (&$told) { $told[] = "client $e->kind"; });
    $client->put('t', 'x');
    $worker = new Worker($client, ['t'], function () use (&$worker) { $worker->stop(); throw new Exception('no'); },
        backoff: fn(int $tries) => 77.0, onEvent: function ($e) use (&$told) {
            $told[] = "worker $e->kind $e->result " . $e->error?->getMessage(); });
    show($worker->run(signals: false));
    show([$client->tube('t')['current-jobs-delayed'], in_array('worker job nack no', $told), in_array('client job', $told)]);
    """
    assert script(tmp_path, code, url(daemon)) == [0, [1, True, False]]


if __name__ == "__main__":
    tap.main(__file__)
