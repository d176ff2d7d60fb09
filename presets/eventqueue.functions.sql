-- Functions for programs that share the table. They read tables of Postroom's own, which `postroom store migrate up` or the
-- first relay makes; either also makes these functions.

create schema if not exists postroom;

create or replace function "postroom".publish(event_type text, payload jsonb) returns "public"."event_queue" language plpgsql as $postroom$
declare
  postroom_type "public"."event_queue"."event_type"%type := $1;
  postroom_payload "public"."event_queue"."payload"%type := $2;
  postroom_event "public"."event_queue";
begin
  insert into "public"."event_queue" ("event_type", "payload", "status", "attempts") values (postroom_type, postroom_payload, 'PENDING', 0) returning * into postroom_event;
  return postroom_event;
end
$postroom$;
create or replace function "postroom".finalize(id bigint, errors jsonb default '[]', attempts integer default null) returns boolean language plpgsql as $postroom$
declare
  postroom_event "public"."event_queue";
begin
  delete from "public"."event_queue" as t where t."id" = $1 and ($3 is null or t."attempts" = $3) returning t.* into postroom_event;
  if not found then
    return false;
  end if;
  insert into "public"."event_log" ("status", "errors", "finalized_at", "attempts", "created_at", "event_type", "id", "payload") overriding system value values (case when jsonb_array_length($2) = 0 then 'COMPLETED'::text else 'COMPLETED_WITH_ERRORS'::text end, $2::text::jsonb, statement_timestamp(), postroom_event."attempts", postroom_event."created_at", postroom_event."event_type", postroom_event."id", postroom_event."payload") on conflict do nothing;
  delete from "postroom"."sidecar" s where s.mapping = 'public.event_queue' and s.row_id = $1::text;
  return true;
end
$postroom$;
create or replace function "postroom".poll(abandoned_after interval default 60000000 * interval '1 microsecond') returns setof "public"."event_queue" language plpgsql as $postroom$
declare
  postroom_event "public"."event_queue";
begin
  loop
    with picked as materialized (
      select t."id" as postroom_row from "public"."event_queue" t
      where (t."status" = 'PENDING' or t."status" = 'PROCESSING' and (t."updated_at" < statement_timestamp() - $1 or t."updated_at" > statement_timestamp() + $1))
      and not exists (select 1 from "postroom"."sidecar" s where s.mapping = 'public.event_queue' and s.row_id = t."id"::text and s.due > statement_timestamp() offset 0)
      order by t."id" limit 1 for update of t skip locked)
    update "public"."event_queue" as t set "status" = 'PROCESSING', "updated_at" = statement_timestamp(), "attempts" = coalesce(t."attempts", 0) + 1
    from picked where t."id" = picked.postroom_row returning t.* into postroom_event;
    exit when not found;
    return next postroom_event;
    exit;
  end loop;
end
$postroom$;
