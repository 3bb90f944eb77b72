-- Sums over what pgbench wrote (the same whatever the order of its transactions), then aggregates that fill memory.
select sum(abalance), md5(string_agg(aid::text || abalance, ',' order by aid)) from pgbench_accounts;
select count(*), sum(delta) from pgbench_history;
select md5(jsonb_agg(jsonb_build_object('n', n, 's', repeat('x', n % 300)))::text) from generate_series(1, 40000) n;
select count(distinct md5(n::text)), max(repeat(n::text, 20)) from generate_series(1, 100000) n;
