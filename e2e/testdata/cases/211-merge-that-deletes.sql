-- case 211: merge-that-deletes
-- class: MERGE with deletes, moves of keys and of partitions
-- @since: 15
-- requires: PostgreSQL 15+ for MERGE
DROP SCHEMA IF EXISTS case_211 CASCADE;
CREATE SCHEMA case_211;
SET search_path = case_211;
CREATE TABLE t (id int PRIMARY KEY, v text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE p (id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
INSERT INTO t SELECT i, 'old', repeat(i::text, 4000) FROM generate_series(1, 20) i;
INSERT INTO p SELECT i, i % 2, 'old' FROM generate_series(1, 20) i;
-- STEP: changes
SET search_path = case_211;
MERGE INTO t USING generate_series(5, 25) s (id) ON t.id = s.id
  WHEN MATCHED AND t.id % 4 = 0 THEN DELETE
  WHEN MATCHED AND t.id % 4 = 1 THEN UPDATE SET id = t.id + 100
  WHEN MATCHED AND t.id % 4 = 2 THEN DO NOTHING
  WHEN MATCHED THEN UPDATE SET v = 'merged'
  WHEN NOT MATCHED AND s.id % 2 = 0 THEN INSERT VALUES (s.id, 'new', NULL);
BEGIN;                                                                          -- the same keys again in one transaction
MERGE INTO t USING (VALUES (1), (2), (3)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO t USING (VALUES (1, 'one'), (2, 'two')) s (id, v) ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v) WHEN MATCHED THEN DELETE;
SAVEPOINT a;
MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN DELETE;
ROLLBACK TO a;
COMMIT;
MERGE INTO p USING generate_series(1, 24) s (id) ON p.id = s.id
  WHEN MATCHED AND p.id < 6 THEN UPDATE SET part = 1 - p.part                   -- to the other partition
  WHEN MATCHED AND p.id < 10 THEN DELETE
  WHEN MATCHED THEN UPDATE SET v = 'merged ' || p.id
  WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.id % 2, 'new');
