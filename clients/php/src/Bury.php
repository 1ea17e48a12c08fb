<?php

declare(strict_types=1);

namespace Counterd;

/** Thrown by a worker's handler: buries the job, for a person to look at. */
final class Bury extends \Exception
{
}
