-- case 205: enum-labels-renamed-amid-changes
-- class: DDL / labels that change places while rows change; an enum as key
DROP SCHEMA IF EXISTS case_205 CASCADE;
CREATE SCHEMA case_205;
SET search_path = case_205;
CREATE TYPE state AS ENUM ('open', 'shut', 'ajar');
CREATE TABLE door (id int PRIMARY KEY, s state, many state[]);
CREATE TABLE k (s state, n int, v text, PRIMARY KEY (s, n));
INSERT INTO door SELECT i, (enum_range(NULL::state))[1 + i % 3], enum_range(NULL::state) FROM generate_series(1, 12) i;
INSERT INTO k SELECT s, n, 'v' FROM unnest(enum_range(NULL::state)) s, generate_series(1, 3) n;
-- STEP: changes
SET search_path = case_205;
UPDATE door SET s = 'shut' WHERE id = 1;
BEGIN;                                                                          -- two labels change places: every row reads otherwise, none has an event
ALTER TYPE state RENAME VALUE 'open' TO 'tmp';
ALTER TYPE state RENAME VALUE 'shut' TO 'open';
ALTER TYPE state RENAME VALUE 'tmp' TO 'shut';
UPDATE door SET s = 'open' WHERE id = 2;
INSERT INTO k VALUES ('open', 4, 'written amid the renames');
COMMIT;
UPDATE door SET s = 'open' WHERE id = 3;
DELETE FROM k WHERE s = 'shut' AND n = 1;
UPDATE k SET v = 'w' WHERE s = 'open' AND n = 2;
ALTER TYPE state ADD VALUE 'half, open' BEFORE 'ajar';
UPDATE k SET s = 'half, open' WHERE s = 'ajar' AND n < 3;
ALTER TYPE state RENAME VALUE 'ajar' TO 'half "open"';
INSERT INTO k VALUES ('half "open"', 1, 'the place of one that moved');
DELETE FROM door WHERE s = 'half "open"' AND id > 6;
BEGIN; ALTER TYPE state RENAME VALUE 'open' TO 'never'; UPDATE door SET s = 'never'; ROLLBACK;
UPDATE door SET many = many || 'half, open'::state WHERE id < 4;
