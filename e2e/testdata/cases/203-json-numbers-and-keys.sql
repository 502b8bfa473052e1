-- case 203: json-numbers-and-keys
-- class: data types / json and jsonb with huge numbers, repeated keys, odd space
DROP SCHEMA IF EXISTS case_203 CASCADE;
CREATE SCHEMA case_203;
SET search_path = case_203;
CREATE TABLE t (id int PRIMARY KEY, j json, b jsonb, a json[], p jsonpath);
CREATE TABLE k (b jsonb PRIMARY KEY, v text);
INSERT INTO t VALUES
  (1, '{"a": 1, "a": 2, "a": {"b": null, "b": []}}', '{"a": 1, "a": 2, "a": {"b": null, "b": []}}', NULL, NULL),
  (2, '[12345678901234567890123456789, 1e400, -0, -0.0, 1.10, 1E+2, 0.1e-7]', '[12345678901234567890123456789, 1e400, -0, -0.0, 1.10, 1E+2, 0.1e-7]', NULL, '$.a[*] ? (@ > 1.10)'),
  (3, E' {\t"b" :\n1 ,\r\n"a" : [ ] } ', E' {\t"b" :\n1 ,\r\n"a" : [ ] } ', ARRAY['{"a": "x\"y"}', 'null', NULL, '  [ 1 ]  ']::json[], NULL),
  (4, '"\ud83d\ude00 \u00e9 \/ \b"', '"\ud83d\ude00 \u00e9 \/ \b"', '{}', NULL),
  (5, 'null', 'null', NULL, NULL), (6, NULL, NULL, NULL, NULL),
  (7, (repeat('[', 500) || repeat(']', 500))::json, (repeat('[', 500) || repeat(']', 500))::jsonb, NULL, NULL);
INSERT INTO k VALUES ('{}', 'object'), ('[]', 'array'), ('null', 'null'), ('"x"', 'text'), ('1.0', 'number'), ('{"b": 1, "a": [1, {"c": null}]}', 'nested'), ('true', 'bool');
-- STEP: changes
SET search_path = case_203;
UPDATE t SET b = b || '{"z": 1.000, "": "empty key", "aa": 0, "b": 1}' WHERE id = 1;
UPDATE t SET j = '1e5000', b = '1e5000' WHERE id = 5;                            -- 5001 digits in jsonb, as written in json
UPDATE t SET b = jsonb_set(b, '{0}', (b -> 0)::text::jsonb, false), a = a || a WHERE id IN (2, 3);
UPDATE t SET j = '{"a":1,"a":1}' WHERE id = 6;
UPDATE t SET j = '{"a":1, "a":1}' WHERE id = 6;                                  -- only the white space differs
UPDATE t SET b = '{"a": 1.0}' WHERE id = 6;
UPDATE t SET b = '{"a": 1.00}' WHERE id = 6;                                     -- equal as jsonb, and prints otherwise
UPDATE k SET b = '1.00' WHERE b = '1';                                           -- an equal key that prints otherwise
UPDATE k SET b = '{"a": [1, {"c": null}], "b": 1.0}' WHERE b = '{"b": 1, "a": [1, {"c": null}]}';
DELETE FROM k WHERE b = 'null';
INSERT INTO k VALUES ('[null]', 'array of null'), ('"NULL"', 'text'), ('{"a, b": "\"\\"}', 'needs quoting');
DELETE FROM t WHERE id = 7;
INSERT INTO t SELECT 8, to_json(x), to_jsonb(x), ARRAY[to_json(x)], NULL FROM (SELECT string_agg(md5(i::text), '') AS big, array_agg(i * 1.10) AS n FROM generate_series(1, 500) i) x;
UPDATE t SET p = '$[0]' WHERE id = 8;                                            -- both documents are unchanged TOAST
