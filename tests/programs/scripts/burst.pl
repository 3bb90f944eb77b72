# For each line of the input takes much (take), drops 85 in 100 at random (thin) or everything (clear), and says so.
$| = 1;
my $kept = [];
while (my $line = <STDIN>) {
    if ($line eq "take\n") {
        push @$kept, { id => $_, text => 'x' x ($_ * 7919 % 600) } for 1 .. 120_000;
    } elsif ($line eq "thin\n") {
        srand 1;
        $kept = [grep { rand() >= 0.85 } @$kept];
    } else {
        $kept = [];
    }
    print scalar(@$kept), "\n";
}
