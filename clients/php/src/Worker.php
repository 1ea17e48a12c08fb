<?php

declare(strict_types=1);

namespace Counterd;

/**
 * Claims jobs and calls a handler for each, one at a time, until it is told to stop.
 *
 * A handler that returns has done the job. It may throw Bury or Retry; anything else puts the job off.
 * One that takes long calls `$job->keep()` now and then: nothing else renews the job.
 */
final class Worker
{
    private Client $client;
    private \Closure $handler;
    private \Closure $backoff;
    private ?Job $job = null;
    private ?int $stopped = null;
    private int $left = 0;

    /**
     * @param non-empty-list<string> $tubes
     * @param callable(Job): mixed $handler
     * @param ?callable(int): float $backoff seconds until a job that failed is run again, by its tries; if it
     *     throws, or gives no such time, 1 s that doubles
     * @param int $tries a job that failed in this run is buried; 0: none is
     * @param float $grace seconds that a handler has after stop() before its job is given back; keep() looks
     * @param ?callable(Event): mixed $onEvent none: that of the client
     * @throws Usage
     */
    public function __construct(
        Client $client,
        private array $tubes,
        callable $handler,
        ?callable $backoff = null,
        private int $tries = 0,
        private float $grace = 30,
        ?callable $onEvent = null
    ) {
        array_map(Text::tube(...), $tubes);
        Text::range(count($tubes), 1, 1000, 'number of tubes');
        Text::range($tries, 0, 4294967295, 'tries');
        Text::seconds($grace, 'grace');
        $this->client = $onEvent ? $client->withEvents($onEvent) : $client;
        $this->handler = $handler(...);
        $this->backoff = $backoff ? $backoff(...) : self::doubled(...);
    }

    /** Claims no more. A handler that runs is not cut off. May be called from a handler or a signal. */
    public function stop(): void
    {
        $this->stopped ??= hrtime(true);
    }

    /**
     * Works until stop(), or TERM or INT if pcntl is there; a second signal gives the job back at once.
     *
     * @param bool $signals whether to handle signals meanwhile
     * @return int how many jobs were given back though their handlers had not ended
     * @throws Usage
     */
    public function run(bool $signals = true): int
    {
        $before = [];
        if ($signals && function_exists('pcntl_async_signals')) {
            $wasAsync = pcntl_async_signals(true);
            foreach ([SIGTERM, SIGINT] as $number) {
                $before[$number] = pcntl_signal_get_handler($number);
                pcntl_signal($number, function (): void {
                    $this->stopped === null ? $this->stop() : $this->abandon();
                });
            }
        }
        try {
            $this->left = 0;
            $pause = 0.1;
            while ($this->stopped === null) {
                try {
                    $jobs = $this->client->reserve($this->tubes, 1, 2, 0);
                    $pause = 0.1;
                } catch (Usage | Unsupported $error) {
                    throw $error;
                } catch (CounterError $error) {
                    if ($pause === 0.1) {
                        $this->client->tell('retry', $error->server, $this->tubes[0], error: $error);
                    }
                    $this->sleep($pause * mt_rand(800, 1200) / 1000);
                    $pause = min(30, 2 * $pause);
                    continue;
                }
                array_map($this->handle(...), $jobs);
                $jobs = null; // No body is kept while it claims.
            }
            return $this->left;
        } finally {
            $this->stopped = null;
            foreach ($before as $number => $handler) {
                pcntl_signal($number, $handler);
            }
            if ($before) {
                pcntl_async_signals($wasAsync);
            }
        }
    }

    private function handle(Job $job): void
    {
        $this->job = $job;
        $job->watch($this->look(...));
        $cause = null;
        try {
            ($this->handler)($job);
        } catch (\Throwable $cause) {
        }
        $this->job = null;
        try {
            $isLast = $this->tries > 0 && $job->tries >= $this->tries && !$cause instanceof Retry;
            if ($cause && ($cause instanceof Bury || $isLast) && $job->hasConnection()) {
                $job->end('bury', 0, $cause);
            } elseif ($cause) {
                $job->end('nack', $cause instanceof Retry ? $cause->delay : $this->delay($job), $cause);
            } else {
                $job->end('ack');
            }
        } catch (CounterError) {
            // An event has told of it. If it was not given back, it comes back by itself.
        }
    }

    private function delay(Job $job): float
    {
        try {
            $delay = ($this->backoff)($job->tries);
            NewJob::whole($delay, 'backoff');
            return $delay;
        } catch (\Throwable $error) {
            $this->client->tell('retry', '', $job->tube, error: $error);
            return self::doubled($job->tries);
        }
    }

    private static function doubled(int $tries): float
    {
        return min(3600, 2 ** min($tries - 1, 12)) * mt_rand(800, 1200) / 1000;
    }

    /** Looks at the grace. */
    private function look(): void
    {
        if ($this->stopped !== null && hrtime(true) - $this->stopped > $this->grace * 1e9) {
            $this->abandon();
        }
    }

    private function abandon(): void
    {
        if ($this->job && !$this->job->isLost()) {
            $this->left++;
            $this->job->abandon();
        }
    }

    private function sleep(float $seconds): void
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        while ($this->stopped === null && hrtime(true) < $until) {
            usleep(max(0, min(50000, intdiv($until - hrtime(true), 1000))));
        }
    }
}
