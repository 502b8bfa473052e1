-- case 228: updates-that-change-nothing
-- class: updates / rows written anew as they were, locked, skipped, rewritten by the server
DROP SCHEMA IF EXISTS case_228 CASCADE;
CREATE SCHEMA case_228;
SET search_path = case_228;
CREATE TABLE t (id int PRIMARY KEY, v text, big text) WITH (fillfactor = 50);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE quiet (id int PRIMARY KEY, v text);
CREATE TRIGGER z BEFORE UPDATE ON quiet FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE VIEW young AS SELECT id, v FROM t WHERE id < 100 WITH CHECK OPTION;
INSERT INTO t SELECT i, 'old', repeat(i::text, 4000) FROM generate_series(1, 50) i;
INSERT INTO quiet SELECT i, 'old' FROM generate_series(1, 50) i;
-- STEP: changes
SET search_path = case_228;
UPDATE t SET v = v; UPDATE quiet SET v = v;
BEGIN; SELECT count(*) FROM (SELECT FROM t WHERE id < 10 FOR UPDATE) x; SELECT count(*) FROM (SELECT FROM t WHERE id > 40 FOR NO KEY UPDATE SKIP LOCKED) x; COMMIT;
BEGIN; SELECT count(*) FROM (SELECT FROM t FOR SHARE) x; UPDATE t SET v = 'after the lock' WHERE id = 1; COMMIT;
UPDATE young SET v = 'through the view' WHERE id = 2; INSERT INTO young VALUES (60, 'through the view'); DELETE FROM young WHERE id = 3;
UPDATE t SET id = id WHERE id = 4; UPDATE t SET big = big || '' WHERE id = 5; UPDATE t SET big = reverse(reverse(big)) WHERE id = 6;
BEGIN; UPDATE t SET v = 'there' WHERE id = 7; UPDATE t SET v = 'old' WHERE id = 7; COMMIT;                    -- as it was
CLUSTER t USING t_pkey; UPDATE t SET v = 'clustered' WHERE id = 8;
VACUUM FULL t; UPDATE t SET v = 'vacuumed' WHERE id = 9;
ALTER TABLE t SET (fillfactor = 90), ALTER v SET STATISTICS 10; ANALYZE t; UPDATE t SET v = 'analyzed' WHERE id = 10;
BEGIN; ALTER TABLE t SET TABLESPACE pg_default, ALTER big SET STORAGE EXTENDED; UPDATE t SET v = 'stored otherwise' WHERE id = 11; COMMIT;
DO $$ BEGIN FOR i IN 1..300 LOOP UPDATE case_228.t SET v = 'hot ' || i WHERE id = 13; END LOOP; END $$;
UPDATE quiet SET v = CASE WHEN id % 2 = 0 THEN v ELSE 'odd' END;
