<?php

declare(strict_types=1);

namespace Counterd;

/**
 * The connections of a client: which server a call goes to, idle ones, servers that are down, what is tried again.
 *
 * @internal
 */
final class Connections
{
    /** Ask again at each server, and once more. */
    public const READ = 1 << 20;
    public bool $isClosed = false;
    /** The process that has used the client last. */
    public int $pid;
    /** @var array<string, list<Connection>> by protocol and server */
    private array $idle = [];
    /** @var array<string, int> until when servers are passed over, by Options::key */
    private array $down = [];
    /** @var \WeakMap<Connection, true> */
    private \WeakMap $live;

    /** @param ?\Closure(Event): mixed $onEvent */
    public function __construct(public readonly Options $options, public readonly ?\Closure $onEvent)
    {
        $this->pid = getmypid();
        $this->live = new \WeakMap();
    }

    /** Tells of an event. What the program's function throws is dropped. */
    public function tell(mixed ...$event): void
    {
        if ($this->onEvent) {
            try {
                ($this->onEvent)(new Event(...$event));
            } catch (\Throwable) {
            }
        }
    }

    /**
     * Runs $talk on a connection, and again where that is allowed.
     *
     * @param string $name by which servers are ordered
     * @param string $target for errors
     * @param int $again how often to repeat a request that was sent and whose connection then ended; 1: also one
     *     that was not answered in time
     * @param callable(Connection, float, bool): mixed $talk gets the seconds that are left of $timeout, and
     *     whether the request was sent before
     * @param ?Connection $own to be asked first, if it is open still
     * @param int $until when waiting ends in any case, in nanoseconds of hrtime
     * @throws CounterError
     */
    public function ask(
        string $protocol,
        string $name,
        string $target,
        float $timeout,
        int $again,
        callable $talk,
        ?Connection $own = null,
        int $until = PHP_INT_MAX
    ): mixed {
        if (!$own && ($this->isClosed || $this->pid !== getmypid())) {
            $this->check();
        }
        $servers = $this->options->servers;
        if (isset($servers[1])) {
            $servers = $this->order($protocol, $name);
        }
        $isOnce = $again === 1;
        $again = min($again, count($servers));
        $unsent = $tried = 0;
        $begin = hrtime(true);
        $unanswered = null;
        for ($at = 0;; $at = ($at + 1) % count($servers)) {
            $server = $servers[$at];
            $isNew = false;
            if (!$own || !$own->isFresh()) {
                $own = $this->idleOne($protocol, $server);
            }
            if (!$own) {
                try {
                    $own = $this->connect($protocol, $server, $target, $until);
                    $isNew = true;
                } catch (Unreachable $e) {
                    if (++$tried < count($servers)) {
                        continue;
                    }
                    throw $unanswered ?? $e;
                }
            }
            $isFirst = !$isNew && $tried + $unsent === 0 && !$unanswered;
            $left = $isFirst ? $timeout : max(0.0, $timeout - (hrtime(true) - $begin) / 1e9);
            $own->begin($target, $until);
            try {
                $value = $talk($own, $left, $unanswered !== null);
                $this->giveBack($own);
                $this->isUp($protocol, $server);
                return $value;
            } catch (Refused | Lost $e) {
                $this->giveBack($own);
                if ($isOnce && $unanswered && $e instanceof Refused) {
                    throw $own->error(Unanswered::class, 'refused what it may have done before', '', $e->answer);
                }
                if (!$e instanceof Draining) {
                    $this->isUp($protocol, $server);
                    throw $e;
                }
                if ($protocol === 'text') {
                    $this->isDown($protocol, $server, $e);
                }
                if (++$tried >= count($servers)) {
                    throw $e;
                }
            } catch (\Throwable $e) {
                $isAgain = $e instanceof Unanswered && $e->answer === '' && ($own->ended || ($isOnce && $e->sent));
                $this->drop($own);
                if (!$isAgain) {
                    throw $e;
                }
                if (!$e->sent && $unsent++ < count($servers)) {
                    $own = null;
                    continue;
                }
                if (!$e->sent) {
                    throw $unanswered ?? new Unreachable(
                        $e->getMessage(),
                        $e->server,
                        $target,
                        reason: $e->reason
                    );
                }
                $unanswered = $e;
                if ($again-- <= 0) {
                    throw $e;
                }
                $this->tell('retry', $server, $target, error: $e);
            }
            $own = null;
        }
    }

    /** Puts a connection back for other calls, unless something keeps it. */
    public function giveBack(Connection $one): void
    {
        if ($one->kept) {
            return;
        }
        if ($this->isClosed || $one->hasMore() || count($this->idle[$one->key] ?? []) >= $this->options->idle) {
            $this->drop($one);
            return;
        }
        $one->since = hrtime(true);
        $this->idle[$one->key][] = $one;
        while (!$this->isYoung($this->idle[$one->key][0])) {
            $this->drop(array_shift($this->idle[$one->key]));
        }
    }

    public function drop(Connection $one): void
    {
        $one->close();
        $this->tell('disconnect', $one->server);
    }

    public function close(): void
    {
        $this->isClosed = true;
        array_map($this->drop(...), array_merge(...array_values($this->idle)));
        $this->idle = [];
    }

    /** @throws Usage if the client is closed */
    private function check(): void
    {
        if ($this->isClosed) {
            throw new Usage('The client is closed');
        }
        if ($this->pid !== getmypid()) {
            // A child: closes its copies, so that the parent's locks end with the parent.
            foreach ($this->live as $one => $_) {
                $one->close();
            }
            $this->idle = [];
            $this->pid = getmypid();
        }
    }

    /** @return list<string> servers in the order in which to ask them */
    private function order(string $protocol, string $name): array
    {
        $servers = $this->options->servers;
        if ($protocol === 'jobs') {
            if ($this->options->jobs === '' || ctype_digit($this->options->jobs)) {
                throw new Usage('Jobs are on one server: name it with jobs=HOST:PORT in the URL');
            }
            return [$servers[0]];
        }
        $up = $down = [];
        foreach (Client::serversFor($name, $servers) as $server) {
            if ($this->passesOver($this->options->key($protocol, $server))) {
                $down[] = $server;
            } else {
                $up[] = $server;
            }
        }
        return array_merge($up, $down);
    }

    private function idleOne(string $protocol, string $server): ?Connection
    {
        $key = "$protocol $server";
        while ($one = empty($this->idle[$key]) ? null : array_pop($this->idle[$key])) {
            if ($this->isYoung($one) && $one->isFresh()) {
                return $one;
            }
            $this->drop($one);
        }
        return null;
    }

    private function isYoung(Connection $one): bool
    {
        return hrtime(true) - $one->since <= $this->options->idleSeconds * 1e9;
    }

    private function connect(string $protocol, string $server, string $target, int $until): Connection
    {
        $begin = hrtime(true);
        try {
            $one = Connection::open($this->options, $protocol, $server, $target, $until);
        } catch (Unreachable $e) {
            if (!preg_match('/FD_SETSIZE|too many open files/i', $e->reason)) { // That is no fault of the server.
                $this->isDown($protocol, $server, $e);
            }
            throw $e;
        }
        $this->live[$one] = true;
        $this->tell('connect', $server, seconds: (hrtime(true) - $begin) / 1e9);
        return $one;
    }

    /** It has answered. */
    private function isUp(string $protocol, string $server): void
    {
        if ($this->down && isset($this->down[$key = $this->options->key($protocol, $server)])) {
            unset($this->down[$key]);
            if (self::hasApcu()) {
                apcu_delete($key);
            }
            $this->tell('up', $server);
        }
    }

    private function isDown(string $protocol, string $server, CounterError $error): void
    {
        $key = $this->options->key($protocol, $server);
        if (!isset($this->down[$key])) {
            $this->tell('down', $server, error: $error);
        }
        $this->down[$key] = hrtime(true) + (int) ($this->options->downSeconds * 1e9);
        if (self::hasApcu()) {
            apcu_store($key, $this->down[$key], 86400);
        }
    }

    /** True when a server is down. One call of those after its time tries it. */
    private function passesOver(string $key): bool
    {
        $until = self::hasApcu() ? apcu_fetch($key) : $this->down[$key] ?? false;
        if ($until === false) {
            return false;
        }
        $this->down[$key] = $until;
        if ($until > hrtime(true)) {
            return true;
        }
        $next = hrtime(true) + (int) ($this->options->downSeconds * 1e9);
        if (self::hasApcu() && !apcu_cas($key, $until, $next)) {
            return true;
        }
        $this->down[$key] = $next;
        return false;
    }

    private static function hasApcu(): bool
    {
        return function_exists('apcu_enabled') && apcu_enabled();
    }
}
