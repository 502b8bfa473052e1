-- case 220: toast-and-composite-keys
-- class: TOAST / unchanged large values while one part of a key changes, under each identity
DROP SCHEMA IF EXISTS case_220 CASCADE;
CREATE SCHEMA case_220;
SET search_path = case_220;
CREATE TABLE d (a int, b text, n int, x text, y bytea, z jsonb, PRIMARY KEY (a, b));
CREATE TABLE f (LIKE d INCLUDING ALL);
CREATE TABLE i (LIKE d INCLUDING ALL);
ALTER TABLE f REPLICA IDENTITY FULL;
ALTER TABLE i ALTER n SET NOT NULL;
CREATE UNIQUE INDEX i_key ON i (n, b);
ALTER TABLE i REPLICA IDENTITY USING INDEX i_key;
ALTER TABLE d ALTER x SET STORAGE EXTERNAL, ALTER y SET STORAGE EXTERNAL;
ALTER TABLE f ALTER x SET STORAGE EXTERNAL, ALTER y SET STORAGE EXTERNAL;
ALTER TABLE i ALTER x SET STORAGE EXTERNAL, ALTER y SET STORAGE EXTERNAL;
INSERT INTO d SELECT i, repeat('k', 1000) || i, i, repeat(i::text, 4000), decode(repeat(md5(i::text), 500), 'hex'), (SELECT jsonb_object_agg(md5(g::text), g) FROM generate_series(1, 300) g) FROM generate_series(1, 12) i;
INSERT INTO f SELECT * FROM d; INSERT INTO i SELECT * FROM d;
-- STEP: changes
SET search_path = case_220;
UPDATE d SET a = -a WHERE a = 1; UPDATE f SET a = -a WHERE a = 1; UPDATE i SET n = -n WHERE a = 1;
UPDATE d SET b = b || '!' WHERE a = 2; UPDATE f SET b = b || '!' WHERE a = 2; UPDATE i SET b = b || '!' WHERE a = 2;
UPDATE d SET a = -a, x = 'small now' WHERE a = 3; UPDATE f SET a = -a, x = 'small now' WHERE a = 3; UPDATE i SET n = -n, x = 'small now' WHERE a = 3;
UPDATE d SET n = 0 WHERE a = 4; UPDATE f SET n = 0 WHERE a = 4; UPDATE i SET a = 0 WHERE a = 4;
UPDATE d SET b = 'k', a = 500, y = NULL WHERE a = 5; UPDATE f SET b = 'k', a = 500, y = NULL WHERE a = 5; UPDATE i SET b = 'k', n = 500, y = NULL WHERE a = 5;
BEGIN; UPDATE d SET a = 600 WHERE a = 6; UPDATE d SET z = z || '{"new": 1}' WHERE a = 600; UPDATE d SET a = 601 WHERE a = 600; COMMIT;
BEGIN; UPDATE i SET n = 600 WHERE n = 6; UPDATE i SET z = z || '{"new": 1}' WHERE n = 600; UPDATE i SET n = 601 WHERE n = 600; COMMIT;
BEGIN; UPDATE d SET a = 700 WHERE a = 7; INSERT INTO d SELECT 7, b, n, x, y, z FROM d WHERE a = 8; UPDATE d SET n = -1 WHERE a IN (7, 700); COMMIT;
BEGIN; DELETE FROM d WHERE a = 9; UPDATE d SET a = 9, b = repeat('k', 1000) || 9 WHERE a = 10; COMMIT;   -- one takes the place of another
UPDATE d SET a = a WHERE a = 11; UPDATE f SET a = a WHERE a = 11; UPDATE i SET a = a WHERE a = 11;      -- nothing changes, an event all the same
ALTER TABLE f REPLICA IDENTITY DEFAULT; UPDATE f SET a = -a WHERE a = 12;
ALTER TABLE d REPLICA IDENTITY FULL; UPDATE d SET a = -a WHERE a = 12;
