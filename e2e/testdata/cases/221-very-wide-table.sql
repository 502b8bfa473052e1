-- case 221: very-wide-table
-- class: limits / 1,500 columns
DROP SCHEMA IF EXISTS case_221 CASCADE;
CREATE SCHEMA case_221;
SET search_path = case_221;
DO $$ BEGIN
  EXECUTE (SELECT 'CREATE TABLE case_221.wide (id int PRIMARY KEY, ' || string_agg(format('%I %s', 'column number ' || i, (ARRAY['int', 'text', 'bool', 'numeric', 'timestamptz'])[1 + i % 5]), ', ') || ')' FROM generate_series(1, 1499) i);
END $$;
INSERT INTO wide (id, "column number 1", "column number 1499") VALUES (1, 'first', now()), (2, NULL, NULL);
INSERT INTO wide (id, "column number 5", "column number 700") SELECT i, i, -i FROM generate_series(3, 40) i;
-- STEP: changes
SET search_path = case_221;
UPDATE wide SET "column number 750" = 7, "column number 1496" = 'x' WHERE id = 1;
UPDATE wide SET id = 1000 WHERE id = 2;
DO $$ BEGIN
  EXECUTE (SELECT 'UPDATE case_221.wide SET ' || string_agg(format('%I = true', 'column number ' || i), ', ') || ' WHERE id = 3' FROM generate_series(2, 1499, 5) i);
END $$;
ALTER TABLE wide DROP COLUMN "column number 10", DROP COLUMN "column number 1490";
ALTER TABLE wide ADD COLUMN "one more" text DEFAULT 'for every row';
UPDATE wide SET "one more" = 'own' WHERE id = 4;
DELETE FROM wide WHERE id BETWEEN 5 AND 9;
