-- case 223: prepared-and-taken-back
-- class: transactions / two phases: keys, TRUNCATE and DDL in prepared transactions, some of which are rolled back
-- requires: max_prepared_transactions >= 3
DROP SCHEMA IF EXISTS case_223 CASCADE;
CREATE SCHEMA case_223;
SET search_path = case_223;
CREATE TABLE t (id int PRIMARY KEY, v text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE u (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'old', repeat(i::text, 4000) FROM generate_series(1, 10) i;
INSERT INTO u SELECT i, 'old' FROM generate_series(1, 10) i;
-- STEP: changes
SET search_path = case_223;
BEGIN; UPDATE t SET id = 100 WHERE id = 1; SAVEPOINT s; DELETE FROM t WHERE id = 2; ROLLBACK TO s; INSERT INTO t VALUES (11, 'prepared', NULL); PREPARE TRANSACTION 'case_223_a';
INSERT INTO u VALUES (11, 'between');
BEGIN; UPDATE t SET id = 300 WHERE id = 3; DELETE FROM t WHERE id = 4; PREPARE TRANSACTION 'case_223_b';
UPDATE t SET v = 'between' WHERE id = 5;
ROLLBACK PREPARED 'case_223_b';
UPDATE t SET v = 'as if nothing had been' WHERE id IN (3, 4);
COMMIT PREPARED 'case_223_a';
UPDATE t SET id = 1, v = 'back' WHERE id = 100;
BEGIN; TRUNCATE u; INSERT INTO u VALUES (1, 'after'); PREPARE TRANSACTION 'case_223_c';
ROLLBACK PREPARED 'case_223_c';
BEGIN; TRUNCATE u; INSERT INTO u VALUES (2, 'after'); PREPARE TRANSACTION 'case_223_d';
INSERT INTO t VALUES (12, 'while a table is locked', NULL);
COMMIT PREPARED 'case_223_d';
BEGIN; ALTER TABLE t ADD COLUMN w int DEFAULT 7; UPDATE t SET w = 8 WHERE id = 6; PREPARE TRANSACTION 'case_223_e';
COMMIT PREPARED 'case_223_e';
UPDATE t SET w = 9 WHERE id = 7;
-- STEP: cleanup
SELECT 1;
