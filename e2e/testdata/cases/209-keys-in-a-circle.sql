-- case 209: keys-in-a-circle
-- class: keys / rotations of keys in one transaction, with large values that stay as they are
DROP SCHEMA IF EXISTS case_209 CASCADE;
CREATE SCHEMA case_209;
SET search_path = case_209;
CREATE TABLE t (id int PRIMARY KEY, v text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE c (a int, b text, big text, PRIMARY KEY (a, b));
ALTER TABLE c ALTER big SET STORAGE EXTERNAL;
INSERT INTO t SELECT i, 'v' || i, repeat('big ' || i || ' ', 1000) FROM generate_series(1, 12) i;
INSERT INTO c SELECT i, 'k' || i, repeat('big ' || i || ' ', 1000) FROM generate_series(1, 6) i;
-- STEP: changes
SET search_path = case_209;
BEGIN;                                                                          -- 1 to 2 to 3 to 1
UPDATE t SET id = -3 WHERE id = 3; UPDATE t SET id = 3 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 1; UPDATE t SET id = 1 WHERE id = -3;
COMMIT;
BEGIN;                                                                          -- the same circle twice in one transaction
UPDATE t SET id = -3 WHERE id = 6; UPDATE t SET id = 6 WHERE id = 5; UPDATE t SET id = 5 WHERE id = 4; UPDATE t SET id = 4 WHERE id = -3;
UPDATE t SET id = -3 WHERE id = 6; UPDATE t SET id = 6 WHERE id = 5; UPDATE t SET id = 5 WHERE id = 4; UPDATE t SET id = 4 WHERE id = -3;
UPDATE t SET v = 'w' WHERE id = 5;
COMMIT;
BEGIN;                                                                          -- a circle that one of them leaves
UPDATE t SET id = 100 WHERE id = 7; UPDATE t SET id = 7 WHERE id = 8; DELETE FROM t WHERE id = 100; UPDATE t SET id = 8, big = 'small' WHERE id = 9; INSERT INTO t VALUES (9, 'new', NULL);
COMMIT;
UPDATE t SET id = -id WHERE id > 9; UPDATE t SET id = 22 + id WHERE id < 0;     -- 10, 11, 12 become 12, 11, 10
BEGIN;                                                                          -- one part of the key at a time
UPDATE c SET a = 60 WHERE a = 1; UPDATE c SET b = 'k1' WHERE a = 2; UPDATE c SET a = 1 WHERE a = 2; UPDATE c SET a = 2, b = 'k2' WHERE a = 60;
COMMIT;
BEGIN; UPDATE c SET b = b || '!' WHERE a > 2; UPDATE c SET b = rtrim(b, '!') WHERE a > 2; COMMIT;
