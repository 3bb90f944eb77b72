<?php
// With the engine's own heap switched off, every string and array element is a block of the allocator.
// With the argument "rounds", does one round for each line of the input and answers each with one line.
function play(int $turn): string
{
    $table = [];
    for ($i = 0; $i < 600000; $i++) $table['k' . ($i % 100000)] = str_repeat('x', ($i + $turn) % 300);
    $again = json_decode(json_encode($table), true);
    if ($again !== $table) exit(1);
    $words = preg_split('/a|b/', str_repeat('one a two b ', 20000));
    sort($words);
    return count($again) . ' ' . md5(serialize($again)) . ' ' . count($words);
}

if (($argv[1] ?? '') === 'rounds') {
    while (($line = fgets(STDIN)) !== false) echo play((int)$line), "\n";
} else {
    echo play(0), ' ', implode(',', get_loaded_extensions()), "\n";
}
