<?php
// With the engine's own heap switched off. For each line of the input takes much (take), drops 85 in 100 at random (thin) or
// everything (clear), and says so.
$kept = [];
while (($line = fgets(STDIN)) !== false) {
    if ($line === "take\n") {
        for ($i = 0; $i < 150000; $i++) $kept[] = ['id' => $i, 'text' => str_repeat('x', $i * 7919 % 600)];
    } elseif ($line === "thin\n") {
        mt_srand(1);
        $kept = array_values(array_filter($kept, fn($each) => mt_rand(0, 99) >= 85));
    } else {
        $kept = [];
    }
    echo count($kept), "\n";
}
