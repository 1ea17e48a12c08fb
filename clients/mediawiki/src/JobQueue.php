<?php

declare(strict_types=1);

namespace Counterd\MediaWiki;

use Closure;
use Counterd\Client;
use Counterd\CounterError;
use Counterd\Job;
use Counterd\Lost;
use Counterd\NewJob;
use Counterd\NotFound;
use Iterator;
use MediaWiki\JobQueue\Exceptions\JobQueueError;
use MediaWiki\JobQueue\Exceptions\JobQueueReadOnlyError;
use MediaWiki\JobQueue\IJobSpecification;
use MediaWiki\JobQueue\JobQueue as MediaWikiJobQueue;
use MediaWiki\JobQueue\RunnableJob;
use MediaWiki\Logger\LoggerFactory;
use Throwable;

use function Wikimedia\base_convert;

/**
 * A queue of MediaWiki's jobs that is a tube of counterd: the `class` of an entry of $wgJobTypeConf.
 *
 * The process that pops a job keeps its connection until the job is acknowledged. What it has not acknowledged when it
 * ends in order has failed, and waits before its next run; if it is killed, the next runner gets the job at once. In a
 * tube with `claim=lease` it gets it after claimTTL, and any process may acknowledge the job by its metadata.
 */
class JobQueue extends MediaWikiJobQueue
{
    /** What one put_many may have. */
    private const BATCH_JOBS = 1000;
    private const BATCH_BYTES = 16 << 20;
    private const RECORD_BYTES = 256; // no less than the line of a job there
    private const COMPRESS_BYTES = 1024; // longer bodies are compressed
    private const TTR_MAX = 4294967295; // of claimTTL 0, which stands for ever
    private const POPPED_MAX = 500; // jobs of a process, each with a connection: those that failed stay popped
    private const PAGE = 1000;
    private const BACKOFF_MAX = 3600;
    private const SKIPPED_MAX = 10; // in one pop: what keeps jobs from being made may end soon

    /** @var array<string, array{self, Job}> what this process has popped and not acknowledged, by id and token */
    private static array $popped = [];
    private static bool $isEndWatched = false;

    private ?string $url;
    private float $backoff;
    private ?bool $isLease = null;
    private string $tube;

    /**
     * @param array $params those of MediaWiki's class; `url`: the server, if it is not the one that Clients::get()
     *     knows; `backoff`: seconds before the second run of a job that failed, doubled for each further one
     * @throws JobQueueError if the order is not supported
     */
    public function __construct(array $params)
    {
        parent::__construct($params + ['idGenerator' => null]);
        $this->url = $params['url'] ?? null;
        $this->backoff = (float)($params['backoff'] ?? 30);
        $this->tube = self::tubeOf($this->domain, $this->type);
    }

    /** Returns the tube that has the jobs of a type of a wiki. */
    public static function tubeOf(string $domain, string $type): string
    {
        $prefix = self::prefixOf($domain);
        $name = $prefix . self::encode($type);
        return strlen($name) <= 200 ? $name : $prefix . md5($type);
    }

    /** Returns what the tubes of a wiki begin with. */
    public static function prefixOf(string $domain): string
    {
        $name = self::encode($domain);
        return (strlen($name) <= 160 ? $name : md5($domain)) . '/';
    }

    /** Returns the domain and type of a tube, or null if it is not MediaWiki's. Not for names that are hashes. */
    public static function wikiOf(string $tube): ?array
    {
        $byte = static fn (array $found): string => (string)hex2bin($found[1]);
        $decode = static fn (string $part): string => preg_replace_callback('/\$([0-9a-f]{2})/', $byte, $part);
        return preg_match('#^[\w.$]+/[\w.$]+$#D', $tube) ? array_map($decode, explode('/', $tube)) : null;
    }

    private static function encode(string $text): string
    {
        $escape = static fn (array $byte): string => '$' . bin2hex($byte[0]);
        return preg_replace_callback('/[^A-Za-z0-9_.]/', $escape, $text);
    }

    protected function supportedOrders(): array
    {
        return ['fifo', 'timestamp'];
    }

    protected function optimalOrder(): string
    {
        return 'fifo';
    }

    protected function supportsDelayedJobs(): bool
    {
        return true;
    }

    protected function doIsEmpty(): bool
    {
        return $this->ask(fn (Client $client) => $client->ready($this->tube, limit: 1)) === [];
    }

    protected function doGetSize(): int
    {
        return $this->count('ready');
    }

    protected function doGetAcquiredCount(): int
    {
        return $this->count('reserved', 'abandoned');
    }

    protected function doGetDelayedCount(): int
    {
        return $this->count('delayed');
    }

    protected function doGetAbandonedCount(): int
    {
        return $this->count('abandoned');
    }

    private function count(string ...$states): int
    {
        $tube = $this->ask(fn (Client $client) => $client->tube($this->tube), []);
        return array_sum(array_map(static fn ($state) => $tube["current-jobs-$state"] ?? 0, $states));
    }

    protected function doBatchPush(array $jobs, $flags): void
    {
        $batches = [[]];
        $bytes = 0;
        foreach ($jobs as $job) {
            $new = $this->ask(fn () => $this->newJob($job));
            $bytes += strlen($new->body) + self::RECORD_BYTES;
            if (count(end($batches)) === self::BATCH_JOBS || ($bytes > self::BATCH_BYTES && end($batches))) {
                $batches[] = [];
                $bytes = strlen($new->body) + self::RECORD_BYTES;
            }
            $batches[array_key_last($batches)][] = $new;
        }
        if (($flags & self::QOS_ATOMIC) && count($batches) > 1) {
            throw new JobQueueError("Counterd cannot push so much to tube {$this->tube} as one: at most " .
                self::BATCH_JOBS . ' jobs and ' . self::BATCH_BYTES . ' bytes.');
        }
        foreach ($batches as $batch) {
            $puts = $this->ask(fn (Client $client) => $client->putMany($this->tube, $batch));
            $duplicates = count(array_filter($puts, static fn ($put) => $put->duplicate));
            $this->incrStats('inserts', $this->type, count($puts));
            $this->incrStats('dupe_inserts', $this->type, $duplicates);
        }
    }

    private function newJob(IJobSpecification $job): NewJob
    {
        $params = $job->getParams();
        array_walk_recursive($params, function (mixed $value, int|string $name): void {
            if (!is_scalar($value) && $value !== null) {
                throw new JobQueueError("Counterd cannot push a job of type {$this->type}: its parameter $name is " .
                    get_debug_type($value) . ', and only arrays and scalars can be stored.');
            }
        });
        $body = serialize(['type' => $job->getType(), 'params' => $params, 'timestamp' => time()]);
        $packed = strlen($body) >= self::COMPRESS_BYTES ? gzencode($body) : $body;
        $release = $job->getReleaseTimestamp();
        return new NewJob(
            strlen($packed) < strlen($body) ? $packed : $body,
            delay: $release ? min(self::TTR_MAX, max(0.0, (int)$release - microtime(true))) : 0.0,
            ttr: (float)($this->claimTTL > 0 ? $this->claimTTL : self::TTR_MAX),
            key: $job->ignoreDuplicates()
                ? base_convert(sha1(serialize($job->getDeduplicationInfo())), 16, 36, 31)
                : null,
            root: $this->rootOf($job),
            tries: (int)$this->maxTries
        );
    }

    /** @return array{string, int}|null the signature and time of the root job */
    private function rootOf(IJobSpecification $job): ?array
    {
        $root = $job->hasRootJobParams() ? $job->getRootJobParams() : null;
        $time = $root ? wfTimestamp(TS_UNIX, $root['rootJobTimestamp']) : false;
        if ($time === false || $time < 0) {
            return null;
        }
        $signature = (string)$root['rootJobSignature'];
        $isName = preg_match('#^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,63}$#D', $signature);
        return [$isName ? $signature : md5($signature), (int)$time];
    }

    protected function doPop()
    {
        for ($left = self::SKIPPED_MAX; $left > 0; $left--) {
            $claimed = $this->ask(fn (Client $client) => $client->claim([$this->tube], timeout: 0))[0] ?? null;
            if (!$claimed) {
                return false;
            }
            $this->incrStats('pops', $this->type);
            $known = ['id' => $claimed->id, 'token' => $claimed->token, 'attempts' => $claimed->tries];
            $job = $this->jobOf($claimed->body, $known);
            if ($job) {
                $this->keep($claimed);
                return $job;
            }
            if ($job === false) {
                $this->putOff($claimed);
                continue;
            }
            // Nobody could run it: out of the way, for somebody to look at.
            $this->log("buried job $claimed->id: its body is not a job of type {$this->type}");
            $this->ask(fn () => $claimed->bury());
        }
        return false;
    }

    /** Keeps a job until it is acknowledged, or the process ends. */
    private function keep(Job $claimed): void
    {
        self::$popped["$claimed->id $claimed->token"] = [$this, $claimed];
        if (count(self::$popped) > self::POPPED_MAX) {
            [$queue, $first] = array_shift(self::$popped);
            $queue->putOff($first);
        }
        if (!self::$isEndWatched) {
            self::$isEndWatched = true;
            register_shutdown_function(static function (): void {
                foreach (self::$popped as [$queue, $claimed]) {
                    if (!$queue->putOff($claimed)) {
                        break; // each further one might wait for the server, too
                    }
                }
            });
        }
    }

    /**
     * Gives back a job that failed, to be run again later. In a tube of leases another process may be about to
     * acknowledge it, so it stays until its time is over.
     *
     * @return bool false: the server does not answer. The job is back when its connection or its time ends.
     */
    private function putOff(Job $claimed): bool
    {
        try {
            $this->isLease ??= Clients::get($this->url)->tube($this->tube)['claim'] === 'lease';
            if (!$this->isLease) {
                $claimed->nack(min(self::BACKOFF_MAX, $this->backoff * 2 ** min($claimed->tries - 1, 12)));
            }
        } catch (Lost | NotFound) {
            // It has run out of time, or was deleted.
        } catch (CounterError $e) {
            $this->log("job $claimed->id could not be put off: {$e->getMessage()}");
            return false;
        }
        return true;
    }

    /**
     * @param array $metadata what MediaWiki's job is to know of the one in the tube
     * @return RunnableJob|false|null null: the body is not a job of this type; false: MediaWiki cannot make it, as when
     *     the extension that has its class is switched off
     */
    private function jobOf(string $body, array $metadata): RunnableJob|false|null
    {
        $text = str_starts_with($body, "\x1f\x8b") ? @gzdecode($body) : $body;
        $fields = is_string($text) ? @unserialize($text, ['allowed_classes' => false]) : null;
        if (!is_array($fields) || ($fields['type'] ?? null) !== $this->type || !is_array($fields['params'] ?? null)) {
            return null;
        }
        try {
            $job = $this->factoryJob($this->type, $fields['params']);
        } catch (Throwable $e) {
            $this->log("job {$metadata['id']} cannot be made: {$e->getMessage()}");
            return false;
        }
        foreach ($metadata + ['timestamp' => $fields['timestamp'] ?? null] as $field => $value) {
            $job->setMetadata($field, $value);
        }
        return $job;
    }

    protected function doAck(RunnableJob $job): void
    {
        $id = $job->getMetadata('id');
        $token = $job->getMetadata('token');
        if ($id === null || $token === null) {
            throw new JobQueueError("A job of type {$this->type} has no id and token, so it is not from counterd.");
        }
        $claimed = self::$popped["$id $token"][1] ?? null;
        unset(self::$popped["$id $token"]);
        $this->ask(function (Client $client) use ($claimed, $id, $token): void {
            try {
                $claimed ? $claimed->ack() : $client->ackByToken((int)$id, (int)$token, $this->tube);
                $this->incrStats('acks', $this->type);
            } catch (Lost $e) {
                $this->log("job $id ran out of time before its end, so it may run again: {$e->getMessage()}");
            }
        });
    }

    protected function doDeduplicateRootJob(IJobSpecification $job): bool
    {
        if (!$job->hasRootJobParams()) {
            throw new JobQueueError('Cannot register root job; missing parameters.');
        }
        return true; // the push has registered it
    }

    protected function doIsRootJobOldDuplicate(IJobSpecification $job): bool
    {
        return false; // the server hands out none
    }

    protected function doDelete(): void
    {
        foreach (['all', 'reserved'] as $state) { // `all` leaves out what is reserved
            $this->ask(fn (Client $client) => $client->clear($this->tube, $state));
        }
    }

    public function getAllQueuedJobs(): Iterator
    {
        return $this->jobsIn('ready');
    }

    public function getAllDelayedJobs(): Iterator
    {
        return $this->jobsIn('delayed');
    }

    public function getAllAcquiredJobs(): Iterator
    {
        return $this->jobsIn('reserved');
    }

    public function getAllAbandonedJobs(): Iterator
    {
        return $this->jobsIn('abandoned');
    }

    private function jobsIn(string $state): Iterator
    {
        $views = $this->ask(fn (Client $client) => $client->listJobs($this->tube, $state));
        while ($this->ask(fn () => $views->valid())) { // asks for a page where it needs one
            $view = $views->current();
            $job = $this->jobOf($view->body ?? '', ['id' => $view->id, 'attempts' => $view->tries]);
            if ($job) {
                yield $job;
            }
            $this->ask(fn () => $views->next());
        }
    }

    public function getCoalesceLocationInternal(): string
    {
        return 'counterd ' . ($this->url ?? '');
    }

    protected function doGetSiblingQueuesWithJobs(array $types): array
    {
        return array_keys($this->doGetSiblingQueueSizes($types));
    }

    /** The sizes of those that have jobs to hand out: the cost is that of these, not of all types. */
    protected function doGetSiblingQueueSizes(array $types): array
    {
        $typeOf = [];
        foreach ($types as $type) {
            $typeOf[self::tubeOf($this->domain, $type)] = $type;
        }
        $sizes = [];
        $pattern = self::prefixOf($this->domain) . '*';
        $after = '';
        do {
            $page = $this->ask(fn (Client $client) => $client->ready($pattern, after: $after, limit: self::PAGE));
            foreach (array_intersect_key($page, $typeOf) as $tube => $size) {
                $sizes[$typeOf[$tube]] = $size;
            }
            $after = (string)array_key_last($page);
        } while (count($page) === self::PAGE);
        return $sizes;
    }

    /**
     * Asks the server. A tube that it does not know has no jobs: then returns `$unknown`.
     *
     * @throws JobQueueError if the server refuses or cannot be asked
     */
    private function ask(Closure $call, mixed $unknown = null): mixed
    {
        try {
            return $call(Clients::get($this->url));
        } catch (NotFound) {
            return $unknown;
        } catch (CounterError $e) {
            $class = str_starts_with($e->answer, 'READ_ONLY') ? JobQueueReadOnlyError::class : JobQueueError::class;
            throw new $class("Tube {$this->tube}: {$e->getMessage()}", 0, $e);
        }
    }

    private function log(string $message): void
    {
        LoggerFactory::getInstance('Counterd')->warning('Tube {tube}: ' . $message, ['tube' => $this->tube]);
    }
}
