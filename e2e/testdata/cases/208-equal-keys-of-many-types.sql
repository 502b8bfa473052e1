-- case 208: equal-keys-of-many-types
-- class: keys / values that are equal and read otherwise; types that are seldom keys
DROP SCHEMA IF EXISTS case_208 CASCADE;
CREATE SCHEMA case_208;
SET search_path = case_208;
CREATE TABLE k_num (k numeric PRIMARY KEY, v int);
CREATE TABLE k_flt (k float8, f float4, v int, PRIMARY KEY (k, f));
CREATE TABLE k_ivl (k interval PRIMARY KEY, v int);
CREATE TABLE k_tz (k timestamptz PRIMARY KEY, v int);
CREATE TABLE k_net (k inet, c cidr, m macaddr8, v int, PRIMARY KEY (k, c, m));
CREATE TABLE k_bytea (k bytea PRIMARY KEY, v int);
CREATE TABLE k_time (k timetz, t time, v int, PRIMARY KEY (k, t));
CREATE TABLE k_sys (k xid8, l pg_lsn, o oid, c "char", n name, m money, v int, PRIMARY KEY (k, l, o, c, n, m));
CREATE TABLE k_bits (k varbit, f bit(3), v int, PRIMARY KEY (k, f));
CREATE TABLE k_ts (k tsvector, q tsquery, v int, PRIMARY KEY (k, q));
CREATE TABLE k_char (k char(6), v int, w text NOT NULL, PRIMARY KEY (k));
INSERT INTO k_num VALUES (1.0, 1), (10, 2), ('NaN', 3), (0.000, 4), (1e100, 5), (-1.5, 6), (123456789012345678901234567890.5, 7);
INSERT INTO k_flt VALUES (0, 0, 1), (1.1, 1.1, 2), ('NaN', 'Infinity', 3), (1e-310, 1e-40, 4), (0.1, '-0', 5);
INSERT INTO k_ivl VALUES ('1 mon', 1), ('24:00', 2), ('-1 day', 3), ('178000000 years', 4), ('00:00:00.000001', 5);
INSERT INTO k_tz VALUES ('infinity', 1), ('-infinity', 2), ('2024-10-27 02:30:00+02', 3), ('0044-03-15 12:00:00+00 BC', 4), ('294276-12-31 23:59:59.999999+00', 5);
INSERT INTO k_net VALUES ('10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03:04:05', 1), ('::ffff:1.2.3.4', '::/0', '0800.2b01.0203', 2), ('10.0.0.1/8', '10.1.0.0/16', '08002b:0102030405', 3);
INSERT INTO k_bytea VALUES ('', 1), ('\x00', 2), ('\x0000', 3), ('\xff', 4), ('a\134b', 5), (decode(repeat('ab', 1000), 'hex'), 6);
INSERT INTO k_time VALUES ('24:00:00+00', '24:00', 1), ('12:00:00+15:59:59', '00:00', 2), ('12:00:00-08:30', '12:00:00.000001', 3);
INSERT INTO k_sys VALUES ('18446744073709551615', 'FFFFFFFF/FFFFFFFF', 4294967295, 'x', 'a name', -1.5, 1), ('0', '0/0', 0, '', '', 0, 2);
INSERT INTO k_bits VALUES ('', '000', 1), ('0', '001', 2), ('00', '111', 3), (repeat('10', 500)::varbit, '101', 4);
INSERT INTO k_ts VALUES ('a:1A b:2', 'a & b', 1), ('', '!x', 2), ('''it''''s'':3', '''it''''s'' <-> b:*', 3);
INSERT INTO k_char VALUES ('', 1, ''), ('a', 2, 'a'), (' a', 3, ' a'), (E'\u00e9', 4, 'e');
-- STEP: changes
SET search_path = case_208;
UPDATE k_num SET k = k * 1.000;                                                 -- equal, with a greater scale: another text of the key
UPDATE k_num SET v = -v WHERE k IN (1, 'NaN');
BEGIN; DELETE FROM k_num WHERE k = 10; INSERT INTO k_num VALUES (10.0000000, 20); COMMIT;
INSERT INTO k_num VALUES (0, 40) ON CONFLICT (k) DO UPDATE SET v = excluded.v;  -- the key keeps the text that it had
DELETE FROM k_num WHERE k = -1.50000;
UPDATE k_flt SET k = -k, f = -f WHERE k = 0;                                    -- -0 is 0
UPDATE k_flt SET f = f * 1 WHERE k = 'NaN'; DELETE FROM k_flt WHERE k = 1.1;
UPDATE k_ivl SET k = '30 days' WHERE k = '1 mon'; UPDATE k_ivl SET k = '1 day' WHERE k = '24 hours'; UPDATE k_ivl SET v = 0 WHERE k = '720:00';
DELETE FROM k_ivl WHERE k = '-24:00';
UPDATE k_tz SET k = 'epoch' WHERE k = 'infinity'; UPDATE k_tz SET k = 'infinity' WHERE k = '-infinity'; INSERT INTO k_tz VALUES ('-infinity', 6);
SET TimeZone = 'Europe/Berlin'; UPDATE k_tz SET v = 33 WHERE k = '2024-10-27 01:30:00 Europe/London'; DELETE FROM k_tz WHERE k = '2024-10-27 00:30:00+00'; RESET TimeZone;
UPDATE k_net SET k = set_masklen(k, 24) WHERE c = '10.0.0.0/8'; UPDATE k_net SET m = trunc(m) WHERE c = '::/0'; DELETE FROM k_net WHERE k = '10.0.0.1/8';
SET bytea_output = 'escape'; UPDATE k_bytea SET k = k || '\x00' WHERE v IN (4, 5, 6); DELETE FROM k_bytea WHERE k = ''; INSERT INTO k_bytea VALUES ('\xff', 7); RESET bytea_output;
UPDATE k_time SET k = '03:00:00+00' WHERE t = '24:00'; DELETE FROM k_time WHERE k = '12:00:00-08:30'; INSERT INTO k_time VALUES ('24:00:00+00', '24:00', 4);
UPDATE k_sys SET o = (o::bigint - 1)::oid, m = m * 2, n = n || E'\t"' WHERE v = 1; UPDATE k_sys SET c = 'y' WHERE v = 2;
UPDATE k_bits SET k = k || B'0' WHERE v = 2; INSERT INTO k_bits VALUES ('0', '001', 5); DELETE FROM k_bits WHERE k = '';
UPDATE k_ts SET k = setweight(k, 'B') WHERE v = 3; DELETE FROM k_ts WHERE k = ''; INSERT INTO k_ts VALUES ('a b', 'a | (b & !c)', 4);
UPDATE k_char SET k = 'A' WHERE k = 'a    '; DELETE FROM k_char WHERE k = '   '; INSERT INTO k_char VALUES ('a  ', 5, 'a  ');
