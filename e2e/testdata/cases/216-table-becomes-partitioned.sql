-- case 216: table-becomes-partitioned
-- class: partitions / a plain table that becomes a part of a partitioned one under its old name, and back
DROP SCHEMA IF EXISTS case_216 CASCADE;
CREATE SCHEMA case_216;
SET search_path = case_216;
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'old' FROM generate_series(1, 50) i;
-- STEP: changes
SET search_path = case_216;
UPDATE t SET v = 'before' WHERE id = 1;
BEGIN;
ALTER TABLE t RENAME TO t_old;
CREATE TABLE t (LIKE t_old INCLUDING ALL) PARTITION BY RANGE (id);
ALTER TABLE t ATTACH PARTITION t_old FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE t_new PARTITION OF t FOR VALUES FROM (100) TO (MAXVALUE);
INSERT INTO t VALUES (60, 'in the same transaction'), (160, 'in the same transaction');
COMMIT;
UPDATE t SET id = id + 200 WHERE id < 10;
UPDATE t_old SET v = 'under the leaf''s name' WHERE id = 20;
DELETE FROM t WHERE id = 30;
BEGIN;                                                                          -- back: the rows of the second partition stay behind
ALTER TABLE t DETACH PARTITION t_old;
DROP TABLE t;
ALTER TABLE t_old RENAME TO t;
UPDATE t SET v = 'plain again' WHERE id = 40;
COMMIT;
INSERT INTO t SELECT i, 'after' FROM generate_series(300, 310) i;
