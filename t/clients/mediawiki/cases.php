<?php

/**
 * What MediaWiki's classes JobQueue and PoolCounter promise, and what clients/mediawiki does beyond that, case by
 * case in one process. Prints a line of JSON for each: its name, and what went wrong or null.
 *
 * T_MW_MORTAL is the process id and the URL of a server that the last cases may kill.
 */

declare(strict_types=1);

use Counterd\Client;
use Counterd\MediaWiki\Clients;
use Counterd\MediaWiki\JobQueue as CounterdQueue;
use Counterd\MediaWiki\PoolCounter as CounterdPool;

require_once getenv('MW_INSTALL_PATH') . '/maintenance/Maintenance.php';

/** Fails a case. */
function check(bool $isSo, string $what): void
{
    if (!$isSo) {
        $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[0];
        throw new LogicException("$what (line {$caller['line']})");
    }
}

function same(mixed $want, mixed $got, string $what): void
{
    if ($want !== $got) {
        $line = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 1)[0]['line'];
        throw new LogicException("$what: " . var_export($got, true) . ' instead of ' . var_export($want, true) .
            " (line $line)");
    }
}

/** Calls, and checks that it throws this class. */
function throws(string $class, callable $call): Throwable
{
    try {
        $call();
    } catch (Throwable $e) {
        same($class, get_class($e), 'thrown: ' . $e->getMessage());
        return $e;
    }
    throw new LogicException("nothing was thrown instead of $class");
}

class Cases extends Maintenance
{
    private int $number = 0;
    private string $type = '';

    public function execute(): void
    {
        foreach ($this->ofQueues() + $this->ofPools() + $this->ofServersGone() as $name => $case) {
            $this->type = 'case' . $this->number++;
            try {
                $case();
                $error = null;
            } catch (Throwable $e) {
                $error = get_class($e) . ': ' . $e->getMessage() . "\n" . $e->getTraceAsString();
            }
            $this->output(json_encode(['case' => $name, 'error' => $error]) . "\n");
        }
    }

    /** A queue of this case. Each has another object, as in MediaWiki's JobQueueGroup. */
    private function queue(array $conf = []): JobQueue
    {
        $services = MediaWiki\MediaWikiServices::getInstance();
        return JobQueue::factory($conf + [
            'class' => CounterdQueue::class,
            'domain' => 'wiki',
            'type' => $this->type,
            'claimTTL' => 3600,
            'wanCache' => new WANObjectCache(['cache' => new HashBagOStuff()]),
            'idGenerator' => $services->getGlobalIdGenerator(),
        ]);
    }

    private function job(array $params = [], ?string $type = null): Job
    {
        return Job::factory($type ?? $this->type, $params);
    }

    /** Pushes jobs with these numbers, or with these parameters. */
    private function push(array $jobs, array $conf = []): void
    {
        $params = static fn ($one) => is_array($one) ? $one : ['n' => $one];
        $this->queue($conf)->push(array_map(fn ($one) => $this->job($params($one)), $jobs));
    }

    /** @return int[] sizes: ready, acquired, delayed, abandoned */
    private function sizes(array $conf = []): array
    {
        $queue = $this->queue($conf);
        return [$queue->getSize(), $queue->getAcquiredCount(), $queue->getDelayedCount(), $queue->getAbandonedCount()];
    }

    /** Pops all there are, acknowledging each. Returns the parameter n of each. */
    private function drain(array $conf = []): array
    {
        $found = [];
        while ($job = $this->queue($conf)->pop()) {
            $found[] = $job->getParams()['n'] ?? null;
            $this->queue($conf)->ack($job);
        }
        return $found;
    }

    private static function numbers(iterable $jobs): array
    {
        $found = [];
        foreach ($jobs as $job) {
            $found[] = $job->getParams()['n'];
        }
        sort($found);
        return $found;
    }

    /** What the process holds would outlive a runner that was killed: lets it go. */
    private static function letGo(): void
    {
        (new ReflectionProperty(CounterdQueue::class, 'popped'))->setValue(null, []);
    }

    /** Polls until it is so. */
    private static function until(callable $isSo, string $what): void
    {
        $end = microtime(true) + 60;
        while (!$isSo()) {
            check(microtime(true) < $end, "not within 60 s: $what");
            usleep(10000);
        }
    }

    private function ofQueues(): array
    {
        $delayed = fn (int $n, int $seconds) => ['n' => $n, 'jobReleaseTimestamp' => time() + $seconds];
        return [
            'a popped job is what was pushed' => function (): void {
                $params = ['n' => 1, 'deep' => ['a' => [1, 2, ['b' => 'c']]], 'requestId' => 'r1', 'null' => null,
                    'text' => "ä\u{1F600}'\"\\", 'bytes' => "\x00\xff\r\n", 'float' => 0.1,
                    'yes' => true, 'no' => false];
                $begun = time();
                foreach ([0, 900, 1024, 2000000] as $size) {
                    $this->push([['large' => str_repeat('w', $size)] + $params]);
                    $job = $this->queue()->pop();
                    check($job instanceof RecordedJob, 'class');
                    same($this->type, $job->getType(), 'type');
                    same($params, array_intersect_key($job->getParams(), $params), 'parameters');
                    same($size, strlen($job->getParams()['large']), 'size');
                    same('r1', $job->getRequestId(), 'request');
                    check((int)$job->getQueuedTimestamp() >= $begun - 1, 'queued');
                    check((int)$job->getReadyTimestamp() <= time() + 1, 'ready');
                }
            },
            'order is fifo' => function (): void {
                $this->push(range(1, 9), ['order' => 'fifo']);
                same(range(1, 9), $this->drain(['order' => 'fifo']), 'order');
                same('fifo', $this->queue(['order' => 'any'])->getOrder(), 'any');
                throws(JobQueueError::class, fn () => $this->queue(['order' => 'random']));
            },
            'duplicates collapse, whatever request made them' => function (): void {
                $params = ['n' => 1, 'removeDuplicates' => true];
                $this->push([$params + ['requestId' => 'a'], ['n' => 2] + $params]);
                $this->push([$params + ['requestId' => 'b']]);
                $conf = ['removeDuplicates' => true, 'removeDuplicatesIgnoreParams' => ['when']];
                foreach ([1, 2] as $when) {
                    $this->queue()->push(new JobSpecification($this->type, ['n' => 3, 'when' => $when], $conf));
                }
                same([1, 2, 3], $this->drain(), 'popped');
            },
            'specifications have a page' => function (): void {
                $page = Title::makeTitle(NS_HELP, 'Some_page');
                $this->queue()->push(new JobSpecification($this->type, [], [], $page));
                same('Help:Some_page', $this->queue()->pop()->getTitle()->getPrefixedDBkey(), 'title');
            },
            'a read-only queue changes nothing' => function (): void {
                $this->push([1]);
                $queue = $this->queue(['readOnlyReason' => 'closed']);
                same('closed', $queue->getReadOnlyReason(), 'reason');
                throws(JobQueueReadOnlyError::class, fn () => $queue->push($this->job()));
                throws(JobQueueReadOnlyError::class, fn () => $queue->pop());
                throws(JobQueueReadOnlyError::class, fn () => $queue->ack($this->job()));
                throws(JobQueueReadOnlyError::class, fn () => $queue->delete());
                same(1, $queue->getSize(), 'size');
                same([1], self::numbers($queue->getAllQueuedJobs()), 'queued');
            },
            'a batch of 2,500' => function (): void {
                $this->push(range(1, 2500));
                same(2500, $this->queue()->getSize(), 'size');
                same(range(1, 2500), self::numbers($this->queue()->getAllQueuedJobs()), 'listed');
                $this->queue()->delete();
            },
            'a root job is registered, and its jobs are no duplicates' => function (): void {
                $root = Job::newRootJobParams('task');
                check((bool)$this->queue()->deduplicateRootJob($this->job($root)), 'registered');
                $this->push([['n' => 1] + $root, ['n' => 2] + $root]);
                check(!$this->queue()->pop() instanceof DuplicateJob, 'no duplicate');
                throws(JobQueueError::class, fn () => $this->queue()->deduplicateRootJob($this->job()));
            },
            'delayed jobs wait' => function () use ($delayed): void {
                check($this->queue()->delayedJobsEnabled(), 'enabled');
                $this->push([$delayed(1, 60), $delayed(2, 1 << 33)]); // of the next century
                same(false, $this->queue()->pop(), 'pop');
                check($this->queue()->isEmpty(), 'empty');
                same([0, 0, 2, 0], $this->sizes(), 'sizes');
                same([1, 2], self::numbers($this->queue()->getAllDelayedJobs()), 'listed');
            },
            'delete takes ready, delayed, acquired and abandoned jobs' => function () use ($delayed): void {
                $conf = ['maxTries' => 1];
                $this->push([1, $delayed(2, 60), 3, 4], $conf);
                $this->queue()->pop();
                self::letGo();
                self::until(fn () => $this->sizes() === [2, 1, 1, 1], 'abandoned');
                $job = $this->queue()->pop();
                $this->queue()->delete();
                same([0, 0, 0, 0], $this->sizes(), 'sizes');
                $this->queue()->ack($job); // quiet
            },
            'a runner gone: tried again, then abandoned' => function (): void {
                $this->push([1]);
                foreach (range(1, 3) as $try) {
                    self::until(fn () => !$this->queue()->isEmpty(), 'back');
                    $job = $this->queue()->pop();
                    same($try, $job->getMetadata('attempts'), 'attempts');
                    unset($job);
                    self::letGo();
                }
                self::until(fn () => $this->sizes() === [0, 1, 0, 1], 'abandoned');
                same(false, $this->queue()->pop(), 'pop');
                same([], self::numbers($this->queue()->getAllAcquiredJobs()), 'acquired');
                foreach ($this->queue()->getAllAbandonedJobs() as $job) {
                    same([1, 3], [$job->getParams()['n'], $job->getMetadata('attempts')], 'listed');
                }
            },
            'claimTTL over: tried again, the first acknowledges nothing' => function (): void {
                $this->push([1], ['claimTTL' => 1]);
                $first = $this->queue()->pop();
                self::until(fn () => $second = $this->queue()->pop(), 'back');
                $this->queue()->ack($first);
                // It may run out again between two of the counts.
                self::until(fn () => array_sum(array_slice($this->sizes(), 0, 2)) === 1, 'still there');
                self::letGo();
            },
            'claimTTL is the ttr, 0 is for ever' => function (): void {
                foreach ([3600 => 3600, 0 => 4294967295] as $claimTTL => $ttr) {
                    $this->push([1], ['claimTTL' => $claimTTL]);
                    $job = $this->queue()->pop();
                    $said = $this->raw('jobs', "stats-job {$job->getMetadata('id')}\r\n");
                    check(str_contains($said, "\nttr: $ttr\n"), "ttr $ttr");
                    $this->queue()->ack($job);
                    $this->queue()->ack($job); // a second time is no error
                }
            },
            'what the server does not take, and objects, are an error' => function (): void {
                $pushes = [
                    fn () => $this->push([1], ['maxTries' => -1]),
                    fn () => $this->push([1], ['claimTTL' => 10000000000]),
                    fn () => $this->push([1, ['deep' => ['object' => new ArrayObject()]]]),
                    fn () => $this->push([['t' => random_bytes(1100000)]]),
                ];
                foreach ($pushes as $push) {
                    throws(JobQueueError::class, $push);
                    check($this->queue()->isEmpty(), 'empty');
                }
            },
            'a job whose class has gone is left out, and put off' => function (): void {
                $this->push(range(1, 11));
                $class = $GLOBALS['wgJobClasses'][$this->type];
                try {
                    unset($GLOBALS['wgJobClasses'][$this->type]);
                    same([], self::numbers($this->queue()->getAllQueuedJobs()), 'listed');
                    same(false, $this->queue()->pop(), 'pop');
                    same([1, 0, 10, 0], $this->sizes(), 'sizes: not all meet it');
                    same([], self::numbers($this->queue()->getAllDelayedJobs()), 'delayed');
                } finally {
                    $GLOBALS['wgJobClasses'][$this->type] = $class;
                }
                same([11], $this->drain(), 'popped when it is back');
                same(range(1, 10), self::numbers($this->queue()->getAllDelayedJobs()), 'listed when it is back');
            },
            'an atomic push is all or nothing' => function (): void {
                $jobs = array_map(fn ($n) => $this->job(['n' => $n]), range(1, 1001));
                throws(JobQueueError::class, fn () => $this->queue()->push($jobs, 1));
                same(0, $this->queue()->getSize(), 'size');
                $this->queue()->push(array_slice($jobs, 1), 1);
                same(1000, $this->queue()->getSize(), 'size');
                $this->queue()->delete();
                $large = array_fill(0, 20, $this->job(['text' => random_bytes(900000)]));
                throws(JobQueueError::class, fn () => $this->queue()->push($large, 1));
                $this->queue()->push($large);
                same(20, $this->queue()->getSize(), 'size');
                $this->queue()->delete();
            },
            'objects are not made from bodies' => function (): void {
                $body = serialize(['type' => $this->type, 'params' => ['n' => 1, 'o' => new ArrayObject()]]);
                Clients::get()->put($this->tube(), $body);
                check($this->queue()->pop()->getParams()['o'] instanceof __PHP_Incomplete_Class, 'no object');
            },
            'a body that is no job is buried' => function (): void {
                $other = serialize(['type' => 'one', 'params' => []]);
                foreach (['nonsense', "\x1f\x8bnonsense", serialize(1), $other] as $bad) {
                    Clients::get()->put($this->tube(), $bad);
                }
                $this->push([1]);
                same(1, count(self::numbers($this->queue()->getAllQueuedJobs())), 'listed');
                same([1], $this->drain(), 'popped');
                same(4, Clients::get()->tube($this->tube())['current-jobs-buried'], 'buried');
            },
            'a body is compressed from 1 KiB on' => function (): void {
                $this->push([['text' => str_repeat('a', 700)], ['text' => str_repeat('a', 1024)]]);
                foreach (Clients::get()->listJobs($this->tube(), 'ready') as $view) {
                    $sizes[] = strlen($view->body);
                }
                check($sizes[0] > 700 && $sizes[1] < 500, implode(' ', $sizes));
            },
            'jobs of a superseded root are never popped' => function (): void {
                $root = ['rootJobTimestamp' => wfTimestamp(TS_MW, time() - 60)] + Job::newRootJobParams('task');
                $newer = ['rootJobTimestamp' => wfTimestamp(TS_MW, time() - 59)] + $root;
                $this->push([['n' => 1] + $root, ['n' => 2] + $root]);
                $this->push([['n' => 3] + $newer]);
                $this->push([['n' => 4] + $root]);
                $this->push([5]);
                same([3, 5], $this->drain(), 'popped');
                same([0, 0, 0, 0], $this->sizes(), 'sizes');
                $double = ['n' => 6, 'removeDuplicates' => true];
                $this->push([$double + $newer]);
                $this->push([$double + Job::newRootJobParams('task')]);
                same([6], $this->drain(), 'a duplicate of another root');
            },
            'a root without a time is none' => function (): void {
                foreach (['', 'yesterday', '19600101000000'] as $time) {
                    $this->push([['n' => 1, 'rootJobSignature' => 'task', 'rootJobTimestamp' => $time]]);
                    same([1], $this->drain(), "popped of '$time'");
                }
            },
            'names of tubes' => function (): void {
                foreach (
                    [
                        ['wiki', 'refreshLinks', 'wiki/refreshLinks'],
                        ['my-wiki_1.x', 'a/b ä$', 'my$2dwiki_1.x/a$2fb$20$c3$a4$24'],
                        ['wiki', str_repeat('x', 195), 'wiki/' . str_repeat('x', 195)],
                        ['wiki', str_repeat('x', 196), 'wiki/' . md5(str_repeat('x', 196))],
                        [str_repeat('-', 60), 'one', md5(str_repeat('-', 60)) . '/one'],
                    ] as $number => [$domain, $type, $tube]
                ) {
                    same($tube, CounterdQueue::tubeOf($domain, $type), 'tube');
                    if ($number < 3) {
                        same([$domain, $type], CounterdQueue::wikiOf($tube), 'wiki');
                    }
                }
                same(null, CounterdQueue::wikiOf('default'), 'not of MediaWiki');
                same(null, CounterdQueue::wikiOf('a/b/c'), 'not of MediaWiki');
            },
            'siblings have sizes' => function (): void {
                $types = array_map(static fn ($n) => "sibling$n", range(1, 1500));
                foreach ($types as $n => $type) { // over the page of `ready`
                    Clients::get()->put(CounterdQueue::tubeOf('farm', $type), 'x');
                }
                Clients::get()->put(CounterdQueue::tubeOf('farm2', 'sibling1'), 'x');
                Clients::get()->put(CounterdQueue::tubeOf('farm', 'sibling7'), 'x');
                Clients::get()->put(CounterdQueue::tubeOf('farm', 'unknown'), 'x');
                $queue = $this->queue(['domain' => 'farm']);
                $sizes = $queue->getSiblingQueueSizes([...$types, 'none']);
                same(1500, count($sizes), 'queues');
                same([2, 1], [$sizes['sibling7'], $sizes['sibling1500']], 'sizes');
                same(['sibling3'], $queue->getSiblingQueuesWithJobs(['sibling3', 'none']), 'with jobs');
            },
            'popped and never acknowledged: at most 500 connections' => function (): void {
                $this->push(range(1, 510));
                foreach (range(1, 510) as $ignored) {
                    $this->queue()->pop();
                }
                same([0, 500, 10, 0], $this->sizes(), 'the first are put off');
                self::letGo();
                $this->queue()->delete();
            },
            'a read-only tube is a read-only queue' => function (): void {
                $this->raw('jobs', "tube {$this->tube()} read-only=maintenance\r\n");
                $e = throws(JobQueueReadOnlyError::class, fn () => $this->queue()->push($this->job()));
                check(str_contains($e->getMessage(), 'maintenance'), $e->getMessage());
            },
            'a queue with a URL of its own' => function (): void {
                [, $url] = explode(' ', getenv('T_MW_MORTAL'));
                $this->queue(['url' => $url])->push($this->job());
                same([0, 1], [$this->queue()->getSize(), $this->queue(['url' => $url])->getSize()], 'sizes');
                check($this->queue()->getCoalesceLocationInternal() !==
                    $this->queue(['url' => $url])->getCoalesceLocationInternal(), 'two places');
            },
        ];
    }

    private function tube(): string
    {
        return CounterdQueue::tubeOf('wiki', $this->type);
    }

    /** Asks the server under test on a bare socket. Returns the answer so far. */
    private function raw(string $protocol, string $request, int $enough = 1)
    {
        preg_match('#//([\d.]+):(\d+)\?.*jobs=(\d+)#', getenv('T_MW_URL'), $found);
        $socket = stream_socket_client("tcp://$found[1]:" . ($protocol === 'jobs' ? $found[3] : $found[2]));
        fwrite($socket, $request . ($protocol === 'jobs' ? "list-tube-used\r\n" : ''));
        $answer = '';
        while (!str_contains($answer, $protocol === 'jobs' ? "USING default\r\n" : "\n")) {
            $answer .= fread($socket, 65536);
        }
        return $protocol === 'jobs' ? $answer : [$answer, $socket];
    }

    private function pool(string $key, array $conf = []): PoolCounter
    {
        return new CounterdPool($conf + ['workers' => 1, 'maxqueue' => 5, 'timeout' => 0], 'Type', $key);
    }

    /** Checks that somebody has the name. */
    private static function checkHeld(string $name, int $workers = 1): void
    {
        throws(Counterd\Busy::class, fn () => Clients::get()->lock($name, workers: $workers, timeout: 0));
    }

    private function ofPools(): array
    {
        return [
            'pool: locked and released' => function (): void {
                foreach (['acquireForMe', 'acquireForAnyone'] as $acquire) {
                    $pool = $this->pool("k$acquire");
                    $status = $pool->$acquire();
                    same([true, PoolCounter::LOCKED], [$status->isGood(), $status->value], $acquire);
                    same(PoolCounter::RELEASED, $pool->release()->value, 'release');
                    same(PoolCounter::NOT_LOCKED, $pool->release()->value, 'released twice');
                }
                same(PoolCounter::NOT_LOCKED, $this->pool('never')->release()->value, 'never locked');
            },
            'pool: timeout' => function (): void {
                $held = Clients::get()->lock('busy');
                $begun = microtime(true);
                foreach (['acquireForMe', 'acquireForAnyone'] as $acquire) {
                    $status = $this->pool('busy', ['timeout' => 60])->$acquire(0);
                    same([true, PoolCounter::TIMEOUT], [$status->isGood(), $status->value], $acquire);
                }
                check(microtime(true) - $begun < 50, 'the timeout of the call');
                $begun = microtime(true);
                same(PoolCounter::TIMEOUT, $this->pool('busy', ['timeout' => 1])->acquireForMe()->value, 'waited');
                check(microtime(true) - $begun >= 0.98, 'the timeout of the configuration');
                $held->release();
                $pool = $this->pool('busy');
                same(PoolCounter::LOCKED, $pool->acquireForAnyone(0)->value, 'free, timeout 0');
                $pool->release();
            },
            'pool: queue full' => function (): void {
                $held = Clients::get()->lock('full');
                $pool = $this->pool('full', ['maxqueue' => 1]);
                same(PoolCounter::QUEUE_FULL, $pool->acquireForMe(5)->value, 'for me');
                same(PoolCounter::QUEUE_FULL, $pool->acquireForAnyone(5)->value, 'for anyone');
            },
            'pool: as many workers as configured' => function (): void {
                $held = Clients::get()->lock('two', workers: 2);
                $pool = $this->pool('two', ['workers' => 2]);
                same(PoolCounter::LOCKED, $pool->acquireForMe()->value, 'the second');
                self::checkHeld('two', 2);
                $pool->release();
            },
            'pool: one lock in a process, but for nowait' => function (): void {
                $pool = $this->pool('outer');
                $pool->acquireForMe();
                $status = $this->pool('inner')->acquireForMe();
                check(!$status->isOK() && $status->hasMessage('poolcounter-usage-error'), 'a second one');
                $nowait = $this->pool('nowait:a');
                same(PoolCounter::LOCKED, $nowait->acquireForMe()->value, 'nowait');
                same(PoolCounter::LOCK_HELD, $nowait->acquireForMe()->value, 'nowait, held already');
                $nowait->release();
                $pool->release();
                $other = $this->pool('inner');
                same(PoolCounter::LOCKED, $other->acquireForMe()->value, 'when the first is released');
                $other->release();
                check(!$this->pool('nowait:b', ['timeout' => 1])->acquireForMe()->isOK(), 'nowait with a timeout');
            },
            'pool: names on the wire' => function (): void {
                [$answer, $socket] = $this->raw('text', "ACQ4ME wiki:page%201:\u{e4} 1 5 0\n");
                same("LOCKED\n", $answer, 'bare');
                same(PoolCounter::TIMEOUT, $this->pool("wiki:page 1:\u{e4}")->acquireForMe()->value, 'the same name');
                fclose($socket);
            },
            'pool: slots and stale results' => function (): void {
                $pool = $this->pool('any', ['slots' => 1, 'fastStale' => true]);
                same(['Type:0', true], [$pool->getKey(), $pool->isFastStaleEnabled()], 'key');
                $pool->acquireForMe();
                self::checkHeld('Type:0');
                $pool->release();
            },
            'pool: MediaWiki makes it and works with it' => function (): void {
                $pool = PoolCounter::factory('ArticleView', 'work');
                check($pool instanceof CounterdPool, 'class');
                $do = fn (string $type, callable $work, array $more = []) =>
                    (new PoolCounterWorkViaCallback($type, 'work', ['doWork' => $work] + $more))->execute();
                $work = function (): string {
                    self::checkHeld('work');
                    return 'done';
                };
                same('done', $do('ArticleView', $work), 'work');
                throws(RuntimeException::class, fn () => $do('ArticleView', fn () => throw new RuntimeException('no')));
                $held = Clients::get()->lock('work', timeout: 0); // it was released
                global $wgPoolCounterConf;
                $conf = ['class' => CounterdPool::class, 'workers' => 1, 'timeout' => 0];
                $error = ['error' => fn ($status) => $status->getErrors()[0]['message']];
                $wgPoolCounterConf['Short'] = ['maxqueue' => 9] + $conf;
                same('slow', $do('Short', $work, ['fallback' => fn ($fast) => $fast ? 'fast' : 'slow']), 'fallback');
                same('pool-timeout', $do('Short', $work, $error), 'error');
                $wgPoolCounterConf['Short'] = ['maxqueue' => 1] + $conf;
                same('pool-queuefull', $do('Short', $work, $error), 'error');
            },
            'pool: what another one has done meanwhile is not done again' => function (): void {
                [, $socket] = $this->raw('text', "ACQ4ANY done 1 5 0\n");
                pcntl_async_signals(true);
                pcntl_signal(SIGALRM, function () use ($socket): void {
                    if ($this->raw('text', "STATS waiting_workers\n")[0] === "waiting_workers: 1\n") {
                        fwrite($socket, "RELEASE done\n");
                    } else {
                        pcntl_alarm(1); // we do not wait yet
                    }
                });
                pcntl_alarm(1);
                $status = $this->pool('done', ['timeout' => 60])->acquireForAnyone();
                same([true, PoolCounter::DONE], [$status->isGood(), $status->value], 'for anyone');
                pcntl_signal(SIGALRM, SIG_DFL);
            },
            'pool: servers as in $wgPoolCountClientConf' => function (): void {
                global $wgCounterdUrl;
                $clients = new ReflectionProperty(Clients::class, 'clients');
                $use = function (array $conf) use ($clients): void {
                    $GLOBALS['wgPoolCountClientConf'] = $conf;
                    $clients->setValue(null, []);
                };
                // MediaWiki's own client hashes a server as it is written, and ::1 as well.
                $ordered = function (array $servers, string $key): array {
                    usort($servers, fn ($a, $b) => strcmp(md5($a . $key), md5($b . $key)));
                    return $servers;
                };
                $port = parse_url($wgCounterdUrl)['port'];
                try {
                    $wgCounterdUrl = null;
                    $servers = ["127.0.0.1:$port", "localhost:$port", '127.0.0.1:1'];
                    $use(['servers' => $servers, 'timeout' => 0.5]);
                    foreach (range(1, 20) as $number) {
                        $order = array_values(array_diff($ordered($servers, "key $number"), ['127.0.0.1:1']));
                        same($order[0], Clients::get()->lock("key $number")->server, "server of key $number");
                    }
                    throws(JobQueueError::class, fn () => $this->queue()->pop()); // several servers, none for jobs
                    $servers = ['127.0.0.1:1', '::1', '[::1]:2'];
                    $use(['servers' => $servers, 'connect_timeout' => 0.25]);
                    $status = $this->pool('conf')->acquireForMe();
                    check(!$status->isOK() && $status->hasMessage('pool-servererror'), 'no server');
                    foreach (range(1, 20) as $number) {
                        $e = throws(Counterd\Unreachable::class, fn () => Clients::get()->lock("key $number"));
                        $order = $ordered($servers, "key $number");
                        same(end($order), $e->server, "the last server of key $number");
                    }
                } finally {
                    $wgCounterdUrl = getenv('T_MW_URL');
                    $clients->setValue(null, []);
                }
            },
        ];
    }

    /** The last ones: they kill the server of T_MW_MORTAL. */
    private function ofServersGone(): array
    {
        [$pid, $url] = explode(' ', getenv('T_MW_MORTAL') ?: ' ');
        $mortal = static function () use ($url): void {
            $GLOBALS['wgCounterdUrl'] = $url;
            (new ReflectionProperty(Clients::class, 'clients'))->setValue(null, []);
        };
        return [
            'gone: a lock that was lost is not locked' => function () use ($mortal, $pid): void {
                $mortal();
                $this->queue()->push([$this->job(), $this->job()]);
                $pool = $this->pool('lost');
                same(PoolCounter::LOCKED, $pool->acquireForMe()->value, 'locked');
                posix_kill((int)$pid, SIGKILL);
                self::until(fn () => !@stream_socket_client('tcp://' . parse_url($GLOBALS['wgCounterdUrl'])['host'] .
                    ':' . parse_url($GLOBALS['wgCounterdUrl'])['port']), 'the server has gone');
                $status = $pool->release();
                same([true, PoolCounter::NOT_LOCKED], [$status->isGood(), $status->value], 'release');
            },
            'gone: a pool says so, and MediaWiki works' => function () use ($mortal): void {
                $mortal();
                $pool = $this->pool('away');
                foreach (['acquireForMe', 'acquireForAnyone'] as $acquire) {
                    $status = $pool->$acquire(0);
                    check(!$status->isOK() && $status->hasMessage('pool-servererror'), $acquire);
                    check(str_contains($status->getWikiText(false, false, 'en'), 'not available'), 'message');
                }
                $work = new PoolCounterWorkViaCallback('ArticleView', 'away', ['doWork' => fn () => 'done']);
                same('done', $work->execute(), 'work');
            },
            'gone: each call of a queue is an error' => function () use ($mortal): void {
                $mortal();
                $job = $this->job();
                $job->setMetadata('id', 1);
                $job->setMetadata('token', 2);
                foreach (
                    [
                        fn ($q) => $q->push($this->job()), fn ($q) => $q->pop(), fn ($q) => $q->ack($job),
                        fn ($q) => $q->isEmpty(), fn ($q) => $q->getSize(), fn ($q) => $q->getAcquiredCount(),
                        fn ($q) => $q->getDelayedCount(), fn ($q) => $q->getAbandonedCount(), fn ($q) => $q->delete(),
                        fn ($q) => iterator_to_array($q->getAllQueuedJobs()),
                        fn ($q) => iterator_to_array($q->getAllAbandonedJobs()),
                        fn ($q) => $q->getSiblingQueueSizes(['one']), fn ($q) => $q->getSiblingQueuesWithJobs(['one']),
                    ] as $call
                ) {
                    throws(JobQueueError::class, fn () => $call($this->queue()));
                }
            },
        ];
    }
}

$maintClass = Cases::class;
require_once RUN_MAINTENANCE_IF_MAIN;
