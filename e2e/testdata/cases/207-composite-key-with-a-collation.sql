-- case 207: composite-key-with-a-collation
-- class: keys / nondeterministic and unusual collations among the columns of a key
-- requires: ICU build
DROP SCHEMA IF EXISTS case_207 CASCADE;
CREATE SCHEMA case_207;
SET search_path = case_207;
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION natural_order (provider = icu, locale = 'en-u-kn-true');
CREATE COLLATION noaccent (provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false);
CREATE TABLE t (a text COLLATE nocase, n int, b text COLLATE natural_order, big text, PRIMARY KEY (n, a, b));
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE u (c char(5) COLLATE noaccent NOT NULL, v varchar(9) NOT NULL, note text);
CREATE UNIQUE INDEX u_key ON u (v COLLATE nocase DESC, c);                      -- a collation and a direction that only the index has
ALTER TABLE u REPLICA IDENTITY USING INDEX u_key;
INSERT INTO t SELECT chr(96 + i) || chr(64 + i), i % 4, 'file' || i, repeat(i::text, 3000) FROM generate_series(1, 26) i;
INSERT INTO t VALUES (E'e\u0301', 1, 'file10', NULL), ('E', 1, 'file9', NULL), ('', 1, '', NULL);
INSERT INTO u SELECT 'c' || i, 'Word' || i, NULL FROM generate_series(1, 20) i;
-- STEP: changes
SET search_path = case_207;
UPDATE t SET a = upper(a) WHERE n = 1;                                          -- composed and decomposed letters, each key equal to before
UPDATE t SET n = n + 4 WHERE n = 2 AND b < 'file12';
UPDATE t SET b = replace(b, 'file', 'file0') WHERE n = 3;                       -- natural order takes 07 and 7 for much the same
DELETE FROM t WHERE n = 1 AND a = 'aa';
BEGIN; DELETE FROM t WHERE a = 'dd'; INSERT INTO t VALUES ('DD', 0, 'file4', 'new'); COMMIT;
INSERT INTO t VALUES ('HH', 0, 'file8', 'again') ON CONFLICT (n, a, b) DO UPDATE SET a = excluded.a, big = excluded.big;
UPDATE u SET v = lower(v) WHERE c < 'c3';
UPDATE u SET c = E'\u00c7' || substr(c, 2) WHERE v > 'WORD5' COLLATE nocase;
UPDATE u SET note = 'by the index' WHERE v = 'wORD7' COLLATE nocase;
DELETE FROM u WHERE v = 'word9' COLLATE nocase;
