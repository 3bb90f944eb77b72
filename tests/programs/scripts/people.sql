-- Rows of growing width for MariaDB, spread over the names.
create table t (id int primary key, name varchar(200), body text, key (name)) engine=innodb;
insert into t select seq, concat('name', seq * 7919 mod 10007), repeat('x', seq mod 500) from seq_1_to_20000;
