# 50 000 strings grow by concatenation until they are long, then start anew: each step is a realloc of another size.
{
  key = $1 % 50000
  table[key] = table[key] $1
  if (length(table[key]) > 60) { full += length(table[key]); table[key] = "" }
}
END { for (key in table) left += length(table[key]); print length(table), full, left }
