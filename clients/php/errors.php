<?php

declare(strict_types=1);

namespace Counterd;

// phpcs:disable PSR1.Classes.ClassDeclaration.MultipleClasses, PSR2.Classes.ClassDeclaration, Squiz.WhiteSpace.ScopeClosingBrace
// Composer's classmap and autoload.php know that all classes of errors are here.

/** Why a call failed: the base of all errors. */
abstract class CounterError extends \RuntimeException
{
    /**
     * @param string $server which server, as configured
     * @param string $target the name, pool or tube of the call
     * @param string $answer first line of the answer: 200 bytes at most, controls escaped
     * @param string $reason what the system said, or a certificate's fault
     * @param bool $sent whether the server may have acted
     */
    final public function __construct(
        string $message,
        public readonly string $server = '',
        public readonly string $target = '',
        public readonly string $answer = '',
        public readonly string $reason = '',
        public readonly bool $sent = false
    ) {
        parent::__construct($message);
    }

    /** @internal The name of the class in small letters. */
    final public function word(): string
    {
        return strtolower(substr(strrchr(static::class, '\\'), 1));
    }
}

/** The call is wrong, or the client is closed. */
class Usage extends CounterError {}
/** The server said no. Nothing has changed. */
abstract class Refused extends CounterError {}
/** Others had it for all of the timeout. */
class Busy extends Refused {}
/** Too many wait already, or the tube is full. */
class QueueFull extends Refused {}
/** There is no such pool, member, tube or job. */
class NotFound extends Refused {}
/** The pool is of another kind, or a value is not one of those allowed. */
class Wrong extends Refused {}
/** The server allows this to others only. */
class Denied extends Refused {}
/** The server has no memory left for it. */
class NoMemory extends Refused {}
/** "ReadOnly" of the other libraries, which is a reserved word here: the tube takes and gives no jobs. The reason is in `answer`. */
class ReadOnlyTube extends Refused {}
/** The server is shutting down, or takes no jobs. */
class Draining extends Refused {}
/** The job's body is larger than the server allows. */
class TooBig extends Refused {}
/** The connection would hold more than the server allows. */
class TooMany extends Refused {}
/** Servers share the limit, and what they share it by is away or full. */
class EngineAway extends Refused {}
/** There is no answer that can be believed. */
abstract class Failed extends CounterError {}
/** No server could be reached. Nothing was sent. */
class Unreachable extends Failed {}
/** A request was sent, and its answer did not come. */
class Unanswered extends Failed {}
/** The server sent something outside the protocol, or too much. */
class Malformed extends Failed {}
/** The server does not know the verb. */
class Unsupported extends Failed {}
/** What was held is not held any more. */
class Lost extends CounterError {}
