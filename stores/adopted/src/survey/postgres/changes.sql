-- How many rows of a table have been updated and deleted since it was made, as the server counts them.
select n_tup_upd::text, n_tup_del::text from pg_stat_all_tables where relid = to_regclass($1)
