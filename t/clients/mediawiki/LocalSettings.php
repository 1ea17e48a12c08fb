<?php

/**
 * The settings of the wiki under test. The environment says where it is:
 * T_MW_DATA, the folder of the database; T_MW_URL, the server; T_MW_RUNS, the file that gets a line for each run of a
 * job; T_MW_EXTENSION, the folder of the extension.
 */

declare(strict_types=1);

use Counterd\MediaWiki\JobQueue;
use Counterd\MediaWiki\PoolCounter;

$wgSitename = 'Wiki';
$wgServer = 'http://127.0.0.1';
$wgScriptPath = '/w';
$wgSecretKey = str_repeat('0123456789abcdef', 4);
$wgDBtype = 'sqlite';
$wgDBname = 'wiki';
$wgSQLiteDataDir = getenv('T_MW_DATA');
$wgTmpDirectory = getenv('T_MW_DATA');
$wgLocalisationCacheConf['storeDirectory'] = getenv('T_MW_DATA');
$wgLocalisationCacheConf['store'] = 'array';
$wgMainCacheType = CACHE_NONE;
$wgJobRunRate = 0;
$wgShowExceptionDetails = true;
$wgPhpCli = PHP_BINARY;
$wgDebugLogGroups['Counterd'] = getenv('T_MW_DATA') . '/counterd.log';

wfLoadExtension('Counterd', getenv('T_MW_EXTENSION') . '/extension.json');
$wgCounterdUrl = getenv('T_MW_URL');
$wgPoolCounterConf = [
    'ArticleView' => [
        'class' => PoolCounter::class,
        'timeout' => 60,
        'workers' => 1,
        'maxqueue' => 100,
    ],
];
// Jobs that failed stay away while a test counts runs.
$wgJobTypeConf['default'] = ['class' => JobQueue::class, 'claimTTL' => 3600, 'backoff' => 3600];
$wgJobTypeConf['failing'] = ['backoff' => 1] + $wgJobTypeConf['default'];
$wgJobQueueMigrationConfig = [
    'db' => ['class' => JobQueueDB::class, 'claimTTL' => 3600],
    'counterd' => $wgJobTypeConf['default'],
];

$wgAutoloadClasses['RecordedJob'] = __DIR__ . '/RecordedJob.php';
foreach (['one', 'two', 'three', 'fatal', 'long', 'later', 'root', 'moved', 'leased', 'failing'] as $type) {
    $wgJobClasses[$type] = RecordedJob::class;
}
for ($number = 0; $number < 100; $number++) {
    $wgJobClasses["case$number"] = RecordedJob::class;
}
