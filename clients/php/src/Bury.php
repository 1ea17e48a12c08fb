<?php

declare(strict_types=1);

namespace Counterd;

/** Thrown by a worker's handler: the job is to be put aside. */
final class Bury extends \Exception
{
}
