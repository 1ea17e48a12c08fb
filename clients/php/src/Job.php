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
    /** Seconds that a run may take, once a renewal has asked for them. */
    private ?float $ttr = null;

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
        $this->pid = getmypid();
    }

    /** Whether it is known to be another's by now: a renewal was refused, or its time is over. Does not wait. */
    public function isLost(): bool
    {
        $isOver = $this->ttr !== null && hrtime(true) - $this->asked > $this->ttr * 1e9;
        return $this->isLost = $this->isLost || $isOver || $this->pid !== getmypid();
    }

    /** @internal The worker has given it up. */
    public function lose(): void
    {
        $this->isLost = true;
    }

    /** It is done: deletes it. @throws Lost if it was not ours any more */
    public function ack(): void
    {
        $this->end('ack', 1, fn(Connection $one) => $this->say($one, "ack {$this->id} {$this->token}", 'DELETED'));
    }

    /**
     * It is to be run again.
     *
     * @param float $delay seconds until then, rounded up
     * @return bool whether its tries are used up, so that it was buried
     * @throws Lost if it was not ours any more
     */
    public function nack(float $delay = 0): bool
    {
        $line = "nack {$this->id} {$this->token} " . NewJob::whole($delay, 'delay');
        return $this->end('nack', 0, fn($one) => $this->say($one, $line, 'RELEASED BURIED')) === 'BURIED';
    }

    /** Puts it aside for a person to look at. @throws Lost if its connection, or the job, is not ours any more */
    public function bury(): void
    {
        $this->end('bury', 0, function (Connection $one): string {
            if ($one !== $this->connection) {
                throw $one->error(Lost::class, 'has closed the connection that reserved the job');
            }
            $stats = Wire::dictionary($one, Wire::jobs($one, "stats-job {$this->id}\r\n", 'OK', 'NOT_FOUND'));
            return $this->say($one, "bury {$this->id} " . ($stats['pri'] ?? 0), 'BURIED');
        });
    }

    /** Begins its time anew. @throws Lost if it was not ours any more */
    public function renew(): void
    {
        $this->act(1, function (Connection $one): string {
            $asked = hrtime(true);
            $answer = $this->say($one, "renew {$this->id} {$this->token}", 'TOUCHED');
            $this->asked = $asked;
            return $answer;
        });
    }

    private function end(string $what, int $again, callable $talk): string
    {
        $result = $what;
        try {
            $answer = $this->act($again, $talk);
            $this->isDone = true;
            return $answer;
        } catch (CounterError $error) {
            $this->isDone = $error->sent || $error instanceof Lost;
            $result = $error instanceof Lost ? 'lost' : $what;
            throw $error;
        } finally {
            if ($this->isDone) {
                if ($this->connection && --$this->connection->jobs === 0) {
                    $this->connection->kept = false;
                    $this->connections->giveBack($this->connection, 'jobs');
                }
                $this->connections->tell('job', $this->server(), $this->tube, result: $result, error: $error ?? null);
            }
        }
    }

    private function act(int $again, callable $talk): string
    {
        if ($this->isDone) {
            throw new Usage("Job {$this->id} was given back before", $this->server(), $this->tube);
        }
        if ($this->pid !== getmypid()) {
            $this->isLost = true;
            $text = "Job {$this->id} was claimed by another process";
            throw new Lost($text, $this->server(), $this->tube);
        }
        try {
            $ask = $this->connections->ask(...);
            return $ask('jobs', '', $this->tube, 0, $again, function ($one, $left, $isAgain) use ($talk) {
                try {
                    $one->kept = $one === $this->connection;
                    return $talk($one);
                } catch (NotFound $error) {
                    $class = $isAgain ? Unanswered::class : Lost::class;
                    $what = "does not know it as reserved by us: job {$this->id}";
                    throw $one->error($class, $what, '', $error->answer);
                }
            }, $this->connection);
        } catch (Lost $error) {
            $this->isLost = true;
            throw $error;
        }
    }

    private function server(): string
    {
        return $this->connection->server ?? '';
    }

    private function say(Connection $one, string $line, string $good): string
    {
        return Wire::jobs($one, "$line\r\n", $good, 'NOT_FOUND')[0];
    }
}
