<?php

declare(strict_types=1);

// Loads the classes of the library, for programs without Composer.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Counterd\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, 9), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        } else {
            require_once __DIR__ . '/errors.php';
        }
    }
});
