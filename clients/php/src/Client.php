<?php

declare(strict_types=1);

namespace Counterd;

/**
 * A client of counterd: one for a process. Making one connects to nothing.
 *
 * Times are seconds, with fractions. Every call may throw Usage, Failed (no answer) and what its text names.
 */
final class Client
{
    private const PUT = 'JOB_TOO_BIG EXPECTED_CRLF DRAINING READ_ONLY TUBE_FULL';
    private const STATES = ['ready', 'delayed', 'reserved', 'buried', 'abandoned', 'all'];
    private const BATCH = 16 << 20;
    private Connections $connections;

    /**
     * @param ?string $url counter://HOST[:PORT][,HOST...][/][?K=V...]; none: $COUNTER_URL, else counter://127.0.0.1
     * @param ?callable(Event): mixed $onEvent is told what happens
     * @param mixed ...$parameters those of the URL, by name: io_timeout: 5
     * @throws Usage
     */
    public function __construct(?string $url = null, ?callable $onEvent = null, mixed ...$parameters)
    {
        $onEvent = $onEvent ? $onEvent(...) : null;
        $this->connections = new Connections(new Options($url, $parameters), $onEvent);
    }

    /**
     * Takes one of $workers locks of this name.
     *
     * @param ?int $queue holders and waiters at most; none: $workers + 100
     * @param float $timeout how long to wait; 0: not at all
     * @param bool $shared if another one does the work meanwhile, that is enough: then the lock is `done`
     * @throws Busy|QueueFull|Draining|EngineAway|NoMemory
     */
    public function lock(
        string $name,
        int $workers = 1,
        ?int $queue = null,
        float $timeout = 10,
        bool $shared = false
    ): Lock {
        $sent = self::name($name);
        $queue ??= min($workers + 100, 4294967295);
        Text::range($workers, 1, 4294967295, 'workers');
        Text::range($queue, 1, 4294967295, 'queue');
        Text::seconds($timeout, 'timeout');
        $line = ($shared ? 'ACQ4ANY' : 'ACQ4ME') . " $sent $workers $queue ";
        $talk = function (Connection $one, float $left) use ($line, $name, $sent, $shared): Lock {
            $answer = $one->ask($line . Text::milliseconds($left) . "\n", Wire::TEXT_LINE, "\n", $left);
            $word = explode(' ', $answer, 2)[0];
            if ($word === 'LOCKED' || ($word === 'DONE' && $shared)) {
                $held = $word === 'DONE' ? null : $one;
                return new Lock($this->connections, $held, $name, $sent, $shared, !$held, $one->server);
            }
            $errors = 'SHUTTING_DOWN ENGINE_AWAY ENGINE_FULL';
            throw Wire::refusal($one, $answer, 'TIMEOUT QUEUE_FULL LOCK_HELD', $errors);
        };
        return $this->acquire('text', $name, $name, $timeout, $talk);
    }

    /**
     * Takes $count units of a counter if no more than $limit are in use then. Never waits.
     *
     * @throws Busy|NoMemory
     */
    public function units(string $name, int $count, int $limit): Units
    {
        $sent = self::name($name);
        Text::range($limit, 1, 4294967295, 'limit');
        Text::range($count, 1, $limit, 'count');
        $talk = function (Connection $one) use ($name, $sent, $count, $limit): Units {
            $body = Wire::binary($one, 0x02, pack('NNna*', $count, $limit, strlen($sent), $sent), 0)[1];
            if ($body !== pack('N', $count)) {
                throw $one->error(Malformed::class, 'gave another number of units', '', $body);
            }
            return new Units($this->connections, $one, $name, $sent, $count);
        };
        return $this->acquire('binary', $name, $name, 0, $talk);
    }

    /** How many units and locks of this name are held. */
    public function usage(string $name): int
    {
        $sent = self::name($name);
        return $this->connections->ask('binary', $name, $name, 0, Connections::READ, function ($one) use ($sent): int {
            [$status, $body] = Wire::binary($one, 0x01, pack('na*', strlen($sent), $sent), 0, 0x01);
            if ($status === 0x01) {
                return 0;
            }
            if (strlen($body) !== 4) {
                throw $one->error(Malformed::class, 'sent something else than a number', '', $body);
            }
            return unpack('N', $body)[1];
        });
    }

    /**
     * Takes members of a pool.
     *
     * @param string $target a pool; several with commas between: the first that can; or @GROUP
     * @param int $count so many members of one pool, or none
     * @param ?string $name this member
     * @param array<string|int> $attrs what the member must have, by name
     * @param string $purpose use, clean or check
     * @param ?string $by a word for people: whose request it is
     * @throws Busy|QueueFull|NotFound|Wrong|TooMany|Draining|NoMemory
     */
    public function member(
        string $target,
        float $timeout = 10,
        int $count = 1,
        ?string $name = null,
        array $attrs = [],
        string $purpose = 'use',
        ?string $by = null
    ): Member {
        $pools = explode(',', str_starts_with($target, '@') ? substr($target, 1) : $target);
        foreach ($pools as $pool) {
            Text::word($pool, 255, 'name of a pool', $pool !== '' && strpbrk($pool[0], '@*') ? $pool[0] : '');
        }
        $isOne = count($pools) === 1 && $target[0] !== '@';
        if (count($pools) > ($target[0] === '@' ? 1 : 16) || count(array_unique($pools)) < count($pools)) {
            throw new Usage('Name 1 to 16 pools, each once, or one group: ' . Text::shown($target));
        }
        if (!$isOne && (count($this->connections->options->servers) > 1 || $name !== null)) {
            throw new Usage('With several servers, or a name, one pool must be named: ' . Text::shown($target));
        }
        Text::seconds($timeout, 'timeout');
        $options = Text::range($count, 1, 64, 'count') > 1 ? " count=$count" : '';
        $options .= $name === null ? '' : ' member=' . Text::word($name, 255, 'name of a member');
        Text::range(count($attrs), 0, 8, 'number of attrs');
        foreach ($attrs as $key => $value) {
            $value = Text::given($value, (string) $key);
            $is = preg_match('/^(?!(value|state|note)$)[a-z][a-z0-9_]{0,31}$/D', (string) $key);
            if (!$is || ($value !== '' && Text::word($value, 128, 'value of an attribute') === '')) {
                throw new Usage('Not a name of an attribute: ' . Text::shown((string) $key));
            }
            $options .= " with=$key=$value";
        }
        if (!in_array($purpose, ['use', 'clean', 'check'], true)) {
            throw new Usage('The purpose is not use, clean or check: ' . Text::shown($purpose));
        }
        $options .= $purpose === 'use' ? '' : " for=$purpose";
        $options .= $by === null ? '' : ' by=' . Text::word($by, 128, 'word for by');
        $talk = function (Connection $one, float $left) use ($target, $options, $count): Member {
            $one->write("TAKE $target " . Text::milliseconds($left) . "$options\n");
            $all = [];
            while (count($all) < $count) {
                $answer = $one->line(Wire::TEXT_LINE, "\n", $all ? 0 : $left);
                if (!$all && !str_starts_with($answer, 'TAKEN ')) {
                    $errors = 'NO_POOL NO_MEMBER WRONG_KIND BAD_VALUE DENIED TOO_MANY SHUTTING_DOWN';
                    throw Wire::refusal($one, $answer, 'TIMEOUT QUEUE_FULL', $errors);
                }
                $all[] = self::taken($one, $answer);
            }
            if ($one->hasMore()) {
                throw $one->error(Malformed::class, "sent more than $count members", '', $answer);
            }
            return new Member($this->connections, $one, $all);
        };
        return $this->acquire('text', $pools[0], $target, $timeout, $talk);
    }

    /**
     * Puts a job into a tube. The parameters after the body are those of NewJob.
     *
     * @param ?array{string, int|float} $root
     * @throws TooBig|Draining|ReadOnlyTube|QueueFull|NoMemory
     */
    public function put(
        string $tube,
        string $body,
        int $priority = 1024,
        float $delay = 0,
        float $ttr = 60,
        ?string $key = null,
        int|float|null $at = null,
        ?array $root = null,
        ?int $tries = null
    ): Put {
        Text::tube($tube);
        $job = new NewJob($body, $priority, $delay, $ttr, $key, $at, $root, $tries);
        $talk = static function (Connection $one) use ($tube, $job): Put {
            return self::putOf($one, Wire::jobs($one, "put-into $tube $job", 'INSERTED DUPLICATE', self::PUT, true));
        };
        return $this->putting($tube, $key !== null, $talk);
    }

    /**
     * Puts all of the jobs, or none: up to 1,000 and 16 MiB.
     *
     * @param list<NewJob> $jobs
     * @return list<Put> one for each, in order
     * @throws TooBig|Draining|ReadOnlyTube|QueueFull|NoMemory
     */
    public function putMany(string $tube, array $jobs): array
    {
        Text::tube($tube);
        $count = Text::range(count($jobs), 1, 1000, 'number of jobs');
        $hasKeys = !array_filter($jobs, static fn(NewJob $job) => $job->key === null);
        $records = implode('', $jobs);
        $size = Text::range(strlen($records), 1, self::BATCH, 'size of the jobs');
        $request = "put-batch $tube $count $size\r\n$records\r\n";
        return $this->putting($tube, $hasKeys, static function (Connection $one) use ($request, $count): array {
            $lines = Wire::dictionary($one, Wire::jobs($one, $request, 'OK', self::PUT, true));
            if (count($lines) !== $count) {
                throw $one->error(Malformed::class, "answered for other than $count jobs");
            }
            return array_map(static fn($line) => self::putOf($one, explode(' ', (string) $line)), array_values($lines));
        });
    }

    /**
     * Reserves ready jobs of the tubes.
     *
     * @param non-empty-list<string> $tubes they take turns
     * @param float $timeout how long to wait for one, rounded up to whole seconds; 0: not at all
     * @return list<Job> 1 to $count; none: there was no job
     * @throws ReadOnlyTube|NoMemory
     */
    public function claim(array $tubes, int $count = 1, float $timeout = 10): array
    {
        return $this->reserve($tubes, $count, $timeout, Connections::READ);
    }

    /**
     * @internal A claim that is sent again so often.
     * @param list<string> $tubes
     * @return list<Job>
     */
    public function reserve(array $tubes, int $count, float $timeout, int $again): array
    {
        Text::range(count($tubes), 1, 1000, 'number of tubes');
        foreach ($tubes as $tube) {
            Text::tube($tube);
        }
        $names = implode(' ', $tubes);
        Text::range($count, 1, 1000, 'count');
        Text::seconds($timeout, 'timeout');
        $talk = function (Connection $one, float $left) use ($names, $count): array {
            $asked = hrtime(true);
            $wait = (int) ceil($left);
            $words = Wire::jobs($one, "claim $count $wait $names\r\n", 'CLAIMED TIMED_OUT', 'READ_ONLY', false, $wait);
            if ($words[0] === 'TIMED_OUT') {
                return [];
            }
            $got = Wire::number($one, $words, 1);
            if ($got < 1 || $got > $count) {
                throw $one->error(Malformed::class, 'gave another number of jobs', '', implode(' ', $words));
            }
            $jobs = [];
            for ($i = 0; $i < $got; $i++) {
                $words = Wire::words($one, 'RESERVED', null);
                [$id, $token, $tries] = array_map(static fn($at) => Wire::number($one, $words, $at), [1, 3, 5]);
                $body = Wire::body($one, $words, 2, $this->connections->options->maxBody);
                $jobs[] = new Job($this->connections, $one, $id, $token, $words[4], $tries, $body, $asked);
            }
            $one->kept = true;
            $one->jobs = $got;
            return $jobs;
        };
        return $this->connections->ask('jobs', '', $names, $timeout, $again, $talk);
    }

    /**
     * Deletes a job that another process has claimed in a tube with `claim=lease`.
     *
     * @throws Lost if that reservation is over
     */
    public function ackByToken(int $id, int $token, string $tube = ''): void
    {
        (new Job($this->connections, null, $id, $token, $tube, 0, '', 0))->ack();
    }

    /**
     * What a tube is set to, and its counts. With settings it is made.
     *
     * @param string|int ...$settings order, claim, tries, limit, prune, remember, read_only, by name
     * @return array<string|int>
     * @throws NotFound
     */
    public function tube(string $name, mixed ...$settings): array
    {
        $line = 'tube ' . Text::tube($name);
        $settings = array_combine(str_replace('_', '-', array_keys($settings)), $settings);
        $last = array_intersect_key($settings, ['read-only' => '']); // It takes the rest of the line.
        foreach (array_diff_key($settings, $last) + $last as $key => $value) {
            $text = Text::given($value, $key);
            $no = $key === 'read-only' ? "\r\n\0" : " \r\n\0";
            if (!preg_match('/^[a-z-]+$/D', $key) || strcspn($text, $no) !== strlen($text)) {
                throw new Usage('Not a setting: ' . Text::shown("$key=$text"));
            }
            $line .= " $key=$text";
        }
        $talk = static fn($one) => Wire::dictionary($one, Wire::jobs($one, "$line\r\n", 'OK', 'NOT_FOUND'));
        return $this->jobs($name, $settings ? 0 : Connections::READ, $talk);
    }

    /**
     * Tubes that have ready jobs, by name: how many.
     *
     * @param string $pattern a name, or its beginning and *
     * @param string $after only names behind this one
     * @param float $timeout how long to wait for one, rounded up to whole seconds
     * @return array<int> by name of the tube (PHP makes an integer of one that is all digits)
     */
    public function ready(string $pattern, string $after = '', int $limit = 1000, float $timeout = 0): array
    {
        if ($pattern !== '*') {
            Text::tube(str_ends_with($pattern, '*') ? substr($pattern, 0, -1) : $pattern);
        }
        $rest = ' ' . Text::range($limit, 1, 1000, 'limit') . " $pattern";
        $rest .= $after === '' ? '' : ' ' . Text::tube($after);
        Text::seconds($timeout, 'timeout');
        $talk = static function (Connection $one, float $left) use ($rest): array {
            $wait = (int) ceil($left);
            $words = Wire::jobs($one, "ready $wait$rest\r\n", 'OK TIMED_OUT', '', false, $wait);
            $found = $words[0] === 'OK' ? Wire::dictionary($one, $words) : [];
            if ($found !== array_filter($found, is_int(...))) {
                throw $one->error(Malformed::class, 'sent something else than numbers of jobs');
            }
            return $found;
        };
        return $this->connections->ask('jobs', '', $pattern, $timeout, Connections::READ, $talk);
    }

    /**
     * Jobs of a tube, by id. Asks for 100 at a time, when they are needed.
     *
     * @param string $state ready, delayed, reserved, buried, abandoned or all
     * @return \Generator<JobView>
     * @throws NotFound
     */
    public function listJobs(string $tube, string $state): \Generator
    {
        return $this->pages("list-jobs $tube " . self::state($tube, $state), $tube);
    }

    /** @return \Generator<JobView> */
    private function pages(string $line, string $tube): \Generator
    {
        $after = 0;
        do {
            $talk = function (Connection $one) use ($line, &$after): array {
                $words = Wire::jobs($one, "$line $after 100\r\n", 'LISTED', 'NOT_FOUND');
                [$count, $next] = [Wire::number($one, $words, 1), Wire::number($one, $words, 2)];
                if ($count > 100 || ($next && $next <= $after)) {
                    throw $one->error(Malformed::class, 'sent another list', '', implode(' ', $words));
                }
                $views = [];
                while ($count-- > 0) {
                    $words = Wire::words($one, 'FOUND UNREADABLE', null);
                    $at = $words[0] === 'FOUND' ? 3 : 2;
                    [$id, $tries] = [Wire::number($one, $words, 1), Wire::number($one, $words, $at + 1)];
                    $body = $at === 2 ? null : Wire::body($one, $words, 2, $this->connections->options->maxBody);
                    $views[] = new JobView($id, $words[$at], $tries, $body);
                }
                $after = $next;
                return $views;
            };
            try {
                $views = $this->jobs($tube, Connections::READ, $talk);
            } catch (NotFound $error) {
                if ($after === 0) {
                    throw $error;
                }
                return; // The last job has gone meanwhile, and the tube with it.
            }
            yield from array_values($views);
        } while ($after);
    }

    /** Deletes the jobs of a tube that are in this state. Returns how many. @throws NotFound */
    public function clear(string $tube, string $state): int
    {
        $line = "clear $tube " . self::state($tube, $state) . "\r\n";
        return $this->jobs($tube, 0, static function (Connection $one) use ($line): int {
            return Wire::number($one, Wire::jobs($one, $line, 'CLEARED', 'NOT_FOUND READ_ONLY'), 1);
        });
    }

    /** Deletes a job that nobody has reserved. @throws NotFound */
    public function delete(int $id): void
    {
        Text::range($id, 0, PHP_INT_MAX, 'id');
        $this->jobs((string) $id, 1, static function (Connection $one, $left, bool $isAgain) use ($id): void {
            try {
                Wire::jobs($one, "delete $id\r\n", 'DELETED', 'NOT_FOUND');
            } catch (NotFound $error) {
                if (!$isAgain) {
                    throw $error;
                }
                throw $one->error(Unanswered::class, 'ended a connection, then did not know it', '', $error->answer);
            }
        });
    }

    /** Makes a buried or delayed job ready. @throws NotFound */
    public function kick(int $id): void
    {
        Text::range($id, 0, PHP_INT_MAX, 'id');
        $this->jobs((string) $id, 0, static fn($one) => Wire::jobs($one, "kick-job $id\r\n", 'KICKED', 'NOT_FOUND'));
    }

    /** Closes idle connections. Holds and jobs keep theirs until they end. Later calls are Usage. */
    public function close(): void
    {
        $this->connections->close();
    }

    /** @internal A client of the same servers that tells another function. */
    public function withEvents(callable $onEvent): self
    {
        $other = clone $this;
        $other->connections = new Connections($this->connections->options, $onEvent(...));
        return $other;
    }

    /** @internal */
    public function tell(mixed ...$event): void
    {
        $this->connections->tell(...$event);
    }

    /** Calls $body with a lock, and releases it. $options: those of lock(), by name. Returns what $body returns. */
    public function withLock(string $name, callable $body, mixed ...$options): mixed
    {
        return $this->lock($name, ...$options)->during($body);
    }

    /** The same with units. */
    public function withUnits(string $name, int $count, int $limit, callable $body): mixed
    {
        return $this->units($name, $count, $limit)->during($body);
    }

    /** The same with members of a pool. $options: those of member(), by name. */
    public function withMember(string $target, callable $body, mixed ...$options): mixed
    {
        return $this->member($target, ...$options)->during($body);
    }

    /**
     * The servers in the order in which a name goes to them.
     *
     * @param list<string> $servers as they are configured
     * @return list<string>
     */
    public static function serversFor(string $name, array $servers): array
    {
        usort($servers, static fn(string $a, string $b) => strcmp(md5($a . $name), md5($b . $name)));
        return $servers;
    }

    private function acquire(string $protocol, string $name, string $target, float $timeout, \Closure $talk): mixed
    {
        if (!$this->connections->onEvent) {
            return $this->connections->ask($protocol, $name, $target, $timeout, Connections::READ, $talk);
        }
        $begin = hrtime(true);
        try {
            $hold = $error = null;
            return $hold = $this->connections->ask($protocol, $name, $target, $timeout, Connections::READ, $talk);
        } catch (CounterError $error) {
            throw $error;
        } finally {
            $what = $hold ?? $error;
            $result = match (true) {
                $hold instanceof Lock => $hold->done ? 'done' : 'locked',
                $hold instanceof Hold => 'taken',
                default => $error ? $error->word() : 'cancelled',
            };
            $server = $what->server ?? '';
            $this->connections->tell('wait', $server, $target, (hrtime(true) - $begin) / 1e9, $result, $error);
        }
    }

    private function jobs(string $target, int $again, \Closure $talk): mixed
    {
        return $this->connections->ask('jobs', '', $target, 0, $again, $talk);
    }

    private function putting(string $tube, bool $hasKey, \Closure $talk): mixed
    {
        if (!$this->connections->onEvent) {
            return $this->jobs($tube, $hasKey ? 1 : 0, $talk);
        }
        $puts = $error = null;
        try {
            return $puts = $this->jobs($tube, $hasKey ? 1 : 0, $talk);
        } catch (CounterError $error) {
            throw $error;
        } finally {
            foreach (is_array($puts) ? $puts : [$puts] as $put) {
                $result = $put ? ($put->duplicate ? 'duplicate' : 'inserted') : $error?->word();
                $this->connections->tell('put', $this->connections->options->servers[0], $tube, null, $result, $error);
            }
        }
    }

    /** @param list<string> $words */
    private static function putOf(Connection $one, array $words): Put
    {
        if ($words[0] !== 'INSERTED' && $words[0] !== 'DUPLICATE') {
            throw $one->error(Malformed::class, 'sent something else than a put', '', implode(' ', $words));
        }
        return new Put(Wire::number($one, $words, 1), $words[0] === 'DUPLICATE');
    }

    private static function taken(Connection $one, string $answer): Taken
    {
        $words = explode(' ', $answer);
        if ($words[0] !== 'TAKEN' || count($words) < 5 || in_array('', array_slice($words, 0, 5), true)) {
            throw $one->error(Malformed::class, 'sent something else than a member', '', $answer);
        }
        $attrs = [];
        foreach (array_slice($words, 5) as $word) {
            $pair = explode('=', $word, 2);
            if (isset($pair[1])) {
                $attrs[$pair[0]] = $pair[1];
            }
        }
        $value = $words[4] === '-' ? null : $words[4];
        return new Taken($words[1], $words[2], Wire::number($one, $words, 3), $value, $attrs);
    }

    /** A name of a lock or of units as it is sent. */
    private static function name(string $name): string
    {
        return Text::word(str_replace(' ', '%20', $name), 4096, 'name');
    }

    private static function state(string $tube, string $state): string
    {
        Text::tube($tube);
        if (!in_array($state, self::STATES, true)) {
            throw new Usage('Not a state of jobs: ' . Text::shown($state));
        }
        return $state;
    }
}
