<?php

/**
 * Jobs from the command line, through MediaWiki's group of queues.
 *
 *     php push.php '[["TYPE", {"parameter": "value"}]...]'
 *     php push.php pop TYPE                   prints id and token, and ends without acknowledging
 *     php push.php ack TYPE ID TOKEN
 */

declare(strict_types=1);

use MediaWiki\MediaWikiServices;

require_once getenv('MW_INSTALL_PATH') . '/maintenance/Maintenance.php';

class Push extends Maintenance
{
    public function __construct()
    {
        parent::__construct();
        $this->addArg('what', 'JSON, pop or ack', true, true);
    }

    public function execute(): void
    {
        [$what, $type, $id, $token] = $this->mArgs + [1 => null, 2 => null, 3 => null];
        $group = MediaWikiServices::getInstance()->getJobQueueGroup();
        if ($what === 'pop') {
            $job = $group->pop($type);
            $this->output("{$job->getMetadata('id')} {$job->getMetadata('token')}\n");
        } elseif ($what === 'ack') {
            $job = Job::factory($type, []);
            $job->setMetadata('id', $id);
            $job->setMetadata('token', $token);
            $group->ack($job);
        } else {
            $group->push(array_map(static fn (array $job) => Job::factory(...$job), json_decode($what, true)));
        }
    }
}

$maintClass = Push::class;
require_once RUN_MAINTENANCE_IF_MAIN;
