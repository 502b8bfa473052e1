-- case 222: copy-frozen-and-filtered
-- class: COPY / frozen rows after TRUNCATE, filters, column lists, into partitions and through triggers
DROP SCHEMA IF EXISTS case_222 CASCADE;
CREATE SCHEMA case_222;
SET search_path = case_222;
CREATE TABLE t (id int PRIMARY KEY, v text DEFAULT 'by default', w text);
CREATE TABLE p (id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE FUNCTION fix() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id * 10; RETURN NEW; END $$;
CREATE TABLE trig (id int PRIMARY KEY, v text);
CREATE TRIGGER fix BEFORE INSERT ON trig FOR EACH ROW EXECUTE FUNCTION fix();
INSERT INTO t VALUES (1, 'old', NULL), (2, 'old', NULL);
-- STEP: changes
SET search_path = case_222;
COPY t (w, id) FROM STDIN;
\N	10
a\\b\tc\x41	11
\.
COPY t FROM STDIN WITH (DELIMITER '|', NULL 'nil') WHERE id % 2 = 0;
20|even|nil
21|odd|never
22||x
\.
BEGIN;
DELETE FROM t WHERE id = 1;
SAVEPOINT s;
TRUNCATE t;
COPY t FROM STDIN WITH (FREEZE);
30	frozen	\N
31	frozen	x
\.
UPDATE t SET v = 'thawed' WHERE id = 30;
RELEASE s;
COMMIT;
BEGIN;
CREATE TABLE made (id int PRIMARY KEY, v text);
COPY made FROM STDIN WITH (FREEZE);
1	a
2	b
\.
UPDATE made SET id = 3 WHERE id = 2;
COMMIT;
BEGIN;
TRUNCATE made;
COPY made FROM STDIN WITH (FREEZE);
9	never
\.
ROLLBACK;
COPY p FROM STDIN;
1	0	zero
2	1	one
3	0	zero
\.
COPY trig FROM STDIN;
1	a
2	b
\.
DELETE FROM trig WHERE id = 10;
