-- One row at least for every way in which a type's text differs from its JSON. What stands before the line of step "changes" is
-- there before the slot is made; what comes after goes through the stream. Random values of the server widen the net; setseed
-- keeps them the same from run to run.
CREATE SCHEMA zoo;
CREATE EXTENSION hstore SCHEMA public;
CREATE EXTENSION citext SCHEMA public;
CREATE EXTENSION ltree SCHEMA public;
CREATE EXTENSION cube SCHEMA public;
CREATE EXTENSION isn SCHEMA public;
SET search_path = zoo, public;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'he said "hi"', 'back\slash', 'comma, brace}');
CREATE TYPE geo AS (lat numeric, lon float8, label text);
CREATE TYPE addr AS (street text, spot geo, tags text[], raw bytea, at timestamptz, doc json, "odd ""name"" \" int, grid int[]);
CREATE TYPE lone AS (a text);
CREATE TYPE hollow AS ();
CREATE TYPE pinned AS (at timestamp, day date, n hollow, many geo[], m mood, h hstore, j jsonb, b bool, bx box[]);
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE TYPE floatrange AS RANGE (subtype = float8);
CREATE DOMAIN amount AS numeric(12,2) CHECK (VALUE >= 0);
CREATE DOMAIN discount AS amount CHECK (VALUE <= 100);
CREATE DOMAIN doc AS jsonb;
CREATE DOMAIN tags AS text[];
CREATE DOMAIN moment AS timestamptz;
CREATE DOMAIN place AS geo;
CREATE DOMAIN places AS place[];
CREATE DOMAIN boxdomain AS box;
CREATE DOMAIN prefs AS hstore;
CREATE DOMAIN shout AS citext;

CREATE TABLE num (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, n4 numeric(19,4), neg numeric(5,-2), o oid, m money, bs bool[], i2s int2[], i8s int8[], f4s float4[], f8s float8[], ns numeric[], os oid[], ms money[]);
CREATE TABLE txt (id int PRIMARY KEY, t text, v varchar(9), c char(5), ch "char", nm name, by bytea, ci citext, x xml, ts text[], vs varchar[], cs char(3)[], chs "char"[], nms name[], bys bytea[], cis citext[], xs xml[]);
CREATE TABLE tim (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, ts0 timestamp(0), tz3 timestamptz(3), t time, tt timetz, iv interval, ds date[], tss timestamp[], tzs timestamptz[], tis time[], tts timetz[], ivs interval[]);
CREATE TABLE jsn (id int PRIMARY KEY, j json, b jsonb, jp jsonpath, js json[], bs jsonb[], jps jsonpath[], d doc, ds doc[]);
CREATE TABLE net (id int PRIMARY KEY, u uuid, i inet, c cidr, m macaddr, m8 macaddr8, us uuid[], ips inet[], cs cidr[], bt bit(3), vb varbit, bts bit(3)[], vbs varbit[]);
CREATE TABLE geom (id int PRIMARY KEY, p point, l line, s lseg, b box, pa path, po polygon, c circle, ps point[], ls line[], ss lseg[], bs box[], pas path[], pos polygon[], cs circle[], bd boxdomain, bds boxdomain[], cu cube);
CREATE TABLE rng (id int PRIMARY KEY, i4 int4range, i8 int8range, n numrange, d daterange, ts tsrange, tz tstzrange, t textrange, f floatrange, mi int4multirange, mt tstzmultirange, mx textmultirange, i4s int4range[], tzs tstzrange[], txs textrange[], mts tstzmultirange[]);
CREATE TABLE sys (id int PRIMARY KEY, v tsvector, q tsquery, l pg_lsn, x xid, x8 xid8, ci cid, ti tid, sn pg_snapshot, iv int2vector, ov oidvector, rc regclass, rt regtype, rp regproc, rd regprocedure, ro regrole, rn regnamespace, vs tsvector[], ls pg_lsn[], ivs int2vector[], ovs oidvector[], rcs regclass[]);
CREATE TABLE usr (id int PRIMARY KEY, m mood, ms mood[], g geo, gs geo[], a addr, ad addr[], lo lone, los lone[], no hollow, nos hollow[], p pinned, ps pinned[], am amount, dis discount[], tg tags, tgs tags[], mo moment, mos moment[], pl place, pls places, h hstore, hs hstore[], hp prefs, hps prefs[], lt ltree, lq lquery[], e ean13, sh shout[]);
CREATE TABLE "Odd ""table"" \ name" (id int PRIMARY KEY, "select" int, "q""uote" int, "back\slash" int, "tab	bed" int, "new
line" int, "ключ 😀" int);
CREATE TABLE of_rows (id int PRIMARY KEY, n net, ns net[], o "Odd ""table"" \ name");
-- Attributes that were dropped stay in the catalog; they must not be seen.
CREATE TABLE altered (id int PRIMARY KEY, gone1 text, a text, gone2 int, b int);
ALTER TABLE altered DROP gone1, DROP gone2;
CREATE TYPE shrunk AS (gone text, a text, b int);
ALTER TYPE shrunk DROP ATTRIBUTE gone;
ALTER TYPE shrunk ADD ATTRIBUTE "new" text;
CREATE TABLE uses_altered (id int PRIMARY KEY, a altered, s shrunk, ss shrunk[]);
INSERT INTO num (id, n) VALUES (0, 'NaN');
INSERT INTO txt (id, t) VALUES (0, '');
INSERT INTO usr (id, a) VALUES (0, ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));

-- STEP: changes
SET search_path = zoo, public;
SELECT setseed(0.25);
-- The writer's settings must not matter.
SET timezone = 'America/St_Johns'; SET datestyle = 'German, DMY'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'escape'; SET extra_float_digits = -5;

INSERT INTO num (id, b, i2, i4, i8, f4, f8, n, n4, neg, o, m) VALUES
  (1, true, -32768, -2147483648, -9223372036854775808, 'NaN', 'NaN', 'NaN', 'NaN', 'NaN', 0, '-92233720368547758.08'),
  (2, false, 32767, 2147483647, 9223372036854775807, 'Infinity', 'Infinity', 'Infinity', 0, 99949, 4294967295, '92233720368547758.07'),
  (3, NULL, 0, 0, 0, '-Infinity', '-Infinity', '-Infinity', -0.0, 0, 2147483648, 0),
  (4, NULL, NULL, NULL, NULL, '-0', '-0', 0.00, 922337203685477.5807, -49, NULL, -0.01),
  (5, NULL, NULL, NULL, NULL, 1e-45, 5e-324, 1.10, 0.0001, 50, NULL, 1234.5),
  (6, NULL, NULL, NULL, NULL, 3.4028235e38, 1.7976931348623157e308, 1e-60, NULL, NULL, NULL, NULL),
  (7, NULL, NULL, NULL, NULL, 0.1, 0.30000000000000004, 1e3, NULL, NULL, NULL, NULL),
  (8, NULL, NULL, NULL, NULL, 1e15, 1e15, -0.000, NULL, NULL, NULL, NULL),
  (9, NULL, NULL, NULL, NULL, 1e16, 123456789012345680, 67806780999999999997777, NULL, NULL, NULL, NULL),
  (10, NULL, NULL, NULL, NULL, 1e-5, 0.0001, .5, NULL, NULL, NULL, NULL);
INSERT INTO num (id, n) SELECT 20, (repeat('9', 2000) || '.' || repeat('9', 2000))::numeric;
INSERT INTO num (id, bs, i2s, i8s, f4s, f8s, ns, os, ms) VALUES
  (30, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  (31, '{t,f,NULL}', '{{1,2},{-3,NULL}}', '[0:1][-5:-4]={{1,2},{3,4}}', '{NaN,Infinity,-Infinity,-0,1e-45}', '{{{{{{NaN}}}}}}', '{1.10,NaN,-Infinity,0.00}', '{0,4294967295}', '{$1.00,NULL,-$92233720368547758.08}'),
  (32, '{NULL}', '[5:5]={7}', '[-2147483648:-2147483647]={1,2}', '{NULL,NULL}', '[2:3][4:5]={{1,2},{NULL,4}}', '{{1e500}}', NULL, NULL);
INSERT INTO num (id, f4, f8, i8, n) SELECT 1000 + i, ((random() - 0.5) * 10 ^ (i % 76 - 38))::float4, (random() - 0.5) * 10 ^ (i % 600 - 300),
  (random() * 10 ^ (i % 18))::int8, round(((random() - 0.5) * 10 ^ (i % 30 - 15))::numeric, i % 40) FROM generate_series(1, 600) i;

INSERT INTO txt (id, t, v, c, ch, nm, by, ci, x) VALUES
  (1, '', '', '', '', '', '', '', ''),
  (2, 'NULL', 'null', 'ab', 'x', 'name', '\x00ff5c22', 'CiText', '<a/>'),
  (3, E'line\nline\r\n\ttab', 'ab  ', 'a b ', '"', 'q"uote', '\x', E'"\\', '<?xml version="1.0" encoding="UTF-8"?><a b="1">ünï &amp; &#233;</a>'),
  (4, E'\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f', E'\x7f\x01', NULL, E'\\', E'tab\there', NULL, NULL, E'<a>\n  <![CDATA[ ]] > & ]]>\n</a>'),
  (5, E'"quoted" \\ back / slash \u2028 \u2029 \ufeff \uFFFE \U0010FFFF', '语言', '语言', ' ', '😀', '\x0a0d', 'ÀÉ', NULL);
INSERT INTO txt (id, t) SELECT 10, repeat('語', 20000);
INSERT INTO txt (id, t) SELECT 11, string_agg(chr(i), '' ORDER BY i) FROM generate_series(1, 3000) i;
INSERT INTO txt (id, by) SELECT 12, decode(string_agg(lpad(to_hex(i), 2, '0'), '' ORDER BY i), 'hex') FROM generate_series(0, 255) i;
INSERT INTO txt (id, t) SELECT 100 + i, repeat('x', i) || chr(1 + i % 127) || repeat('y', 40 - i) FROM generate_series(0, 40) i;
INSERT INTO txt (id, t) SELECT 200 + i, repeat('x', i % 9) || chr(i) FROM generate_series(1, 255) i;
INSERT INTO txt (id, ts, vs, cs, chs, nms, bys, cis, xs) VALUES
  (500, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  (501, ARRAY['', 'NULL', 'null', 'NuLl', NULL, 'plain', 'with space', 'q"uote', E'back\\slash', '{brace}', 'com,ma', E'new\nline', E'\x0b\x0c', 'semi;colon', '语言', '(paren)', E'\\\\"\\"'],
    ARRAY['a'], ARRAY['a', ' b ', NULL], ARRAY['a', '"', E'\\', ',', '', NULL]::"char"[], ARRAY['a b', 'c'], ARRAY['\x00ff', '\x', NULL]::bytea[], ARRAY['A,B']::citext[], ARRAY['<a b="c"/>', '']::xml[]),
  (502, '{{a,b},{c,"d e"}}', NULL, NULL, NULL, NULL, '{{"\\x5c","\\x22"}}', NULL, NULL),
  (503, '[0:2]={a,NULL,"x y"}', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO txt (id, t, ts) SELECT 1000 + i, s, ARRAY[s, NULL, s || ' ' || s] FROM (SELECT i, (SELECT string_agg(substr(E'abc "\\{}(),;\n\t\x01=>NUL''é', 1 + (random() * 24)::int, 1), '') FROM generate_series(1, 1 + (i % 30))) s FROM generate_series(1, 400) i) x;

INSERT INTO tim (id, d, ts, tz, ts0, tz3, t, tt, iv) VALUES
  (1, 'infinity', 'infinity', 'infinity', 'infinity', 'infinity', '00:00', '00:00+00', '0'),
  (2, '-infinity', '-infinity', '-infinity', '-infinity', '-infinity', '24:00:00', '24:00:00-15:59:59', '1 day'),
  (3, '0044-03-15 BC', '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '0044-03-15 12:00:00.4 BC', NULL, '23:59:59.999999', '10:30:45.123456-08:30', '-1 day +00:00:01.5'),
  (4, '4713-01-01 BC', '4713-01-01 00:00:00 BC', '4713-01-01 00:00:00+00 BC', NULL, NULL, '10:30:45.5', '12:00:00+15:59:59', '2 years 3 mons -4 days'),
  (5, '0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00', NULL, NULL, NULL, NULL, '178000000 years'),
  (6, '0001-12-31 BC', '0001-12-31 23:59:59.999999 BC', '0001-12-31 23:59:59.999999+00 BC', NULL, NULL, NULL, NULL, '-178000000 years -11 mons 00:00:00.000001'),
  (7, '9999-12-31', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00', NULL, NULL, NULL, NULL, NULL),
  (8, '10000-01-01', '10000-01-01 00:00:00', '10000-01-01 00:00:00+00', NULL, NULL, NULL, NULL, NULL),
  (9, '5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00', NULL, NULL, NULL, NULL, NULL),
  (10, '2000-01-01', '2000-01-01 00:00:00.1', '2024-10-27 02:30:00.000010+02', '2024-02-29 23:59:59.5', '2024-02-29 23:59:59.9999+00', NULL, NULL, NULL);
INSERT INTO tim (id, ds, tss, tzs, tis, tts, ivs) VALUES
  (20, '{}', '{}', '{}', '{}', '{}', '{}'),
  (21, '{infinity,-infinity,NULL,0044-03-15 BC,20231-05-06}', '{infinity,NULL,2000-01-01 00:00:00.1,0044-03-15 12:00 BC}', '{infinity,NULL,2000-01-01 00:00:00.1+00,0044-03-15 12:00+00 BC}', '{24:00,NULL}', '{12:00+15:59:59,NULL}', '{1 day,NULL,-1 day 02:03:04.5}'),
  (22, '[0:0][0:1]={{2000-01-01,NULL}}', NULL, '{{2000-01-01 00:00+00},{2024-06-01 00:00+05:45}}', NULL, NULL, NULL);
INSERT INTO tim (id, d, ts, tz, t, tt, iv) SELECT 1000 + i, '4000-01-01 BC'::date + (random() * 5000000)::int, '4000-01-01 BC'::timestamp + random() * 10000000 * interval '1 day',
  to_timestamp((random() - 0.2) * 10 ^ (i % 12)), (random() * interval '1 day')::time, (random() * interval '1 day')::time AT TIME ZONE 'UTC', (random() - 0.5) * interval '1000 years' FROM generate_series(1, 600) i;

INSERT INTO jsn (id, j, b, jp, d) VALUES
  (1, 'null', 'null', '$', 'null'), (2, '"x"', '"x"', '$.a[*] ? (@.b > 1 && @.c == "q")', '{}'), (3, '  { "a" : [ 1 , 2.50 , -0 , 1e400 ] , "a" : null }  ', '{"a": [1, 2.50, -0, 1e400]}', 'strict $."a b"', '[]'),
  (4, E'{\n\t"multi": "line"\r\n}', '{"n": 12345678901234567890.0}', NULL, '{"k": "\"\\"}'),
  (5, '{"m": "nul \u0000 lone \ud83d \ude00 pair \ud83d\ude00 \u2028"}', '{"m": "pair \ud83d\ude00 control \u0001\u001f\u007f é", "": {"": [[], {}]}}', NULL, NULL),
  (6, NULL, NULL, NULL, NULL);
INSERT INTO jsn (id, js, bs, jps, ds) VALUES
  (20, '{}', '{}', '{}', '{}'),
  (21, ARRAY['{"a": "q\"\\ {},"}', NULL, 'null', E' [1,\n2] ']::json[], ARRAY['{"a": "q\"\\ {},"}', NULL, 'null', '1', '"NULL"']::jsonb[], ARRAY['$.a', '$."q\"x"']::jsonpath[], ARRAY['{"a": [1, 2]}', NULL]::doc[]),
  (22, ARRAY[ARRAY['1', '"a b"'], ARRAY['{}', '[]']]::json[], NULL, NULL, NULL);
INSERT INTO jsn (id, j) SELECT 30, (repeat('[', 3000) || repeat(']', 3000))::json;
INSERT INTO jsn (id, js) SELECT 31, ARRAY[(repeat('[', 3000) || repeat(']', 3000))::json];

INSERT INTO net (id, u, i, c, m, m8, bt, vb) VALUES
  (1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '101', ''),
  (2, '00000000-0000-0000-0000-000000000000', '::ffff:1.2.3.4', '2001:db8::/32', NULL, '0800.2b01.0203', '000', '0'), (3, NULL, '10.0.0.1/24', '::/0', NULL, NULL, '111', repeat('01', 300)::varbit);
INSERT INTO net (id, us, ips, cs, bts, vbs) VALUES (20, '{}', '{}', '{}', '{}', '{}'), (21, '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}', '{10.0.0.1,::1/64,NULL}', '{10.0.0.0/8}', '{101,NULL,000}', '{"",0,01}');

INSERT INTO geom (id, p, l, s, b, pa, po, c, bd, cu) VALUES
  (1, '(1.5,-2)', '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)', '[(0,0),(1,1)]', '((0,0),(1,1),(2,0))', '<(1,2),3>', '(1,1),(0,0)', '(1,2,3),(4,5,6)'),
  (2, '(NaN,Infinity)', NULL, NULL, '(-1,-1),(0,0)', '((0,0),(1,1))', '((0.1,0.30000000000000004))', '<(0,0),0>', NULL, '(1)'), (3, '(-0,1e-300)', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO geom (id, ps, ls, ss, bs, pas, pos, cs, bds) VALUES
  (20, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  (21, '{"(1,2)",NULL}', '{"{1,2,3}"}', '{"[(0,0),(1,1)]"}', '{(1,1),(0,0);(3,3),(2,2);NULL}', '{"[(0,0),(1,1)]","((0,0),(1,1))"}', '{"((0,0),(1,1))"}', '{"<(1,2),3>"}', '{(1,1),(0,0);NULL}'),
  (22, '{{"(1,2)"},{"(3,4)"}}', NULL, NULL, '[0:1][3:3]={{(1,1),(0,0)};{(3,3),(2,2)}}', NULL, NULL, NULL, NULL);

INSERT INTO rng (id, i4, i8, n, d, ts, tz, t, f, mi, mt, mx) VALUES
  (1, 'empty', 'empty', 'empty', 'empty', 'empty', 'empty', 'empty', 'empty', '{}', '{}', '{}'),
  (2, '(,)', '(,5]', '[1.50,2.500)', '(,2024-01-01)', '[2024-01-01 00:00,)', '[2024-01-01 00:00+00,infinity]', '["a,b","c""d\\e"]', '[NaN,NaN]', '{(,3),[5,)}', '{[2024-01-01 00:00+00,2024-01-02 00:00+00),[2024-06-01 00:00+02,infinity]}', '{["a b","c,d"),["x{y","z}"]}'),
  (3, '[1,5]', NULL, '[NaN,NaN]', '[-infinity,infinity]', '[-infinity,infinity)', '["0044-03-15 12:00+00 BC",)', '["",)', '[-Infinity,0.1)', NULL, NULL, NULL);
INSERT INTO rng (id, i4s, tzs, txs, mts) VALUES (20, '{}', '{}', '{}', '{}'),
  (21, '{"[1,5)",empty,NULL}', ARRAY['[2024-01-01 00:00+00,2024-01-02 00:00+00)', NULL]::tstzrange[], ARRAY['["a,b","c""d\\e"]', '(,)']::textrange[], ARRAY['{[2024-01-01 00:00+00,2024-01-02 00:00+00)}', '{}', NULL]::tstzmultirange[]);

INSERT INTO sys (id, v, q, l, x, x8, ci, ti, sn, iv, ov, rc, rt, rp, rd, ro, rn) VALUES
  (1, 'a:1A fat:2B,4C cat:5D', 'fat & (rat | !cat:*)', '16/B374D848', '4294967295', '18446744073709551615', '5', '(4294967295,65535)', '10:20:10,14', '1 -2 3', '23 4294967295', 'num', 'int4[]', 'now', 'abs(int)', 'pg_monitor', 'pg_catalog'),
  (2, $$'quo''te' 'sp ace':1 'back\\slash'$$, $$'sp ace' <-> 'it''s'$$, '0/0', '0', '0', '0', '(0,0)', '1:1:', '', '', 'pg_catalog.pg_class', 'zoo.mood', NULL, NULL, NULL, 'zoo'),
  (3, '', '', NULL, NULL, NULL, NULL, NULL, NULL, '32767', '0', 'zoo."Odd ""table"" \ name"', 'timestamp with time zone', NULL, NULL, NULL, NULL);
INSERT INTO sys (id, vs, ls, ivs, ovs, rcs) VALUES (20, '{}', '{}', '{}', '{}', '{}'), (21, ARRAY['a:1', NULL, $$'q"x'$$]::tsvector[], '{0/0,16/B374D848}', ARRAY['1 2', '', NULL]::int2vector[], ARRAY['1 2', '']::oidvector[], '{pg_class,NULL}');

INSERT INTO usr (id, m, ms) VALUES (1, 'sad', '{}'), (2, 'he said "hi"', ARRAY['sad', NULL, 'he said "hi"', 'back\slash', 'comma, brace}']::mood[]), (3, 'back\slash', NULL);
INSERT INTO usr (id, g, gs, lo, los, no, nos) VALUES
  (10, ROW(NULL, NULL, NULL), '{}', ROW(NULL), '{}', ROW(), '{}'), (11, ROW(1.50, 'NaN', ''), ARRAY[ROW(1, 2, 'q"uo,te\')::geo, NULL, ROW(NULL, NULL, '')::geo], ROW(''), ARRAY[ROW(NULL)::lone, ROW('')::lone, NULL, ROW('x')::lone], NULL, ARRAY[ROW()::hollow, NULL]),
  (12, ROW('NaN', '-Infinity', E'(paren) ,comma "q" \\back\n\ttab'), ARRAY[ARRAY[ROW(1, 2, 'a')::geo], ARRAY[ROW(3, 4, 'b')::geo]], ROW('a b'), NULL, NULL, NULL);
INSERT INTO usr (id, a) VALUES
  (20, ROW('Main St', ROW(1.50, -2, 'a'), '{x,y}', '\x01', '2024-01-01 00:00+00', '{"a": "b\"\\"}', 5, '{{1,2},{3,4}}')), (21, NULL),
  (22, ROW('', ROW('NaN', NULL, '(paren) ,comma "q" \back'), '{"a b",NULL,"","q\"x"}', '\x5c22', 'infinity', ' [1, {"x": null}] ', NULL, '{}')),
  (23, ROW(NULL, NULL, NULL, NULL, '0044-03-15 12:00:00+00 BC', '"scalar"', -1, '[0:0]={1}'));
INSERT INTO usr (id, ad) SELECT 30, ARRAY(SELECT a FROM usr WHERE id BETWEEN 20 AND 23 ORDER BY id);
INSERT INTO usr (id, p) VALUES (40, ROW('2024-01-01 00:00', 'infinity', ROW(), ARRAY[ROW(1, 2, 'q"\')::geo, NULL], 'he said "hi"', 'a=>1, "q\"\\"=>NULL, ""=>""', '{"x": ["\\", "\""]}', true, '{(1,1),(0,0);(3,3),(2,2)}'));
INSERT INTO usr (id, ps) SELECT 41, ARRAY[p, NULL, p] FROM usr WHERE id = 40;
INSERT INTO usr (id, am, dis, tg, tgs, mo, mos, pl, pls) VALUES
  (50, 0.1, '{100,NULL,0.005}', '{a,"b c"}', ARRAY['{a,NULL,"q\"x"}', '{}', NULL]::tags[], '2024-06-01 12:00+02', '{2024-06-01 12:00+02,NULL,-infinity}', ROW(1, 2, 'a b')::geo, ARRAY[ROW(1, 2, 'x"y')::geo, NULL]::place[]), (51, 9999999999.99, '{}', '{}', '{}', 'infinity', '{}', NULL, '{}');
INSERT INTO usr (id, h, hs, hp, hps) VALUES
  (60, '', '{}', '', '{}'), (61, 'a=>1,b=>NULL', ARRAY['a=>1'::hstore, NULL, ''], 'p=>q', ARRAY['x=>"y z"', NULL]::prefs[]),
  (62, '"quo\"te"=>"back\\slash", ""=>"", "NULL"=>"NULL", n=>NULL, "a=>b"=>"x, y"', ARRAY['"q\"\\"=>"\\\\\""'::hstore], NULL, NULL);
INSERT INTO usr (id, h) SELECT 63, hstore(E'tab\tnew\nline', E'\x01\x1f\x7f\b\f\ré');
INSERT INTO usr (id, lt, lq, e, sh) VALUES (70, 'Top.Science.Astronomy', ARRAY['*.a{1,2}.b', NULL]::lquery[], '978-0-393-04002-9', '{A,"b c",NULL}');
INSERT INTO usr (id, h, g) SELECT 1000 + i, CASE WHEN i % 3 = 0 THEN NULL ELSE hstore(ARRAY[s, s || 'x', s || 'y'], ARRAY[s, NULL, '']) END, ROW(i, random(), s)::geo FROM
  (SELECT i, (SELECT string_agg(substr(E'abc "\\{}(),;\n\t\x01=>NUL''é', 1 + (random() * 24)::int, 1), '') FROM generate_series(1, 1 + (i % 20))) s FROM generate_series(1, 300) i) x;

-- Texts of everything that some level quotes, at every depth.
INSERT INTO usr (id, a, ad, gs, p, ps, tgs, pls, hs)
  SELECT 2000 + i, a, ARRAY[a, NULL, a], ARRAY[ROW(NULL, i, s)::geo, NULL, ROW(i, NULL, t)::geo], p, ARRAY[p, p], ARRAY[ARRAY[s, t, NULL]::tags, NULL::tags], ARRAY[ROW(1, i, t)::geo]::place[], ARRAY[hstore(s, t), hstore(t, NULL)]
  FROM (SELECT *, ROW(s, ROW(i, random(), t)::geo, ARRAY[s, t, NULL], convert_to(s, 'UTF8'), to_timestamp(i * 1e6), json_build_object(s, t, 'k', ARRAY[s]), i, ARRAY[ARRAY[i], ARRAY[NULL::int]])::addr AS a,
      ROW(to_timestamp(i * 1e6 + 0.5), '2000-01-01'::date + i, ROW()::hollow, ARRAY[ROW(i, i, s)::geo, NULL], (enum_range(NULL::mood))[1 + i % 5], hstore(s, t), jsonb_build_object(t, s), i % 2 = 0, ARRAY[box(point(i, 1), point(0, i))])::pinned AS p
    FROM (SELECT i, (SELECT string_agg(substr(E'ab "\\{}(),;\n\t\x01\x0b=>NUL''é/', 1 + (random() * 24)::int, 1), '') FROM generate_series(1, 1 + i % 12)) s,
        (SELECT coalesce(string_agg(substr(E'"\\{}(), NULL', 1 + (random() * 13)::int, 1), ''), '') FROM generate_series(1, i % 7)) t FROM generate_series(1, 300) i) x) y;

INSERT INTO "Odd ""table"" \ name" VALUES (1, 1, 2, 3, 4, 5, 6);
INSERT INTO of_rows SELECT 1, n, ARRAY[n, NULL], o FROM net n, "Odd ""table"" \ name" o WHERE n.id = 21;
INSERT INTO altered VALUES (1, 'x y', 2), (2, NULL, NULL);
INSERT INTO uses_altered SELECT id, altered, ROW('a', 1, 'n')::shrunk, ARRAY[ROW('a', 1, NULL)::shrunk] FROM altered;

UPDATE num SET n = 1.100 WHERE id = 0;
UPDATE txt SET v = 'moved', id = -1 WHERE id = 0;
UPDATE txt SET v = 'wide' WHERE id = 10;
UPDATE usr SET m = 'ok' WHERE id IN (0, 22, 30);
DELETE FROM tim WHERE id = 10;
