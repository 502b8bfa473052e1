-- case 218: key-columns-renamed
-- class: DDL / columns of the key are renamed, change places, change their type
DROP SCHEMA IF EXISTS case_218 CASCADE;
CREATE SCHEMA case_218;
SET search_path = case_218;
CREATE TABLE t (a int, b int, v text, big text, PRIMARY KEY (a, b));
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE u (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, i * 10, 'old', repeat(i::text, 4000) FROM generate_series(1, 20) i;
INSERT INTO u SELECT i, 'old' FROM generate_series(1, 20) i;
-- STEP: changes
SET search_path = case_218;
UPDATE t SET v = 'before' WHERE a = 1;
ALTER TABLE t RENAME COLUMN a TO "The Key";
UPDATE t SET v = 'renamed' WHERE "The Key" = 2;
BEGIN;                                                                          -- the two key columns exchange their names: the key keeps its order
ALTER TABLE t RENAME COLUMN "The Key" TO x; ALTER TABLE t RENAME COLUMN b TO "The Key"; ALTER TABLE t RENAME COLUMN x TO b;
UPDATE t SET b = -b WHERE b = 3;
COMMIT;
UPDATE t SET "The Key" = "The Key" + 1 WHERE b = 4;
DELETE FROM t WHERE b = 5;
ALTER TABLE u ALTER id TYPE bigint;                                             -- the same texts, every row written anew
UPDATE u SET v = 'bigint' WHERE id = 1; INSERT INTO u VALUES (5000000000, 'needs it');
ALTER TABLE u ALTER id TYPE numeric(20, 2);                                     -- every key reads otherwise
UPDATE u SET v = 'numeric' WHERE id = 2; DELETE FROM u WHERE id = 3; UPDATE u SET id = 4.25 WHERE id = 4;
ALTER TABLE u ALTER id TYPE text USING 'k' || id;
UPDATE u SET v = 'text' WHERE id = 'k6.00'; INSERT INTO u VALUES ('k3.00', 'again');
BEGIN; ALTER TABLE u RENAME COLUMN id TO old_id; ALTER TABLE u ADD COLUMN id int GENERATED ALWAYS AS IDENTITY; ALTER TABLE u DROP CONSTRAINT u_pkey; ALTER TABLE u ADD PRIMARY KEY (id); UPDATE u SET v = 'new key' WHERE id = 7; COMMIT;
ALTER TABLE u DROP COLUMN old_id;
DELETE FROM u WHERE id = 8;
