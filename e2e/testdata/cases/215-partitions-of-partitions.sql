-- case 215: partitions-of-partitions
-- class: partitions / two levels, rows that move, attached with rows, detached concurrently
DROP SCHEMA IF EXISTS case_215 CASCADE;
CREATE SCHEMA case_215;
SET search_path = case_215;
CREATE TABLE ev (day date, region text, id int, v text, big text, PRIMARY KEY (id, region, day)) PARTITION BY RANGE (day);
CREATE TABLE ev_jan PARTITION OF ev FOR VALUES FROM ('2024-01-01') TO ('2024-02-01') PARTITION BY LIST (region);
CREATE TABLE ev_jan_eu PARTITION OF ev_jan FOR VALUES IN ('eu');
CREATE TABLE ev_jan_us PARTITION OF ev_jan FOR VALUES IN ('us');
CREATE TABLE ev_feb (v text, id int, gone int, day date NOT NULL, big text, region text, PRIMARY KEY (id, region, day)) PARTITION BY HASH (id);  -- columns in another order
ALTER TABLE ev_feb DROP COLUMN gone;
CREATE TABLE ev_feb_0 PARTITION OF ev_feb FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE ev_feb_1 (region text, day date NOT NULL, big text, id int, v text, PRIMARY KEY (id, region, day));
ALTER TABLE ev_feb ATTACH PARTITION ev_feb_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
ALTER TABLE ev ATTACH PARTITION ev_feb FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE ev_mar PARTITION OF ev FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
INSERT INTO ev SELECT '2024-01-01'::date + i, (ARRAY['eu', 'us'])[1 + i % 2], i, 'old', repeat(md5(i::text), 200) FROM generate_series(0, 85) i;
-- STEP: changes
SET search_path = case_215;
UPDATE ev SET region = CASE region WHEN 'eu' THEN 'us' ELSE 'eu' END WHERE id < 10;          -- within the second level
UPDATE ev SET day = day + 31, v = 'moved' WHERE id BETWEEN 5 AND 15;                        -- to another of the first level
UPDATE ev SET id = id + 1000 WHERE day >= '2024-02-01' AND id < 50;                          -- to another by hash
DELETE FROM ev_feb_1 WHERE id % 5 = 0;                                                       -- written under the leaf's name
INSERT INTO ev_jan_us VALUES ('2024-01-03', 'us', 2000, 'into the leaf', NULL);
CREATE TABLE ev_apr (LIKE ev INCLUDING ALL) PARTITION BY LIST (region);
CREATE TABLE ev_apr_all PARTITION OF ev_apr DEFAULT;
INSERT INTO ev_apr SELECT '2024-04-01'::date + i, 'jp', 3000 + i, 'before it was attached', NULL FROM generate_series(0, 20) i;
ALTER TABLE ev ATTACH PARTITION ev_apr FOR VALUES FROM ('2024-04-01') TO ('2024-05-01');     -- a whole subtree with rows
UPDATE ev SET v = 'after' WHERE id = 3001;
ALTER TABLE ev DETACH PARTITION ev_mar CONCURRENTLY;                                         -- its rows leave, with no event
UPDATE ev_mar SET v = 'by itself now';
ALTER TABLE ev_jan DETACH PARTITION ev_jan_eu;                                               -- from the second level
INSERT INTO ev_jan_eu VALUES ('2024-01-05', 'anywhere', 4000, 'by itself', NULL);
BEGIN; ALTER TABLE ev_feb DETACH PARTITION ev_feb_0; DELETE FROM ev_feb_0 WHERE v = 'moved'; ALTER TABLE ev_feb ATTACH PARTITION ev_feb_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0); COMMIT;
DROP TABLE ev_apr_all;
TRUNCATE ev_feb_0;
UPDATE ev SET v = 'last' WHERE day < '2024-02-01';
