<?php

declare(strict_types=1);

namespace Counterd;

/**
 * What happened, for `onEvent`.
 *
 * Kinds: connect, disconnect, down, up, wait (an acquire ended), held (a hold ended), lost, retry, put, job.
 */
final class Event
{
    /**
     * @param string $name the name, pool or tube
     * @param float $seconds how long it took, or how long it was held
     */
    public function __construct(
        public readonly string $kind,
        public readonly string $server = '',
        public readonly string $name = '',
        public readonly ?float $seconds = null,
        public readonly ?string $result = null,
        public readonly ?\Throwable $error = null
    ) {
    }
}
