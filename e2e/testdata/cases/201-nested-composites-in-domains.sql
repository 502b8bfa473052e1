-- case 201: nested-composites-in-domains
-- class: data types / composites in arrays in domains in composites
DROP SCHEMA IF EXISTS case_201 CASCADE;
CREATE SCHEMA case_201;
SET search_path = case_201;
CREATE TYPE leaf AS (n numeric, t text, at timestamptz, b bytea);
CREATE DOMAIN good_leaf AS leaf CHECK ((VALUE).n IS NULL OR (VALUE).n <> 0);     -- a domain over a composite
CREATE TYPE branch AS (leaves leaf[], name text, doc jsonb, best good_leaf);
CREATE DOMAIN forest AS branch[] CHECK (cardinality(VALUE) < 10);               -- a domain over an array of composites
CREATE TYPE world AS (f forest, rest good_leaf[], "Odd ""name" text);
CREATE TABLE t (id int PRIMARY KEY, f forest, w world, many world[]);
INSERT INTO t VALUES
  (1, NULL, NULL, NULL),
  (2, '{}', ROW('{}', '{}', ''), '{}'),
  (3, ARRAY[ROW(ARRAY[ROW(1.10, 'a "quoted" \ {text}', '2024-02-03 04:05:06+05:30', '\x00ff'), NULL, ROW(NULL, NULL, NULL, NULL)]::leaf[], 'it''s', '{"k": [1, 2.50]}', ROW('NaN', NULL, 'infinity', ''))::branch], NULL, NULL);
-- STEP: changes
SET search_path = case_201;
UPDATE t SET w = ROW(f, ARRAY[ROW(2, 'x,y', NULL, NULL)::leaf, NULL]::good_leaf[], NULL)::world WHERE id = 3;
UPDATE t SET many = ARRAY[w, NULL, ROW(NULL, NULL, NULL)::world, w] WHERE id = 3;
INSERT INTO t SELECT 10 + id, f, w, many || many FROM t WHERE id > 1;
UPDATE t SET w.rest = ARRAY[ROW(-0.0001, E'tab\there\nnew line', '-infinity', '\x5c')::leaf]::good_leaf[] WHERE id = 12;
UPDATE t SET f[1].leaves[2] = ROW(5, ')', NULL, NULL) WHERE id = 13;
ALTER TYPE branch RENAME ATTRIBUTE name TO title;                               -- no row event, other names in every row
ALTER TYPE leaf ADD ATTRIBUTE extra date;                                       -- three levels below the columns
UPDATE t SET f[1].leaves[1].extra = '0044-03-15 BC' WHERE id = 3;
DELETE FROM t WHERE id = 2;
