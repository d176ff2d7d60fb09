-- psql -v ON_ERROR_STOP=1 "$DATABASE_URL" -f psql.sql

-- The producer: the order and its event commit together, or neither does.
begin;
insert into orders (id, total) values ('order-7', 4200);
select postroom.append('order.placed', 'order-7', '{"total": 4200}') as event_id \gset
commit;

-- The consumer: the id is remembered in the transaction of the effect, so a second delivery changes nothing.
begin;
select postroom.accept('books', :'event_id') as is_new \gset
\if :is_new
  insert into booked (order_id, total) values ('order-7', 4200);
\endif
commit;
