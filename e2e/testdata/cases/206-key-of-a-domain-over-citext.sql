-- case 206: key-of-a-domain-over-citext
-- class: keys / a domain whose base type compares without case
-- requires: extension citext
DROP SCHEMA IF EXISTS case_206 CASCADE;
CREATE SCHEMA case_206;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
SET search_path = case_206, public;
CREATE DOMAIN email AS citext CHECK (VALUE ~ '@');
CREATE DOMAIN work_email AS email CHECK (VALUE !~ 'private');
CREATE TABLE acc (e email PRIMARY KEY, n int);
CREATE TABLE member (tenant int, e work_email, big text, PRIMARY KEY (e, tenant));
ALTER TABLE member ALTER big SET STORAGE EXTERNAL;
INSERT INTO acc SELECT 'User' || i || '@x.org', i FROM generate_series(1, 30) i;
INSERT INTO member SELECT i % 3, 'M' || i || '@x.org', repeat(i::text, 3000) FROM generate_series(1, 9) i;
-- STEP: changes
SET search_path = case_206, public;
UPDATE acc SET e = upper(e)::email WHERE n <= 10;                               -- equal keys that read otherwise
UPDATE acc SET n = -n WHERE e = 'user11@X.ORG';
INSERT INTO acc VALUES ('uSER12@x.org', 1) ON CONFLICT (e) DO UPDATE SET e = excluded.e, n = acc.n + 100;
DELETE FROM acc WHERE e = 'USER13@X.ORG';
BEGIN; DELETE FROM acc WHERE e = 'user14@x.org'; INSERT INTO acc VALUES ('USER14@x.org', 14); COMMIT;
UPDATE member SET e = lower(e)::work_email WHERE tenant = 1;                    -- with a large value that does not change
UPDATE member SET tenant = tenant + 10, e = upper(e)::work_email WHERE tenant = 2;
BEGIN; UPDATE member SET e = 'tmp@x.org' WHERE e = 'm3@x.org'; UPDATE member SET e = 'M3@X.org' WHERE e = 'TMP@x.org'; COMMIT;
DELETE FROM member WHERE e = 'm9@X.org';
