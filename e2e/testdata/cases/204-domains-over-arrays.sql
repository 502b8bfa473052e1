-- case 204: domains-over-arrays
-- class: data types / arrays whose elements are domains over arrays
DROP SCHEMA IF EXISTS case_204 CASCADE;
CREATE SCHEMA case_204;
SET search_path = case_204;
CREATE DOMAIN ints AS int[] CHECK (cardinality(VALUE) < 100);
CREATE DOMAIN few AS ints CHECK (cardinality(VALUE) < 5);
CREATE DOMAIN flags AS bool[] NOT NULL DEFAULT '{t}';
CREATE DOMAIN stamp AS timestamptz(0);
CREATE TYPE pair AS (i ints, f few[]);
CREATE TABLE t (id int PRIMARY KEY, a ints, b few, c few[], d flags, e stamp[], p pair, ps pair[], o oidvector, s int2vector, boxes box[]);
CREATE TABLE k (i few, e stamp, v text, PRIMARY KEY (i, e));
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2, '{}', '{}', '{}', '{}', '{}', NULL, '{}', '', '', '{}'),
  (3, '{{1,2},{3,NULL}}', '[-1:1]={7,8,9}', ARRAY['{1,2}', NULL, '{}', '{{4}}']::few[], '{t,f,NULL}', ARRAY['2024-01-01 00:00:00.6+00', 'infinity', NULL]::stamp[],
   ROW('{1}', ARRAY['{2,3}', '{}']::few[])::pair, ARRAY[ROW('{1}', NULL)::pair, NULL]::pair[], '1 2 3', '4 5', '{(1,2),(0,0);(3,4),(1,1)}');
INSERT INTO k VALUES ('{1,2}', '2024-01-01 00:00:00+00', 'a'), ('{1,NULL}', 'infinity', 'b'), ('[0:0]={1}', '-infinity', 'c'), ('{}', '0044-03-15 00:00:00+00 BC', 'd');
-- STEP: changes
SET search_path = case_204;
UPDATE t SET c = c || '{9}'::few, a = a || a WHERE id = 3;
INSERT INTO t SELECT 4, b, NULL, ARRAY[b, b], d, e || e, ROW(b::ints, c)::pair, ps || ps, o, s, boxes || boxes FROM t WHERE id = 3;
UPDATE t SET p.f[2] = '[5:6]={10,11}', d[1] = NULL WHERE id = 4;
UPDATE k SET i = i || 3 WHERE i = '{1,2}';
UPDATE k SET e = '-infinity' WHERE i = '{1,NULL}';
DELETE FROM k WHERE i = '{}';
INSERT INTO k VALUES ('{{1},{2}}', now(), 'two dimensions'), ('{1,2}', '2024-01-01 05:30:00+05:30', 'the first key again');
ALTER DOMAIN few SET DEFAULT '{1}';
ALTER TABLE t ADD COLUMN g few;                                                 -- its default fills every row, with no event
UPDATE t SET g = '{2,2}' WHERE id = 2;
DELETE FROM t WHERE id = 1;
