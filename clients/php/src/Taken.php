<?php

declare(strict_types=1);

namespace Counterd;

/** One of the members of a pool that were taken together. */
final class Taken
{
    /**
     * @param int $fence greater than that of every hold before: a resource refuses lower ones
     * @param array<string> $attrs by name
     */
    public function __construct(
        public readonly string $pool,
        public readonly string $name,
        public readonly int $fence,
        public readonly ?string $value,
        public readonly array $attrs
    ) {
    }
}
