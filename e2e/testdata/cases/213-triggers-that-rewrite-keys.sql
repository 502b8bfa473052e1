-- case 213: triggers-that-rewrite-keys
-- class: triggers / keys and rows that are others than the statement said
DROP SCHEMA IF EXISTS case_213 CASCADE;
CREATE SCHEMA case_213;
SET search_path = case_213;
CREATE TABLE t (id text PRIMARY KEY, v text, deleted bool NOT NULL DEFAULT false, changes int NOT NULL DEFAULT 0);
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text, what text);
CREATE TABLE total (part int PRIMARY KEY, n bigint);
CREATE FUNCTION before_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.v = 'keep' THEN RETURN NULL; END IF;
    IF NOT OLD.deleted THEN UPDATE case_213.t SET deleted = true WHERE id = OLD.id; RETURN NULL; END IF;
    RETURN OLD;
  END IF;
  NEW.id := lower(trim(NEW.id));
  NEW.changes := NEW.changes + 1;
  IF NEW.v = 'refused' THEN RETURN NULL; END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION after_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO case_213.log (id, what) VALUES (coalesce(NEW.id, OLD.id), TG_OP);
  IF TG_OP = 'INSERT' AND NEW.v = 'move on' THEN UPDATE case_213.t SET id = id || '-moved', v = 'moved' WHERE id = NEW.id; END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO case_213.total SELECT length(id) % 3, count(*) FROM added GROUP BY 1 ON CONFLICT (part) DO UPDATE SET n = total.n + excluded.n;
  RETURN NULL;
END $$;
CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION before_change();
CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION after_change();
CREATE TRIGGER c AFTER INSERT ON t REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_change();
INSERT INTO t (id, v) VALUES ('A', 'a'), (' B ', 'b'), ('c', 'keep'), ('d', 'd');
-- STEP: changes
SET search_path = case_213;
INSERT INTO t (id, v) VALUES ('  New ', 'n'), ('gone', 'refused'), ('X', 'move on');
UPDATE t SET id = upper(id) WHERE id IN ('a', 'b');                             -- the trigger puts the key back
UPDATE t SET id = 'B2' WHERE id = 'b';
UPDATE t SET v = 'refused' WHERE id = 'd';                                      -- no change at all
DELETE FROM t;                                                                  -- marks some, keeps one
DELETE FROM t WHERE id < 'b';                                                   -- these are gone now
INSERT INTO t (id, v) VALUES ('A ', 'again') ON CONFLICT (id) DO UPDATE SET v = 'not reached';
INSERT INTO t (id, v) VALUES ('D', 'd2') ON CONFLICT (id) DO UPDATE SET v = excluded.v, id = '  E';
ALTER TABLE t DISABLE TRIGGER a;
UPDATE t SET id = upper(id), changes = 0 WHERE id = 'c';
ALTER TABLE t ENABLE TRIGGER a;
TRUNCATE total;
INSERT INTO t (id, v) SELECT 'Bulk' || i, 'move on' FROM generate_series(1, 50) i;
