-- case 227: identifiers-of-every-kind
-- class: keys / identifiers: what means something in URLs, subjects, files, formats and SQL
-- @schemas: "case_227 %2F/..\ $1"
DROP SCHEMA IF EXISTS case_227 CASCADE;
DROP SCHEMA IF EXISTS "case_227 %2F/..\ $1" CASCADE;
CREATE SCHEMA case_227;
CREATE SCHEMA "case_227 %2F/..\ $1";
CREATE TABLE case_227."." (id int PRIMARY KEY, v text);
CREATE TABLE case_227.".." (".." int PRIMARY KEY, "." text);
CREATE TABLE case_227."a/b?c=d&e#f" ("k/e?y" text PRIMARY KEY, "x=1" text, "select" int);
CREATE TABLE case_227."100% %s %d %20 +" ("%" int, "%%" text, "+" text, PRIMARY KEY ("%", "+"));
CREATE TABLE case_227."quote"" and ' and \ and `" ("""" int PRIMARY KEY, "'" text, "\" text);
CREATE TABLE case_227."*.>.$JS.API" ("*" int PRIMARY KEY, ">" text, "$1" text);
CREATE TABLE case_227." leading and trailing " (" id" int PRIMARY KEY, "id " text, " " text);
CREATE TABLE case_227."ÄÖÜ ß ключ 键 😀 é" ("İı" text PRIMARY KEY, "é" text, "é" text);
CREATE TABLE case_227."{""json"": [1, null]}" ("{}" int PRIMARY KEY, "[]" text, "limit" int, "order" int, "continue" text, "min_version" text);
CREATE TABLE case_227."UPPER" ("ID" int PRIMARY KEY, "Id" text, id text);
CREATE TABLE case_227."upper" (id int PRIMARY KEY);
CREATE TABLE case_227."_syncd_keys" (id int PRIMARY KEY, "_syncd_version" text, "rowid" text, "oid" int);
CREATE TABLE case_227."sixty-three bytes, the most there is: äöüß and so on; end!!" ("a key of sixty-three bytes, the most that Postgres keeps, it is" int PRIMARY KEY, v text);
CREATE TABLE "case_227 %2F/..\ $1"."t able" (U&"tab\0009here" int, U&"new\000aline" text, U&"bell\0007" text, PRIMARY KEY (U&"tab\0009here", U&"new\000aline"));
INSERT INTO case_227."." VALUES (1, 'a'); INSERT INTO case_227.".." VALUES (1, 'a');
INSERT INTO case_227."a/b?c=d&e#f" VALUES ('..', 'x', 1), ('a/b', 'y', 2), ('%2F', 'z', 3), ('', 'empty', 4);
-- STEP: changes
UPDATE case_227."." SET v = 'b', id = 2; UPDATE case_227.".." SET "." = 'b';
UPDATE case_227."a/b?c=d&e#f" SET "k/e?y" = "k/e?y" || ',"' WHERE "select" < 3; DELETE FROM case_227."a/b?c=d&e#f" WHERE "k/e?y" = '';
INSERT INTO case_227."100% %s %d %20 +" VALUES (1, '%', '+'), (2, '%d', ' '); UPDATE case_227."100% %s %d %20 +" SET "+" = '%20' WHERE "%" = 2;
INSERT INTO case_227."quote"" and ' and \ and `" VALUES (1, '''', '\'); UPDATE case_227."quote"" and ' and \ and `" SET "\" = "'" WHERE """" = 1;
INSERT INTO case_227."*.>.$JS.API" VALUES (1, '>', '$1'); UPDATE case_227."*.>.$JS.API" SET "*" = 2, ">" = '*';
INSERT INTO case_227." leading and trailing " VALUES (1, ' x ', ''); UPDATE case_227." leading and trailing " SET "id " = NULL, " " = ' ';
INSERT INTO case_227."ÄÖÜ ß ключ 键 😀 é" VALUES ('I', 'composed', 'decomposed'), ('ı', NULL, NULL); UPDATE case_227."ÄÖÜ ß ключ 键 😀 é" SET "é" = 'x' WHERE "İı" = 'I';
INSERT INTO case_227."{""json"": [1, null]}" VALUES (1, '[]', 1, 2, 'c', '0/0'); UPDATE case_227."{""json"": [1, null]}" SET "{}" = 2, "continue" = '{"a": 1}';
INSERT INTO case_227."UPPER" VALUES (1, 'a', 'b'); INSERT INTO case_227."upper" VALUES (7); UPDATE case_227."UPPER" SET "Id" = id, id = "Id";
INSERT INTO case_227."_syncd_keys" VALUES (1, 'v', 'r', 3); UPDATE case_227."_syncd_keys" SET rowid = 'q';
INSERT INTO case_227."sixty-three bytes, the most there is: äöüß and so on; end!!" VALUES (1, 'a'), (2, 'b'); DELETE FROM case_227."sixty-three bytes, the most there is: äöüß and so on; end!!" WHERE v = 'b';
INSERT INTO "case_227 %2F/..\ $1"."t able" VALUES (1, E'a\nb', E'\u0007'), (2, E'\t', NULL); UPDATE "case_227 %2F/..\ $1"."t able" SET U&"new\000aline" = '' WHERE U&"tab\0009here" = 2;
ALTER TABLE case_227."." RENAME COLUMN v TO "."; ALTER TABLE case_227."." RENAME TO "...";
UPDATE case_227."..." SET "." = 'c'; UPDATE case_227.".." SET ".." = 5;
-- STEP: cleanup
DROP SCHEMA "case_227 %2F/..\ $1" CASCADE;
