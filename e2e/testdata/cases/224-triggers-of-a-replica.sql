-- case 224: triggers-of-a-replica
-- class: triggers / session_replication_role = replica: keys unchecked, some triggers fire and some don't
DROP SCHEMA IF EXISTS case_224 CASCADE;
CREATE SCHEMA case_224;
SET search_path = case_224;
CREATE TABLE t (id int PRIMARY KEY, v text, fired text NOT NULL DEFAULT '');
CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t ON UPDATE CASCADE ON DELETE CASCADE);
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.fired := NEW.fired || TG_NAME; RETURN NEW; END $$;
CREATE TRIGGER o BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fire();
CREATE TRIGGER r BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fire();
CREATE TRIGGER z BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fire();
ALTER TABLE t ENABLE REPLICA TRIGGER r, ENABLE ALWAYS TRIGGER z;
CREATE RULE no_nines AS ON INSERT TO child WHERE NEW.id = 9 DO INSTEAD NOTHING;
INSERT INTO t (id, v) VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO child VALUES (1, 1), (2, 2), (3, 3);
-- STEP: changes
SET search_path = case_224;
INSERT INTO t (id, v) VALUES (4, 'origin');
SET session_replication_role = replica;
INSERT INTO t (id, v) VALUES (5, 'replica');
UPDATE t SET id = 20 WHERE id = 2;                                              -- no cascade: the child is left without its parent
DELETE FROM t WHERE id = 1;
INSERT INTO child VALUES (9, 999), (10, 998);                                   -- unchecked, and past the rule
SET session_replication_role = local;
UPDATE t SET v = 'local' WHERE id = 3;
INSERT INTO child VALUES (9, 3);
RESET session_replication_role;
UPDATE t SET id = 30 WHERE id = 3;                                              -- cascades again
BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE child; INSERT INTO child VALUES (1, 12345); COMMIT;
UPDATE t SET v = 'last';
