-- With `source.manage: true`, the default: syncd makes the publication and keeps it to the configured tables. Postgres lets none
-- but a table's owner put it into a publication, so syncd becomes a member of the owner's role, here shop.
DO $$BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO syncd', current_database()); END$$;
GRANT shop TO syncd;
