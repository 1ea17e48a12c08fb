<?php

declare(strict_types=1);

namespace Counterd;

/** What came of a put. */
final class Put
{
    /**
     * @param int $id of the job; of a duplicate that of the other job, or 0 if that has been run
     * @param bool $duplicate whether nothing was stored because of `key` or `root`
     */
    public function __construct(public readonly int $id, public readonly bool $duplicate)
    {
    }
}
