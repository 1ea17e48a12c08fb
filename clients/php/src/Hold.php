<?php

declare(strict_types=1);

namespace Counterd;

/**
 * What a client has taken and has to give back. One that is forgotten is given back by the end of its connection.
 */
abstract class Hold
{
    private bool $isLost = false;
    private int $since;
    private int $pid;

    /** @internal */
    public function __construct(
        protected Connections $connections,
        protected ?Connection $connection,
        private string $what,
        public readonly string $server
    ) {
        $this->since = hrtime(true);
        $this->pid = $connections->pid;
        if ($connection) {
            $connection->kept = true;
        }
    }

    /** True when it is held no longer though it was not released. Looks at the connection, and does not wait. */
    public function isLost(): bool
    {
        if ($this->pid !== getmypid()) {
            return $this->connection !== null; // The parent has it.
        }
        if ($this->connection && !$this->isLost && !$this->connection->isFresh(true)) {
            $this->isLost = true;
            $this->connections->tell('lost', $this->server, $this->what);
        }
        return $this->isLost;
    }

    /**
     * Gives it back. A second call does nothing.
     *
     * @param bool $ok whether the work ended well
     * @throws Lost if it was not held any more
     * @throws Failed if no answer came
     */
    public function release(bool $ok = true): void
    {
        $one = $this->connection;
        if (!$one) {
            return;
        }
        $error = null;
        $isOurs = $this->pid === getmypid();
        $result = $ok ? 'released' : 'failed';
        try {
            $one->begin($this->what);
            if ($this->isLost || !$isOurs || !$one->isFresh()) {
                throw $one->error(Lost::class, 'closed the connection that held it, so others may have it');
            }
            $this->connection = null;
            if (!$this->giveUp($one, $ok)) {
                $one->close();
            }
        } catch (\Throwable $error) {
            if ($error instanceof Unanswered && $one->ended) {
                $error = $one->error(Lost::class, 'closed the connection that held it', $error->reason);
            }
            $one->close();
            $result = $error instanceof CounterError ? $error->word() : 'cancelled';
            if ($error instanceof Lost && !$this->isLost) {
                $this->isLost = true;
                $isOurs && $this->connections->tell('lost', $this->server, $this->what, error: $error);
            }
        }
        $this->connection = null;
        if ($isOurs) {
            $one->kept = false;
            $this->connections->giveBack($one);
        }
        if ($this->connections->onEvent) {
            $seconds = (hrtime(true) - $this->since) / 1e9;
            $this->connections->tell('held', $this->server, $this->what, $seconds, $result, $error);
        }
        if ($error) {
            throw $error;
        }
    }

    /**
     * Calls $body, and gives the hold back. An error of the body is never replaced by one of the release.
     *
     * @internal
     */
    public function during(callable $body): mixed
    {
        try {
            $value = $body($this);
        } catch (\Throwable $error) {
            try {
                $this->release(false);
            } catch (CounterError) {
                // The event `held` has told of it.
            }
            throw $error;
        }
        $this->release();
        return $value;
    }

    /** Sends the release. True: the connection is good for more. */
    abstract protected function giveUp(Connection $one, bool $ok): bool;

    /** Checks the answer to a release: $good, or one of $gone if it was not held. */
    protected function check(Connection $one, string $answer, string $good, string ...$gone): void
    {
        $word = explode(' ', $answer, 2)[0];
        if (in_array($word, $gone, true)) {
            throw $one->error(Lost::class, "answered $word: it was not held any more", '', $answer);
        }
        if ($word !== $good) {
            throw Wire::refusal($one, $answer, '');
        }
    }
}
