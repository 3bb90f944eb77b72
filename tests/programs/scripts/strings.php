<?php
// With the engine's own heap switched off, every string and array element is a block of the allocator.
$table = [];
for ($i = 0; $i < 600000; $i++) $table['k' . ($i % 100000)] = str_repeat('x', $i % 300);
$again = json_decode(json_encode($table), true);
if ($again !== $table) exit(1);
$words = preg_split('/a|b/', str_repeat('one a two b ', 20000));
sort($words);
echo count($again), ' ', md5(serialize($again)), ' ', count($words), ' ', implode(',', get_loaded_extensions()), "\n";
