-- case 212: cascades-that-change-keys
-- class: foreign keys / ON UPDATE CASCADE through keys, checked at the end of the transaction
DROP SCHEMA IF EXISTS case_212 CASCADE;
CREATE SCHEMA case_212;
SET search_path = case_212;
CREATE TABLE org (code text PRIMARY KEY, v text);
CREATE TABLE team (org text REFERENCES org ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, n int, v text, PRIMARY KEY (org, n));
CREATE TABLE person (org text, team int, name text, big text, PRIMARY KEY (org, team, name),
  FOREIGN KEY (org, team) REFERENCES team ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE person ALTER big SET STORAGE EXTERNAL;
CREATE TABLE boss (org text PRIMARY KEY REFERENCES org ON UPDATE CASCADE ON DELETE RESTRICT, person text);
CREATE TABLE chain (id int PRIMARY KEY, next int REFERENCES chain ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED);
INSERT INTO org SELECT 'o' || i, 'v' FROM generate_series(1, 5) i;
INSERT INTO team SELECT 'o' || i, n, 't' FROM generate_series(1, 5) i, generate_series(1, 3) n;
INSERT INTO person SELECT org, n, 'p' || p, repeat(org || n, 2000) FROM team, generate_series(1, 2) p;
INSERT INTO boss VALUES ('o1', 'p1'), ('o2', 'p2');
INSERT INTO chain SELECT i, nullif(i + 1, 9) FROM generate_series(1, 8) i ORDER BY i DESC;
-- STEP: changes
SET search_path = case_212;
UPDATE org SET code = upper(code) WHERE code IN ('o1', 'o2');                   -- the keys of three further tables change
BEGIN;                                                                          -- the key of the parent goes in a circle; children follow at the end
UPDATE org SET code = 'tmp' WHERE code = 'o3'; UPDATE org SET code = 'o3' WHERE code = 'o4'; UPDATE org SET code = 'o4' WHERE code = 'tmp';
COMMIT;
BEGIN; INSERT INTO person VALUES ('late', 7, 'before its parents', NULL); INSERT INTO team VALUES ('late', 7, 't'); INSERT INTO org VALUES ('late', 'v'); COMMIT;
BEGIN; SET CONSTRAINTS ALL IMMEDIATE; UPDATE team SET n = n + 10 WHERE org = 'O2'; DELETE FROM org WHERE code = 'o5'; COMMIT;
BEGIN; DELETE FROM org WHERE code = 'o3'; INSERT INTO org VALUES ('o3', 'comes back'); COMMIT;   -- its children go all the same
UPDATE chain SET id = id + 100;                                                 -- each row changes twice: by itself, and by the one before it
DELETE FROM chain WHERE id IN (103, 105);
BEGIN; UPDATE chain SET next = 999 WHERE id = 101; INSERT INTO chain VALUES (999, 101); COMMIT;
DO $$ BEGIN DELETE FROM org WHERE code = 'O1'; EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN NULL; END $$;
