begin;

-- Every parameter has a name; what is left out has a default.
select postroom.append('order.paid', aggregate_type => 'order', aggregate_id => 'order-7', payload => '{"total": 4200}',
  tenant => 'acme', headers => '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
  attributes => '{"station_id": 12}', correlation_id => 'request-31', schema_version => 2,
  occurred_at => '2026-11-01T09:30:00Z');

-- A payload that is not JSON, kept byte for byte.
select postroom.append_bytes('label.printed', 'order-7', '\x255044462d312e37', 'application/pdf');

-- Several, numbered in this order; the names are those of append's parameters. Gives back one id per row.
select postroom.append_many('[
  {"type": "order.packed", "key": "order-7", "payload": {"boxes": 2}},
  {"type": "order.shipped", "key": "order-7", "id": "shipment-7", "causation_id": "request-31"}
]');

-- Once per idempotency key: the second call appends nothing and gives back null, so a repeated request is harmless.
select postroom.append_once('request-31', 'order.cancelled', 'order-7');
select postroom.append_once('request-31', 'order.cancelled', 'order-7');

-- For writers that do not lock the row their events are about: waits for other transactions that append to the key.
select postroom.append_ordered('order.noted', 'order-7', '{"note": "ring twice"}');

-- Delayed until this time; it blocks no other event meanwhile.
select postroom.append('order.reminded', 'order-7', available_at => now() + interval '1 hour');

commit;
