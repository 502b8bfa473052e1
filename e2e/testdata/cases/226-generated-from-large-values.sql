-- case 226: generated-from-large-values
-- class: generated columns / made of large values that an update leaves alone; they become plain ones
DROP SCHEMA IF EXISTS case_226 CASCADE;
CREATE SCHEMA case_226;
SET search_path = case_226;
CREATE TABLE t (id int PRIMARY KEY, big text, n int, long int GENERATED ALWAYS AS (length(big)) STORED, loud text GENERATED ALWAYS AS (upper(big)) STORED, v text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL, ALTER loud SET STORAGE EXTERNAL;
CREATE TABLE f (LIKE t INCLUDING ALL);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t (id, big, n, v) SELECT i, repeat('b' || i, 3000), i, 'old' FROM generate_series(1, 10) i;
INSERT INTO f (id, big, n, v) SELECT id, big, n, v FROM t;
-- STEP: changes
SET search_path = case_226;
UPDATE t SET n = -n WHERE id = 1; UPDATE f SET n = -n WHERE id = 1;                          -- all three large values are unchanged
UPDATE t SET id = 20, v = 'moved' WHERE id = 2; UPDATE f SET id = 20, v = 'moved' WHERE id = 2;
UPDATE t SET big = 'small' WHERE id = 3; UPDATE f SET big = 'small' WHERE id = 3;
UPDATE t SET big = NULL WHERE id = 4;
ALTER TABLE t ALTER long DROP EXPRESSION;                                                   -- from now on a column like any other: it appears in every row
UPDATE t SET v = 'w' WHERE id = 5; UPDATE t SET long = -1 WHERE id = 6; INSERT INTO t (id, big, n, long, v) VALUES (11, 'x', 1, 42, 'new');
ALTER TABLE t ALTER loud DROP EXPRESSION;                                                   -- one with large values of its own
UPDATE t SET n = 0 WHERE id = 7; UPDATE t SET id = 80 WHERE id = 8; UPDATE t SET loud = NULL WHERE id = 9;
ALTER TABLE f ADD COLUMN twice int GENERATED ALWAYS AS (n * 2) STORED, DROP COLUMN loud;    -- writes every row anew, none has an event
UPDATE f SET n = n + 1 WHERE id > 5;
DELETE FROM f WHERE id = 10;
