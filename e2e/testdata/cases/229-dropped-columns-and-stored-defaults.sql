-- case 229: dropped-columns-and-stored-defaults
-- class: DDL / rows of several ages: columns that a row was written without, and values that nothing names any more
DROP SCHEMA IF EXISTS case_229 CASCADE;
CREATE SCHEMA case_229;
SET search_path = case_229;
CREATE TABLE t (gone1 int, id int, gone2 text, v text, PRIMARY KEY (id));
INSERT INTO t SELECT i, i, repeat('g', 3000), 'first age' FROM generate_series(1, 10) i;
ALTER TABLE t DROP COLUMN gone1;
INSERT INTO t SELECT i, 'g', 'second age' FROM generate_series(11, 20) i;
ALTER TABLE t ADD COLUMN a int DEFAULT 42, ADD COLUMN b text[] DEFAULT '{x,NULL}';
INSERT INTO t SELECT i, 'g', 'third age' FROM generate_series(21, 30) i;
-- STEP: changes
SET search_path = case_229;
UPDATE t SET v = 'changed' WHERE id IN (1, 11, 21);
ALTER TABLE t DROP COLUMN gone2;
UPDATE t SET v = 'changed again' WHERE id IN (2, 12, 22);
ALTER TABLE t ALTER a SET DEFAULT 43;                                           -- of rows to come alone
INSERT INTO t VALUES (31, 'fourth age');
ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN a text DEFAULT 'another a';
UPDATE t SET a = NULL WHERE id IN (3, 13, 23);
ALTER TABLE t ADD COLUMN k uuid DEFAULT gen_random_uuid();                      -- another value in each row: all are written anew
UPDATE t SET id = -id WHERE id < 5;
BEGIN; ALTER TABLE t ADD COLUMN c int; UPDATE t SET c = id; ALTER TABLE t DROP COLUMN b, ALTER c TYPE numeric(6, 1), ALTER c SET NOT NULL; UPDATE t SET c = c / 4 WHERE id > 28; COMMIT;
BEGIN; ALTER TABLE t ADD COLUMN never int DEFAULT 1; UPDATE t SET v = 'never'; ROLLBACK;
ALTER TABLE t ADD COLUMN last jsonb DEFAULT '{"a": 1.10}', ALTER v TYPE varchar(30);
DELETE FROM t WHERE id = 31;
