-- Rows of scattered keys go into a table in memory; an index, a group_concat and a delete move them around.
create table t(a, b, c);
with recursive n(i) as (values (1) union all select i + 1 from n where i < 400000)
  insert into t select i, hex(printf('%d-%d', i * 2654435761 % 4294967296, i)), i % 1000 from n;
create index by_b on t(b);
select count(*), max(length(g)), sum(length(g)) from (select group_concat(b, '/') g from t group by c);
delete from t where a % 3 = 0;
update t set b = b || b where a % 5 = 0;
select count(*), sum(length(b)), min(b), max(b) from t;
pragma integrity_check;
