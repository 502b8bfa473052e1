-- case 210: keys-across-savepoints
-- class: transactions / one key deleted and inserted across savepoints, some of which are taken back
DROP SCHEMA IF EXISTS case_210 CASCADE;
CREATE SCHEMA case_210;
SET search_path = case_210;
CREATE TABLE t (id int PRIMARY KEY, v text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
INSERT INTO t SELECT i, 'old', repeat(i::text, 4000) FROM generate_series(1, 8) i;
-- STEP: changes
SET search_path = case_210;
BEGIN;
DELETE FROM t WHERE id = 1; SAVEPOINT a; INSERT INTO t VALUES (1, 'after a', NULL); ROLLBACK TO a;              -- the delete stays
DELETE FROM t WHERE id = 2; SAVEPOINT b; INSERT INTO t VALUES (2, 'after b', NULL); RELEASE b;                 -- the insert stays
SAVEPOINT c; DELETE FROM t WHERE id = 3; ROLLBACK TO c; UPDATE t SET v = 'after c' WHERE id = 3;               -- with the large value of before
SAVEPOINT d; UPDATE t SET id = 40 WHERE id = 4; SAVEPOINT e; UPDATE t SET id = 41 WHERE id = 40; ROLLBACK TO e; UPDATE t SET v = 'at 40' WHERE id = 40; RELEASE d;
SAVEPOINT f; UPDATE t SET big = 'taken back' WHERE id = 5; ROLLBACK TO f; UPDATE t SET v = 'big stays' WHERE id = 5;
SAVEPOINT g; INSERT INTO t VALUES (9, 'g', 'x'); SAVEPOINT h; DELETE FROM t WHERE id = 9; ROLLBACK TO h; UPDATE t SET v = 'still there' WHERE id = 9; ROLLBACK TO g; INSERT INTO t VALUES (9, 'last', NULL);
COMMIT;
BEGIN; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a; COMMIT;                                                      -- a transaction of which nothing is left
DO $$ BEGIN
  FOR i IN 1..200 LOOP
    BEGIN
      DELETE FROM t WHERE id = 6;
      INSERT INTO t VALUES (6, 'round ' || i, repeat('r', 3000));
      IF i % 2 = 0 THEN RAISE EXCEPTION 'taken back'; END IF;
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
  END LOOP;
END $$;
DO $$ BEGIN
  FOR i IN 1..100 LOOP                                                                                       -- as many transactions as commits inside one block
    UPDATE t SET v = 'loop ' || i WHERE id = 7;
    IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
  END LOOP;
END $$;
