<?php

// Loads the extension's classes where MediaWiki's have their names of 1.44 alone. Prints "ok".
//
//     php names.php FOLDER-OF-THE-EXTENSION

declare(strict_types=1);

namespace MediaWiki\JobQueue {
    interface IJobSpecification
    {
    }

    interface RunnableJob
    {
    }

    abstract class JobQueue
    {
    }
}

namespace MediaWiki\PoolCounter {
    abstract class PoolCounter
    {
        protected function __construct(array $conf, string $type, string $key)
        {
        }
    }
}

namespace {
    use Counterd\MediaWiki\JobQueue;
    use Counterd\MediaWiki\PoolCounter;
    use Counterd\MediaWiki\Setup;

    spl_autoload_register(static function (string $class) use ($argv): void {
        require $argv[1] . '/src/' . basename(strtr($class, '\\', '/')) . '.php';
    });
    Setup::register();
    new PoolCounter([], 'type', 'key');
    $parents = [get_parent_class(PoolCounter::class), get_parent_class(JobQueue::class)];
    $isNew = $parents === ['MediaWiki\PoolCounter\PoolCounter', 'MediaWiki\JobQueue\JobQueue'];
    echo $isNew && !class_exists('JobQueue', false) ? "ok\n" : implode(' ', $parents) . "\n";
}
