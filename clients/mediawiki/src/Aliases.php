<?php

declare(strict_types=1);

namespace Counterd\MediaWiki;

/** From 1.44 on MediaWiki's classes have new names, which the extension uses. Older versions get them as aliases. */
final class Aliases
{
    private const OLD_NAMES = [
        'MediaWiki\JobQueue\Exceptions\JobQueueError' => 'JobQueueError',
        'MediaWiki\JobQueue\Exceptions\JobQueueReadOnlyError' => 'JobQueueReadOnlyError',
        'MediaWiki\JobQueue\IJobSpecification' => 'IJobSpecification',
        'MediaWiki\JobQueue\JobQueue' => 'JobQueue',
        'MediaWiki\JobQueue\RunnableJob' => 'RunnableJob',
        'MediaWiki\PoolCounter\PoolCounter' => 'PoolCounter',
        'MediaWiki\Status\Status' => 'Status',
        'MediaWiki\WikiMap\WikiMap' => 'WikiMap',
    ];

    /** MediaWiki calls this when it loads the extension. Nothing is loaded before one of the names is used. */
    public static function register(): void
    {
        spl_autoload_register([self::class, 'load']);
    }

    private static function load(string $class): void
    {
        if (!isset(self::OLD_NAMES[$class])) {
            return;
        }
        spl_autoload_unregister([self::class, 'load']);
        // All at once, as a type of a parameter loads no class. MediaWiki may know some of the names already.
        foreach (self::OLD_NAMES as $new => $old) {
            if (!class_exists($new) && !interface_exists($new)) {
                class_alias($old, $new);
            }
        }
    }
}
