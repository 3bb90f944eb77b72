-- What each of four clients does with its own part of the rows, at the same time as the others.
update t set body = concat(body, '$PART') where id mod 4 = $PART;
select name, group_concat(id order by id) from t where id mod 4 = $PART group by name limit 50;
select count(*), md5(group_concat(left(body, 5) order by id)) from t where id mod 4 = $PART;
