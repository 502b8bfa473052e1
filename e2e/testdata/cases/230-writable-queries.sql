-- case 230: writable-queries
-- class: statements / several changes in one: WITH, ON CONFLICT of many rows, UPDATE FROM, DELETE USING, rules
DROP SCHEMA IF EXISTS case_230 CASCADE;
CREATE SCHEMA case_230;
SET search_path = case_230;
CREATE TABLE a (id int PRIMARY KEY, v text, big text);
ALTER TABLE a ALTER big SET STORAGE EXTERNAL;
CREATE TABLE b (id int PRIMARY KEY, v text);
CREATE TABLE archive (id int, n int, v text, PRIMARY KEY (id, n));
CREATE RULE keep AS ON UPDATE TO b WHERE OLD.v <> NEW.v DO ALSO INSERT INTO archive VALUES (OLD.id, 0, OLD.v) ON CONFLICT (id, n) DO UPDATE SET v = archive.v || '/' || excluded.v;
INSERT INTO a SELECT i, 'a' || i, repeat(i::text, 4000) FROM generate_series(1, 30) i;
INSERT INTO b SELECT i, 'b' || i FROM generate_series(1, 30) i;
-- STEP: changes
SET search_path = case_230;
WITH gone AS (DELETE FROM a WHERE id <= 5 RETURNING *), kept AS (INSERT INTO archive SELECT id, 1, v FROM gone RETURNING id), marked AS (DELETE FROM b WHERE id IN (SELECT id FROM gone) RETURNING id, v)
  INSERT INTO archive SELECT id, 2, v || ' and marked' FROM marked;
INSERT INTO b SELECT id, 'archived' FROM archive WHERE n = 1;
WITH moved AS (UPDATE a SET id = id + 100 WHERE id BETWEEN 6 AND 10 RETURNING id, v) INSERT INTO a SELECT id - 100, v || ' copied', NULL FROM moved WHERE false UNION ALL SELECT id + 100, v, NULL FROM moved;
INSERT INTO a SELECT i, 'upsert', NULL FROM generate_series(20, 40) i ON CONFLICT (id) DO UPDATE SET v = a.v || excluded.v WHERE a.id % 2 = 0;
UPDATE a SET v = b.v || a.v FROM b WHERE b.id = a.id AND a.id BETWEEN 11 AND 15;
DELETE FROM a USING b WHERE a.id = b.id AND b.id % 10 = 7;
UPDATE b SET v = 'once' WHERE id < 4; UPDATE b SET v = 'twice' WHERE id < 3;
INSERT INTO b SELECT id, 'from a' FROM a WHERE id > 30 ORDER BY id DESC LIMIT 5;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO archive SELECT i, 9, 'recursive' FROM n;
BEGIN; DECLARE c CURSOR FOR SELECT * FROM a WHERE id BETWEEN 16 AND 18 ORDER BY id FOR UPDATE; FETCH FROM c; UPDATE a SET v = 'at the cursor' WHERE CURRENT OF c; FETCH FROM c; DELETE FROM a WHERE CURRENT OF c; COMMIT;
