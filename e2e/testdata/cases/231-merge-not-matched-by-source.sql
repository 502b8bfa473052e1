-- case 231: merge-not-matched-by-source
-- class: MERGE WHEN NOT MATCHED BY SOURCE, RETURNING
-- @since: 17
-- requires: PostgreSQL 17+
DROP SCHEMA IF EXISTS case_231 CASCADE;
CREATE SCHEMA case_231;
SET search_path = case_231;
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text, id int);
INSERT INTO t SELECT i, 'old' FROM generate_series(1, 20) i;
-- STEP: changes
SET search_path = case_231;
WITH done AS (MERGE INTO t USING generate_series(10, 30) s (id) ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET v = 'kept'
  WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (s.id, 'new')
  WHEN NOT MATCHED BY SOURCE AND t.id < 5 THEN UPDATE SET id = t.id - 100
  WHEN NOT MATCHED BY SOURCE THEN DELETE
  RETURNING merge_action() AS what, t.id) INSERT INTO log (what, id) SELECT what, id FROM done;
UPDATE t SET v = 'after' WHERE id < 0;
ALTER TABLE log ADD COLUMN spell interval DEFAULT 'infinity';                   -- intervals have infinities from 17 on
INSERT INTO log (what, spell) VALUES ('x', '-infinity'), ('y', '1 day');
