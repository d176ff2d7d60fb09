-- Everything Postroom keeps in this file is lost.
drop table postroom_inbox;
drop table postroom_receipt;
drop table postroom_attempt;
drop table postroom_delivery;
drop table postroom_checkpoint;
drop table postroom_lane;
drop table postroom_route;
drop table postroom_append_key;
drop table postroom_log;
drop table postroom_meta;
