-- Appends one event in the caller's transaction; number order is commit order, because there is one writer at a time.
insert into postroom_log (
  id, type, key, aggregate_type, aggregate_id, tenant, content_type, headers, attributes,
  correlation_id, causation_id, schema_version, occurred_at, available_at, appended_at, payload
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
