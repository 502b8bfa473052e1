-- The role that syncd signs in with, and the least it needs: replication, and to read what is synced. Run it as a superuser in
-- the database to be synced, with your names and a password of your own. Then run publication.sql, or manage.sql.
CREATE ROLE syncd LOGIN REPLICATION PASSWORD 'change-me';
DO $$BEGIN EXECUTE format('GRANT CONNECT ON DATABASE %I TO syncd', current_database()); END$$;
GRANT USAGE ON SCHEMA public TO syncd;
GRANT SELECT ON public.customers, public.orders TO syncd;
