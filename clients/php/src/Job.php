<?php

declare(strict_types=1);

namespace Counterd;

/**
 * A job that is reserved, to be given back with ack, nack or bury. When all jobs of a claim are forgotten,
 * their connection is closed, and those not given back are ready again.
 */
final class Job
{
    private bool $isLost = false;
    private bool $isDone = false;
    private int $pid;
    /** Nanoseconds that a run may take, once a worker's renewal has learned it. */
    private ?int $ttr = null;
    /** When it is lost, by our clock. */
    private int $ends = PHP_INT_MAX;
    private ?\Closure $watch = null;

    /**
     * @internal
     * @param int $asked when the claim was sent, or the last renewal that was answered
     */
    public function __construct(
        private Connections $connections,
        private ?Connection $connection,
        public readonly int $id,
        public readonly int $token,
        public readonly string $tube,
        public readonly int $tries,
        public readonly string $body,
        private int $asked
    ) {
        $this->pid = $connections->pid;
    }

    /** True when it is known to be another's by now: a renewal was refused, or its time is over. Does not wait. */
    public function isLost(): bool
    {
        $isOver = !$this->isDone && hrtime(true) > $this->ends;
        return $this->isLost = $this->isLost || $isOver || $this->pid !== getmypid();
    }

    /** It is done: deletes it. @throws Lost if it was not ours any more */
    public function ack(): void
    {
        $this->end('ack');
    }

    /**
     * Gives it back for another run.
     *
     * @param float $delay seconds until then, rounded up
     * @return bool whether its tries are used up, so that it was buried
     * @throws Lost if it was not ours any more
     */
    public function nack(float $delay = 0): bool
    {
        return $this->end('nack', $delay) === 'BURIED';
    }

    /** Puts it aside for a person to look at. @throws Lost if it, or its connection, is not ours any more */
    public function bury(): void
    {
        $this->end('bury');
    }

    /** Begins its time anew. @throws Lost if it was not ours any more */
    public function renew(): void
    {
        // Of a worker's job its ttr is asked for, too. Until it is known, a try has io_timeout for its answer.
        $isToAsk = $this->watch && $this->ttr === null;
        if ($isToAsk && $this->ends === PHP_INT_MAX) {
            $this->ends = hrtime(true) + (int) ($this->connections->options->ioTimeout * 1e9);
        }
        $line = "renew {$this->id} {$this->token}\r\n" . ($isToAsk ? "stats-job {$this->id}\r\n" : '');
        $then = function (Connection $one, ?array $words, int $asked) use ($isToAsk): ?array {
            try {
                $stats = $isToAsk ? Wire::dictionary($one, Wire::words($one, 'OK', 'NOT_FOUND')) : [];
                if ($words && isset($stats['ttr'])) {
                    $this->ttr = min((int) $stats['ttr'], 4294967295) * 1000000000;
                }
            } catch (Refused) {
                // The next renewal asks again.
            }
            $this->asked = $words ? $asked : $this->asked;
            $this->ends = $this->ttr === null ? PHP_INT_MAX : $this->asked + $this->ttr;
            return $words;
        };
        $this->act(1, $line, 'TOUCHED', $this->ends, $then);
    }

    /**
     * Renews it if a third of its time is over, or it has run for 0.4 s: for a loop in a worker's handler.
     * While no server answers, its time runs on.
     *
     * @return bool whether it is ours still
     */
    public function keep(): bool
    {
        if ($this->watch) {
            ($this->watch)();
        }
        if (!$this->isLost() && hrtime(true) - $this->asked >= ($this->ttr === null ? 400000000 : $this->ttr / 3)) {
            try {
                $this->renew();
            } catch (CounterError) {
            }
        }
        return !$this->isLost();
    }

    /** @internal Makes it a worker's. */
    public function watch(\Closure $watch): void
    {
        $this->watch = $watch;
        $this->asked = hrtime(true); // The claim may have waited. Until a renewal nothing else counts from here.
    }

    /** @internal True when the connection that reserved it is there. */
    public function hasConnection(): bool
    {
        return (bool) $this->connection?->isFresh();
    }

    /** @internal Gives it back on another connection: its own may be in the midst of a renewal. */
    public function abandon(): void
    {
        $this->isLost = true;
        $other = clone $this;
        [$other->isLost, $other->ends, $other->connection, $other->watch] = [false, PHP_INT_MAX, null, null];
        try {
            $other->nack();
        } catch (CounterError) {
            // It comes back with the end of its connection, or of its time.
        }
    }

    /** @internal The end of a job, for the reason $cause. A worker's job that is lost is not reported. */
    public function end(string $what, float $delay = 0, ?\Throwable $cause = null): string
    {
        $error = null;
        $result = $what;
        try {
            if ($what === 'ack') {
                $answer = $this->act(1, "ack {$this->id} {$this->token}\r\n", 'DELETED');
            } elseif ($what === 'nack') {
                $delay = NewJob::whole($delay, 'delay');
                $answer = $this->act(0, "nack {$this->id} {$this->token} $delay\r\n", 'RELEASED BURIED');
            } else {
                $answer = $this->act(0, "stats-job {$this->id}\r\n", 'OK', PHP_INT_MAX, function ($one, $words): array {
                    $priority = Wire::dictionary($one, $words)['pri']
                        ?? throw $one->error(Malformed::class, 'does not say the priority of the job');
                    return Wire::jobs($one, "bury {$this->id} $priority\r\n", 'BURIED', 'NOT_FOUND');
                });
            }
            $this->isDone = true;
            return $answer;
        } catch (CounterError $error) {
            $this->isDone = $this->isDone || !$error instanceof Usage;
            $result = $error instanceof Lost ? 'lost' : $what;
            throw $error;
        } finally {
            if ($this->isDone && !$error instanceof Usage) {
                $this->leave($error);
                if ($this->connections->onEvent) {
                    $server = $this->connection->server ?? '';
                    $this->connections->tell('job', $server, $this->tube, null, $result, $error ?? $cause);
                }
            }
        }
    }

    /** The last job of a claim to end gives their connection back, or closes it if one may be reserved there still. */
    private function leave(?CounterError $error): void
    {
        $one = $this->connection;
        if (!$one || ($error instanceof Lost && $error->answer === '')) {
            return; // Lost by our clock alone: nothing else goes on that connection.
        }
        $one->spoiled = $one->spoiled || ($error && !$error instanceof Lost);
        if (--$one->jobs === 0) {
            $one->kept = false;
            if (!$one->spoiled) {
                $this->connections->giveBack($one);
            } elseif (!$one->ended) {
                $this->connections->drop($one);
            }
        }
    }

    /**
     * Asks, on the connection of the claim if that is there, and for a bury on no other.
     *
     * @param ?\Closure(Connection, ?list<string>, int): ?list<string> $then what else belongs to it; gets the
     *     answer, or null when that was a refusal
     */
    private function act(
        int $again,
        string $line,
        string $good,
        int $until = PHP_INT_MAX,
        ?\Closure $then = null
    ): string {
        $own = $this->connection;
        $isGone = $good === 'OK' && !$this->hasConnection();
        if ($this->isDone) {
            throw new Usage("Job {$this->id} was given back before", $own ? $own->server : '', $this->tube);
        }
        if ($isGone || $this->isLost()) {
            $this->isLost = true;
            $why = $isGone ? 'the connection that reserved it has ended' : 'it is not ours any more';
            throw new Lost("Job {$this->id} is lost: $why", $own ? $own->server : '', $this->tube);
        }
        $talk = function (Connection $one, float $left, bool $isAgain) use ($own, $line, $good, $then): string {
            $one->kept = $one === $own;
            $asked = hrtime(true);
            try {
                try {
                    $words = Wire::jobs($one, $line, $good, 'NOT_FOUND');
                } catch (Refused $error) {
                    $good === 'TOUCHED' && !$one->ended && $then($one, null, $asked);
                    throw $error;
                }
                return ($then ? $then($one, $words, $asked) : $words)[0];
            } catch (NotFound $error) {
                $this->isLost = !$isAgain;
                $class = $isAgain ? Unanswered::class : Lost::class;
                throw $one->error($class, "does not know job {$this->id} as reserved by us", '', $error->answer);
            }
        };
        return $this->connections->ask('jobs', '', $this->tube, 0, $again, $talk, $own, $until);
    }
}
