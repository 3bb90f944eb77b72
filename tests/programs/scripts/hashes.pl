# Hashes of 100 000 arrays are built and dropped whole, three times; a child made by fork works on its copy meanwhile.
use strict;
use warnings;
use Digest::SHA 'sha256_hex';

my $child = fork() // die "fork: $!";
for my $turn (1 .. ($child ? 3 : 1)) {
  my %table = map { $_ => [$_, 'x' x ($_ % 100), { turn => $turn }] } 1 .. 100000;
  delete @table{grep { $_ % 3 == 0 } keys %table};
  my $sum = sha256_hex(join ',', map { "$_=$table{$_}[1]" } sort { $a <=> $b } keys %table);
  print "$turn ", scalar(keys %table), " $sum\n" if $child;
}
exit 0 unless $child;
waitpid($child, 0);
die "the child failed: $?" if $?;
