-- case 217: schema-changes-and-back
-- class: DDL / a table that leaves its schema, changes there, and comes back
-- @schemas: case_217_attic
DROP SCHEMA IF EXISTS case_217 CASCADE;
DROP SCHEMA IF EXISTS case_217_attic CASCADE;
CREATE SCHEMA case_217;
CREATE SCHEMA case_217_attic;
SET search_path = case_217;
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE stays (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'old' FROM generate_series(1, 30) i;
INSERT INTO stays SELECT i, 'old' FROM generate_series(1, 30) i;
-- STEP: changes
SET search_path = case_217;
ALTER TABLE t SET SCHEMA case_217_attic;
UPDATE case_217_attic.t SET v = 'in the attic' WHERE id < 10;
DELETE FROM case_217_attic.t WHERE id = 20;
ALTER TABLE case_217_attic.t SET SCHEMA case_217;
UPDATE t SET v = 'back' WHERE id = 1;
BEGIN;                                                                          -- there and back in one transaction, with rows written on the way
ALTER TABLE t SET SCHEMA case_217_attic; INSERT INTO case_217_attic.t VALUES (40, 'on the way'); ALTER TABLE case_217_attic.t SET SCHEMA case_217; UPDATE t SET v = 'home' WHERE id = 40;
COMMIT;
BEGIN; ALTER TABLE t SET SCHEMA case_217_attic; CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'another of the same name'); COMMIT;
UPDATE case_217_attic.t SET v = 'stays away' WHERE id = 2;
INSERT INTO t VALUES (2, 'second');
ALTER SCHEMA case_217_attic RENAME TO case_217_cellar;
UPDATE case_217_cellar.t SET v = 'in the cellar' WHERE id = 3;
ALTER SCHEMA case_217_cellar RENAME TO case_217_attic;
UPDATE case_217_attic.t SET v = 'in the attic again' WHERE id = 4;
UPDATE stays SET v = 'all the while' WHERE id < 5;
-- STEP: cleanup
DROP SCHEMA case_217_attic CASCADE;
