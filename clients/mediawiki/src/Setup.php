<?php

declare(strict_types=1);

namespace Counterd\MediaWiki;

/** MediaWiki calls it when it loads the extension. Nothing is loaded before a class is needed. */
final class Setup
{
    /** From 1.44 on MediaWiki's classes have new names, which we use. Older versions get them as aliases. */
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

    /** Registers what loads these classes and the library. */
    public static function register(): void
    {
        spl_autoload_register([self::class, 'alias']);
        spl_autoload_register([self::class, 'loadLibrary']);
    }

    private static function alias(string $class): void
    {
        if (!isset(self::OLD_NAMES[$class])) {
            return;
        }
        spl_autoload_unregister([self::class, 'alias']);
        // All at once, as a type of a parameter loads no class. MediaWiki may know some of the names already.
        foreach (self::OLD_NAMES as $new => $old) {
            if (!class_exists($new) && !interface_exists($new)) {
                class_alias($old, $new);
            }
        }
    }

    /** The library is beside the extension in a checkout, or where Debian's php-counterd has it, or Composer's. */
    private static function loadLibrary(string $class): void
    {
        if (str_starts_with($class, 'Counterd\\')) {
            $beside = dirname(__DIR__, 2) . '/php/autoload.php';
            foreach ([$beside, '/usr/share/php/Counterd/autoload.php'] as $file) {
                if (is_file($file)) {
                    require_once $file;
                    return;
                }
            }
        }
    }
}
