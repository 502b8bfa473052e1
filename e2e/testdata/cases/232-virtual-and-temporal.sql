-- case 232: virtual-and-temporal
-- class: virtual generated columns, keys WITHOUT OVERLAPS, old and new in RETURNING
-- @since: 18
-- requires: PostgreSQL 18+, extension btree_gist
DROP SCHEMA IF EXISTS case_232 CASCADE;
CREATE SCHEMA case_232;
CREATE EXTENSION IF NOT EXISTS btree_gist SCHEMA public;
SET search_path = case_232, public;
CREATE TABLE v (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) VIRTUAL, thrice int GENERATED ALWAYS AS (n * 3) STORED, w text);
CREATE TABLE period (id int, during daterange, v text, PRIMARY KEY (id, during WITHOUT OVERLAPS));
CREATE TABLE k (id uuid DEFAULT uuidv7() PRIMARY KEY, v text);
INSERT INTO v (id, n, w) SELECT i, i, 'w' FROM generate_series(1, 10) i;
INSERT INTO period SELECT i % 3, daterange('2024-01-01'::date + i * 10, '2024-01-01'::date + i * 10 + 10), 'old' FROM generate_series(1, 30) i;
INSERT INTO k (v) SELECT 'v' || i FROM generate_series(1, 10) i;
-- STEP: changes
SET search_path = case_232, public;
UPDATE v SET n = 100 WHERE id = 1; UPDATE v SET id = 20 WHERE id = 2;
ALTER TABLE v ADD COLUMN more text GENERATED ALWAYS AS (w || id) VIRTUAL;
UPDATE v SET w = 'x' WHERE id = 3;
UPDATE period SET v = 'new' WHERE id = 1 AND during @> '2024-02-15'::date;
UPDATE period SET during = daterange(lower(during), upper(during) - 1) WHERE id = 2;
DELETE FROM period WHERE id = 0 AND during && '[2024-03-01,2024-06-01)';
INSERT INTO period VALUES (0, '[2024-03-05,2024-05-01)', 'new');
WITH c AS (UPDATE k SET v = 'changed' WHERE v < 'v3' RETURNING old.v AS was, new.id) INSERT INTO k (v) SELECT was FROM c;
