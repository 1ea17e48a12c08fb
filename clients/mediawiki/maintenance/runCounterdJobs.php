<?php

declare(strict_types=1);

namespace Counterd\MediaWiki;

use Counterd\Client;
use Counterd\CounterError;
use Counterd\Failed;
use Maintenance;
use MediaWiki\Shell\Shell;
use MediaWiki\WikiMap\WikiMap;

// phpcs:disable PSR1.Files.SideEffects -- MediaWiki's scripts load what runs the class that they name.
// __DIR__ is not below MediaWiki if extensions/Counterd is a link: the path that was called is.
$script = $_SERVER['SCRIPT_FILENAME'];
$script = $script[0] === '/' ? $script : getcwd() . "/$script";
foreach ([getenv('MW_INSTALL_PATH'), dirname($script, 4), dirname($script, 2), dirname(__DIR__, 3)] as $IP) {
    if (is_file("$IP/maintenance/Maintenance.php")) {
        break;
    }
    $IP = null;
}
if ($IP === null) {
    fwrite(STDERR, "runCounterdJobs.php does not find MediaWiki: set MW_INSTALL_PATH to its folder.\n");
    exit(1);
}
require_once "$IP/maintenance/Maintenance.php";

/**
 * Runs jobs of the wikis of $wgLocalDatabases, or of this one, as they come: waits until a queue has some, and runs
 * runJobs.php for it. Queues take turns by name. Several of these may run side by side.
 */
class RunCounterdJobs extends Maintenance
{
    /** Seconds of one question to the server at most, and rest of a queue whose jobs could not be run. */
    private const WAIT = 30;
    private const PAGE = 1000;

    public function __construct()
    {
        parent::__construct();
        $this->addDescription('Run jobs of all wikis of a farm, as they come');
        $this->addOption('url', 'Server of the queues, if it is not $wgCounterdUrl', false, true);
        $this->addOption('maxjobs', 'Jobs of a queue in each turn; default: 100', false, true);
        $this->addOption('maxtime', 'End after so many seconds, when the turn is over; default: never', false, true);
        $this->addOption('once', 'End when no queue has jobs');
        $this->requireExtension('Counterd');
    }

    public function execute(): bool
    {
        try {
            $this->takeTurns(Clients::get($this->getOption('url')), (float)$this->getOption('maxtime', INF));
        } catch (CounterError $e) {
            $this->fatalError("Counterd does not say which queues have jobs: {$e->getMessage()}");
        }
        return true;
    }

    private function takeTurns(Client $client, float $seconds): void
    {
        $end = microtime(true) + $seconds;
        $resting = []; // tube => when it may have its next turn
        $pause = 1;
        do {
            $isIdle = false;
            try {
                $isIdle = $this->takeTurn($client, $end, $resting);
                $pause = 1;
            } catch (Failed $e) {
                if ($this->hasOption('once') || microtime(true) + $pause >= $end) {
                    throw $e;
                }
                $this->error("Counterd is asked again in $pause s: {$e->getMessage()}");
                sleep($pause);
                $pause = min(self::WAIT, 2 * $pause);
            }
        } while (microtime(true) < $end && !($isIdle && $this->hasOption('once')));
    }

    /**
     * Waits until there are jobs, and lets each queue that has some run once. Returns whether none could.
     *
     * @param array<string, float> $resting
     */
    private function takeTurn(Client $client, float $end, array &$resting): bool
    {
        $after = '';
        $isIdle = true;
        $resting = array_filter($resting, static fn (float $until): bool => $until > microtime(true));
        $wait = $this->hasOption('once') ? 0.0 : min(self::WAIT, max(0.0, $end - microtime(true)));
        while ($page = $client->ready('*', after: $after, limit: self::PAGE, timeout: $after === '' ? $wait : 0)) {
            foreach (array_keys($page) as $tube) {
                $after = (string)$tube;
                // Another runner may have emptied it since the page came.
                if (!isset($resting[$after]) && microtime(true) < $end && $client->ready($after, limit: 1)) {
                    $resting[$after] = $this->runJobs($after);
                    $isIdle = $isIdle && $resting[$after] > 0;
                }
            }
        }
        if ($isIdle && $after !== '' && !$this->hasOption('once')) {
            sleep(1); // all that have jobs are resting
        }
        return $isIdle;
    }

    /** Runs jobs of a tube. Returns 0 if it may go on at once, else when. */
    private function runJobs(string $tube): float
    {
        [$domain, $type] = JobQueue::wikiOf($tube) ?? ['', ''];
        $wiki = $domain === '' ? '' : WikiMap::getWikiIdFromDbDomain($domain);
        $wikis = $this->getConfig()->get('LocalDatabases') ?: [WikiMap::getCurrentWikiId()];
        if (!in_array($wiki, $wikis, true)) {
            return microtime(true) + self::WAIT; // of another farm or program
        }
        $result = Shell::makeScriptCommand(MW_INSTALL_PATH . '/maintenance/runJobs.php', [
            '--wiki', $wiki, '--type', $type, '--maxjobs', $this->getOption('maxjobs', '100'), '--result', 'json',
        ])->restrict(Shell::RESTRICT_NONE)
            ->limits(['time' => 0, 'walltime' => 0, 'memory' => 0, 'filesize' => 0])
            ->execute();
        $said = json_decode($result->getStdout(), true);
        if (!is_array($said) || $result->getExitCode() !== 0) {
            $this->error("$wiki $type: runJobs.php ended with {$result->getExitCode()}: " .
                substr(trim($result->getStdout() . $result->getStderr()), 0, 1000));
        }
        $jobs = $said['jobs'] ?? [];
        $failed = count(array_filter($jobs, static fn (array $job): bool => $job['status'] !== 'ok'));
        $this->output("$wiki $type: " . count($jobs) . " run, $failed failed\n");
        if (!$jobs) {
            return (float)($said['backoffs'][$type] ?? microtime(true) + self::WAIT);
        }
        // What makes jobs fail may end soon: a second for each, so that not all jobs of the queue meet it.
        return $failed && !$this->hasOption('once') ? microtime(true) + min(self::WAIT, $failed) : 0.0;
    }
}

$maintClass = RunCounterdJobs::class;
require_once RUN_MAINTENANCE_IF_MAIN;
