<?php

declare(strict_types=1);

namespace Counterd;

/** A job as a list shows it. */
final class JobView
{
    /**
     * @param string $state ready, delayed, reserved, buried or abandoned
     * @param ?string $body null: the server can't read it
     */
    public function __construct(
        public readonly int $id,
        public readonly string $state,
        public readonly int $tries,
        public readonly ?string $body
    ) {
    }
}
