-- case 202: ranges-of-own-types
-- class: data types / ranges and multiranges over own subtypes, also as keys
DROP SCHEMA IF EXISTS case_202 CASCADE;
CREATE SCHEMA case_202;
SET search_path = case_202;
CREATE TYPE grade AS ENUM ('bad', 'fair', 'very good');
CREATE TYPE grades AS RANGE (subtype = grade);
CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = float8mi, multirange_type_name = many_spans);
CREATE TYPE words AS RANGE (subtype = text, collation = "C", multirange_type_name = many_words);
CREATE DOMAIN price AS numeric(10, 2);
CREATE TYPE prices AS RANGE (subtype = price);
CREATE TYPE version AS (major int, minor int);
CREATE TYPE versions AS RANGE (subtype = version, multirange_type_name = many_versions);
CREATE TABLE t (id int PRIMARY KEY, g grades, s span, ss many_spans, w words, ws many_words, p prices, v versions, vs many_versions, a span[], d datemultirange[]);
CREATE TABLE k_range (k words PRIMARY KEY, v text);
CREATE TABLE k_multi (k many_spans, g grades, v text, PRIMARY KEY (k, g));
INSERT INTO t (id) VALUES (1);
INSERT INTO t VALUES (2, '[bad,"very good"]', '[0.1,1e300)', '{[1,2),(2,3],[-Infinity,0)}', '["a,b","c""d\\e")', '{["","x y"],[z,)}', '(1.5,2.25]', '["(1,2)","(2,0)")',
  '{["(1,)",),(,"(0,9)"]}', '{"[1,2)",NULL,empty}', '{"{[2024-01-01,2024-02-01)}","{}"}');
INSERT INTO k_range VALUES ('empty', 'e'), ('[a,b)', 'ab'), ('[a,b]', 'ab closed'), ('(,)', 'all'), ('["a ""q"", b","c\\d"]', 'odd');
INSERT INTO k_multi VALUES ('{}', '[bad,bad]', 'none'), ('{[1,2),[3,4)}', '(,)', 'two'), ('{[1,2),[3,4)}', 'empty', 'two again');
-- STEP: changes
SET search_path = case_202;
UPDATE t SET ss = ss + '{[0,1)}', g = 'empty', ws = '{}' WHERE id = 2;
INSERT INTO t SELECT 3, g, s, ss, w, ws, p, v, vs, a || s, NULL FROM t WHERE id = 2;
UPDATE t SET v = '(,)', vs = vs * '{["(0,0)","(1,5)")}', p = '[0.005,)' WHERE id = 3;
UPDATE k_range SET k = '[b,c)' WHERE k = '[a,b)';
UPDATE k_range SET v = 'ODD' WHERE k = '["a ""q"", b","c\\d"]';
INSERT INTO k_range VALUES ('[a,b)', 'anew'), ('("","x")', 'from the empty text');
DELETE FROM k_range WHERE k = 'empty';
UPDATE k_multi SET k = k + '{[2,3)}' WHERE g = '(,)';                            -- the ranges merge into one
DELETE FROM k_multi WHERE k = '{}';
INSERT INTO k_multi SELECT ss, '["very good",)', 'from t' FROM t WHERE id = 3;
ALTER TYPE grade ADD VALUE 'good' AFTER 'fair';
INSERT INTO k_multi VALUES ('{(,)}', '[good,good]', 'a bound of a new label');
