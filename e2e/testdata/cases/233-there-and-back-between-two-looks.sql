-- case 233: there-and-back-between-two-looks
-- class: DDL / what is taken back at once, with rows written in between: the catalog looks as before
DROP SCHEMA IF EXISTS case_233 CASCADE;
CREATE SCHEMA case_233;
SET search_path = case_233;
CREATE TYPE state AS ENUM ('open', 'shut');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE a (id int PRIMARY KEY, v text);
CREATE TABLE b (id int PRIMARY KEY, v text);
CREATE TABLE c (id int PRIMARY KEY, v text, last int DEFAULT 1);
CREATE TABLE d (id int PRIMARY KEY, s state, p pair);
CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (100) TO (200);
CREATE TABLE renamed (id int PRIMARY KEY, v text);
INSERT INTO a SELECT i, 'a' FROM generate_series(1, 20) i; INSERT INTO b SELECT i, 'b' FROM generate_series(1, 10) i; INSERT INTO c SELECT i, 'c' FROM generate_series(1, 10) i;
INSERT INTO d SELECT i, 'open', ROW(i, 'x')::pair FROM generate_series(1, 10) i; INSERT INTO p SELECT i * 10, 'p' FROM generate_series(0, 19) i; INSERT INTO renamed SELECT i, 'r' FROM generate_series(1, 10) i;
-- STEP: changes
SET search_path = case_233;
ALTER TABLE renamed RENAME TO aside; UPDATE aside SET v = 'under another name' WHERE id < 3; DELETE FROM aside WHERE id = 5; ALTER TABLE aside RENAME TO renamed;
BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; COMMIT;              -- two exchange their names
UPDATE a SET v = 'is b' WHERE id < 3; INSERT INTO b VALUES (30, 'is a'); DELETE FROM b WHERE id = 20;
BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; COMMIT;              -- and have them back
BEGIN; ALTER TABLE c DROP COLUMN last; ALTER TABLE c ADD COLUMN last int DEFAULT 2; COMMIT;                  -- the same name and type in the same place, other values
ALTER TABLE p DETACH PARTITION p0; UPDATE p0 SET v = 'while it was away' WHERE id < 30; DELETE FROM p0 WHERE id = 40; ALTER TABLE p ATTACH PARTITION p0 FOR VALUES FROM (0) TO (100);
ALTER TYPE state RENAME VALUE 'open' TO 'tmp'; UPDATE d SET s = 'tmp' WHERE id = 1; INSERT INTO d VALUES (11, 'tmp', NULL); ALTER TYPE state RENAME VALUE 'tmp' TO 'open';
ALTER TYPE pair RENAME ATTRIBUTE a TO tmp; UPDATE d SET p.tmp = 77 WHERE id = 2; ALTER TYPE pair RENAME ATTRIBUTE tmp TO a;
