-- case 219: identity-index-made-anew
-- class: DDL / the index that is the replica identity is dropped, made anew, exchanged
DROP SCHEMA IF EXISTS case_219 CASCADE;
CREATE SCHEMA case_219;
SET search_path = case_219;
CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL, n int NOT NULL, v text);
CREATE UNIQUE INDEX t_code ON t (code);
ALTER TABLE t REPLICA IDENTITY USING INDEX t_code;
CREATE TABLE keyless (code text NOT NULL, n int NOT NULL, v text);
CREATE UNIQUE INDEX keyless_a ON keyless (code) INCLUDE (v);
CREATE UNIQUE INDEX keyless_b ON keyless (n DESC, code);
ALTER TABLE keyless REPLICA IDENTITY USING INDEX keyless_a;
INSERT INTO t SELECT i, 'c' || i, i, 'old' FROM generate_series(1, 20) i;
INSERT INTO keyless SELECT 'c' || i, i % 5, 'old' FROM generate_series(1, 20) i;
-- STEP: changes
SET search_path = case_219;
UPDATE t SET code = 'x1', v = 'by the index' WHERE id = 1;
DROP INDEX t_code;                                                              -- the identity points nowhere: UPDATE and DELETE would fail, INSERT does not
INSERT INTO t VALUES (21, 'c21', 21, 'without an identity');
CREATE UNIQUE INDEX t_code ON t (code);                                         -- the same name is not the identity again
ALTER TABLE t REPLICA IDENTITY USING INDEX t_code;
UPDATE t SET code = 'x2', v = 'by the new index' WHERE id = 2; DELETE FROM t WHERE code = 'c3';
REINDEX INDEX t_code;
UPDATE t SET v = 'reindexed' WHERE code = 'c4';
BEGIN; ALTER TABLE t REPLICA IDENTITY DEFAULT; UPDATE t SET code = 'x5' WHERE id = 5; DROP INDEX t_code; UPDATE t SET id = 106 WHERE id = 6; COMMIT;
UPDATE t SET id = 107 WHERE id = 7;
UPDATE keyless SET code = 'y1' WHERE code = 'c1';
ALTER TABLE keyless REPLICA IDENTITY USING INDEX keyless_b;                     -- the key is another: two columns, in another order
UPDATE keyless SET n = 9 WHERE code = 'c2'; UPDATE keyless SET v = 'w' WHERE code = 'c3'; DELETE FROM keyless WHERE n = 4;
DROP INDEX keyless_a;
REINDEX TABLE CONCURRENTLY keyless;                                             -- puts another index in its place
UPDATE keyless SET code = 'z' || code WHERE n = 1;
ALTER TABLE keyless ADD COLUMN id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY;
ALTER TABLE keyless REPLICA IDENTITY DEFAULT;
DELETE FROM keyless WHERE id = 10;
