<?php

declare(strict_types=1);

/**
 * A job that notes its run in the file $T_MW_RUNS. Its parameters: `hang`, the first run does not end; `together`, a
 * run ends when so many processes have begun one; `kill`, end the runner by SIGKILL; `fail`, end badly;
 * `removeDuplicates`.
 */
class RecordedJob extends Job implements GenericParameterJob
{
    public function __construct(array $params)
    {
        parent::__construct('recorded', $params);
        $this->removeDuplicates = !empty($params['removeDuplicates']);
    }

    /** Adds a line: words, the process, the time. */
    public static function note(string ...$words): void
    {
        $line = implode(' ', $words) . ' ' . getmypid() . ' ' . sprintf('%.3f', microtime(true)) . "\n";
        file_put_contents(getenv('T_MW_RUNS'), $line, FILE_APPEND);
    }

    /** How many processes have begun runs. */
    private static function processes(): int
    {
        preg_match_all('/^run \S+ \S+ (\d+)/m', file_get_contents(getenv('T_MW_RUNS')), $found);
        return count(array_unique($found[1]));
    }

    public function run(): bool
    {
        self::note('run', $this->getType(), (string)($this->params['n'] ?? '-'));
        if (!empty($this->params['hang']) && $this->getMetadata('attempts') === 1) {
            sleep(600);
        }
        $end = microtime(true) + 20;
        while (self::processes() < ($this->params['together'] ?? 0) && microtime(true) < $end) {
            usleep(10000);
        }
        if (!empty($this->params['kill'])) {
            posix_kill(getmypid(), SIGKILL);
        }
        mt_srand(1); // one failure in 50 makes MediaWiki's runners rest: not these
        return empty($this->params['fail']);
    }
}
