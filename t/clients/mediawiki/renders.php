<?php

/**
 * Renders a page in many processes at once, as a web server does when a page is popular and was just edited.
 *
 *     T_MW_NO_CACHE=1 php renders.php --create PAGE...        makes pages whose parse takes a second, but for "Quick"
 *     php renders.php --count N PAGE          prints a line for each process: "ok" or an error, and the seconds
 */

declare(strict_types=1);

use MediaWiki\MediaWikiServices;
use MediaWiki\Revision\SlotRecord;

require_once getenv('MW_INSTALL_PATH') . '/maintenance/Maintenance.php';

class Renders extends Maintenance
{
    public function __construct()
    {
        parent::__construct();
        $this->addArg('page', 'Title', true, true);
        $this->addOption('create', 'Make these pages');
        $this->addOption('count', 'Number of processes', false, true);
    }

    public function execute(): void
    {
        if (!$this->hasOption('create')) {
            $this->renderAtOnce((int)$this->getOption('count'), $this->getArg(0));
            return;
        }
        foreach ($this->mArgs as $page) {
            $text = $page === 'Quick' ? 'quick' : '<slow/>';
            $updater = MediaWikiServices::getInstance()->getWikiPageFactory()->newFromTitle(Title::newFromText($page))
                ->newPageUpdater(User::newSystemUser('Tester', ['steal' => true]));
            $updater->setContent(SlotRecord::MAIN, new WikitextContent("A page that is $text."));
            $updater->saveRevision(CommentStoreComment::newUnsavedComment('test'));
        }
    }

    private function renderAtOnce(int $count, string $page): void
    {
        $this->render('Quick', ''); // loads classes for all of them
        file_put_contents(getenv('T_MW_RUNS'), '');
        // No child may share the database's connection.
        MediaWikiServices::getInstance()->getDBLoadBalancerFactory()->destroy();
        MediaWikiServices::resetChildProcessServices();
        $children = [];
        for ($number = 0; $number < $count; $number++) {
            $child = pcntl_fork();
            if ($child === 0) {
                $this->render('Quick', ''); // from the cache
                RecordedJob::note('ready');
                $notes = getenv('T_MW_RUNS');
                while (preg_match_all('/^ready /m', file_get_contents($notes)) < $count) {
                    usleep(10000);
                }
                $this->render($page);
                posix_kill(getmypid(), SIGKILL); // no end of a script that the parent will have, too
            }
            $children[] = $child;
        }
        foreach ($children as $child) {
            pcntl_waitpid($child, $status);
        }
    }

    private function render(string $page, string $format = "%.3f %s\n"): void
    {
        $begun = microtime(true);
        try {
            $services = MediaWikiServices::getInstance();
            $status = $services->getParserOutputAccess()->getParserOutput(
                $services->getWikiPageFactory()->newFromTitle(Title::newFromText($page)),
                ParserOptions::newFromAnon()
            );
            $is = $status->isGood() && preg_match('/A page that is (slow|quick)\./', $status->getValue()->getText());
            $said = $is ? 'ok' : 'wrong: ' . $status->getWikiText(false, false, 'en');
        } catch (Throwable $e) {
            $said = get_class($e) . ': ' . $e->getMessage();
        }
        fwrite(STDOUT, sprintf($format, microtime(true) - $begun, strtr($said, "\n", ' ')));
    }
}

$maintClass = Renders::class;
require_once RUN_MAINTENANCE_IF_MAIN;
